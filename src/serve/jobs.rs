//! Where each named job is, kept on disk, for trainers that keep no token of their own.
//!
//! A job is a name and a dataset. Its streams say which batches the trainer took; the job's place is the earliest of its
//! ranks' places, since all ranks must go on at the same global batch. It is written when the last stream closes and once
//! a second while batches are taken, so after a crash of the whole node a job may go on a second too early, never too late.
//!
//! The first stream that opens when none is open begins a new *run* at the job's place, and every rank that opens later
//! begins there too. A rank that comes back while the others go on continues alone at its own place. Since the ranks of a
//! trainer that is started anew come one by one, and its old ones go one by one, a rank that comes back first waits a
//! moment for the others of its old run to go.
//!
//! Limits: a daemon knows the ranks of its own node only. A job over several nodes needs tokens.

use super::failure::StreamFailure;
use super::resume;
use crate::record::crc32c;
use feedline_proto::shm::Mark;
use feedline_proto::v1::{JobPosition, ResumeToken};
use prost::Message;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How long a rank that comes back waits for the other ranks of its run to go.
const OLD_RUN: Duration = Duration::from_secs(2);
/// How often places are written while they change.
pub(super) const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Version of the file.
const MAGIC: &[u8; 8] = b"FLJOB001";

/// Name and dataset, as asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct JobName {
    pub(super) job: String,
    pub(super) dataset: String,
}

#[derive(Debug)]
struct Run {
    /// What the job reads, with the place where this run began.
    token: ResumeToken,
    /// Where each rank is that has been here in this run.
    ranks: BTreeMap<u32, Mark>,
    open: BTreeMap<u32, u32>,
    changed: bool,
}

impl Run {
    fn place(&self) -> Mark {
        let earliest = self.ranks.values().min_by_key(|mark| (mark.epoch, mark.position)).copied();
        earliest.unwrap_or_else(|| resume::place(&self.token))
    }
}

/// All jobs that are open, and the files of the others.
#[derive(Debug)]
pub(super) struct Jobs {
    dir: PathBuf,
    runs: Mutex<HashMap<JobName, Run>>,
    closed: watch::Sender<u64>,
    taken: watch::Sender<u64>,
}

/// A stream's part in its job. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Member {
    jobs: Arc<Jobs>,
    name: JobName,
    rank: u32,
}

impl Jobs {
    pub(super) fn new(cache_dir: &Path) -> io::Result<Arc<Self>> {
        let dir = cache_dir.join("jobs");
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Ok(Arc::new(Self {
            dir,
            runs: Mutex::default(),
            closed: watch::Sender::new(0),
            taken: watch::Sender::new(0),
        }))
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<JobName, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a stream that starts where it says itself.
    pub(super) fn enter(self: &Arc<Self>, name: JobName, rank: u32, token: &ResumeToken) -> Member {
        let mut runs = self.runs();
        let fresh =
            || Run { token: token.clone(), ranks: BTreeMap::new(), open: BTreeMap::new(), changed: true };
        let run = runs.entry(name.clone()).or_insert_with(fresh);
        if run.open.is_empty() {
            *run = fresh();
        }
        run.ranks.insert(rank, resume::place(token));
        *run.open.entry(rank).or_default() += 1;
        drop(runs);
        Member { jobs: Arc::clone(self), name, rank }
    }

    /// Enters a stream that goes on where its job is; `own` is the token of one that starts at the beginning. Gives its token.
    pub(super) async fn go_on(
        self: &Arc<Self>,
        name: JobName,
        rank: u32,
        own: &ResumeToken,
    ) -> Result<(Member, ResumeToken), StreamFailure> {
        let mut closed = self.closed.subscribe();
        let wait = async {
            while self
                .runs()
                .get(&name)
                .is_some_and(|run| run.ranks.contains_key(&rank) && !run.open.is_empty())
            {
                let _ = closed.changed().await;
            }
        };
        // When the others stay, the rank goes on alone.
        let _ = tokio::time::timeout(OLD_RUN, wait).await;
        let stored = match self.runs().get(&name) {
            Some(_) => None,
            None => self.read(&name)?,
        };
        let mut runs = self.runs();
        let token = match runs.get(&name) {
            Some(run) => run.token.clone(),
            None => stored.unwrap_or_else(|| own.clone()),
        };
        resume::fits(&token, own)?;
        let run = runs.entry(name.clone()).or_insert_with(|| Run {
            token,
            ranks: BTreeMap::new(),
            open: BTreeMap::new(),
            changed: false,
        });
        if run.open.is_empty() {
            let place = run.place();
            run.token = resume::moved(&run.token, &place);
            run.ranks.clear();
        }
        let start = run.ranks.get(&rank).copied().unwrap_or_else(|| resume::place(&run.token));
        run.ranks.insert(rank, start);
        *run.open.entry(rank).or_default() += 1;
        let token = resume::moved(&run.token, &start);
        drop(runs);
        Ok((Member { jobs: Arc::clone(self), name, rank }, token))
    }

    /// Sees every batch that is taken.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.taken.subscribe()
    }

    /// Writes the places that have changed.
    pub(super) fn write_changed(&self) {
        let changed: Vec<(JobName, ResumeToken)> = {
            let mut runs = self.runs();
            let changed = runs.iter_mut().filter(|(_, run)| run.changed);
            let place = |run: &mut Run| {
                run.changed = false;
                resume::moved(&run.token, &run.place())
            };
            changed.map(|(name, run)| (name.clone(), place(run))).collect()
        };
        for (name, token) in changed {
            let path = self.path(&name);
            if let Err(error) = write(&path, &name, token) {
                tracing::warn!(job = name.job, path = %path.display(), %error, "the place of a job cannot be kept");
                if let Some(run) = self.runs().get_mut(&name) {
                    run.changed = true;
                }
            }
        }
        // What stands on disk needs no memory.
        self.runs().retain(|_, run| run.changed || !run.open.is_empty());
    }

    fn path(&self, name: &JobName) -> PathBuf {
        let mut hash = Sha256::new();
        for part in [&name.job, &name.dataset] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let file: String = hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        self.dir.join(file)
    }

    fn read(&self, name: &JobName) -> Result<Option<ResumeToken>, StreamFailure> {
        let path = self.path(name);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => {
                return Err(StreamFailure::System { what: "cannot read the place of the job", cause });
            }
        };
        match decode(&bytes, name) {
            Some(token) => Ok(Some(token)),
            // Starting over in silence would be worse than not starting.
            None => Err(StreamFailure::Invalid {
                message: format!("the place of job {:?} is damaged: {}", name.job, path.display()),
                hint: "remove the file to start the job from the beginning, or resume with a token"
                    .to_owned(),
            }),
        }
    }
}

fn decode(bytes: &[u8], name: &JobName) -> Option<ResumeToken> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    if crc32c(body).to_le_bytes() != *crc {
        return None;
    }
    let position = JobPosition::decode(body.strip_prefix(MAGIC)?).ok()?;
    (position.job == name.job && position.dataset == name.dataset).then_some(position.token?)
}

fn write(path: &Path, name: &JobName, token: ResumeToken) -> io::Result<()> {
    let position = JobPosition { job: name.job.clone(), dataset: name.dataset.clone(), token: Some(token) };
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&position.encode_to_vec());
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let new = path.with_extension("new");
    std::fs::write(&new, bytes)?;
    std::fs::rename(&new, path)
}

impl Member {
    /// The trainer has taken the batches before this place.
    pub(super) fn took(&self, mark: Mark) {
        if let Some(run) = self.jobs.runs().get_mut(&self.name)
            && run.ranks.insert(self.rank, mark) != Some(mark)
        {
            run.changed = true;
            self.jobs.taken.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let last = {
            let mut runs = self.jobs.runs();
            let Some(run) = runs.get_mut(&self.name) else { return };
            if let Some(count) = run.open.get_mut(&self.rank) {
                *count -= 1;
                if *count == 0 {
                    run.open.remove(&self.rank);
                }
            }
            run.open.is_empty()
        };
        if last {
            self.jobs.write_changed();
        }
        self.jobs.closed.send_modify(|count| *count = count.wrapping_add(1));
    }
}
