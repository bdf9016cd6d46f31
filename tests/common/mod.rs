//! A daemon of its own for each test: the real binary, in a directory that goes away with the test.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod bucket;

use feedline::record::append_record;
use feedline_client::{Batch, Client, Error, Status, Stream, StreamOptions};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything that must happen may take before a test fails.
pub const LIMIT: Duration = Duration::from_secs(30);

/// How a daemon is started. Small blocks, so that records cross their borders.
#[derive(Debug, Clone)]
pub struct Setup {
    pub options: Vec<(String, String)>,
    pub env: Vec<(String, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        let setup = Self { options: Vec::new(), env: Vec::new() };
        setup
            .with("pool.bytes", "16 MiB")
            .with("pool.block_bytes", "64 KiB")
            .with("cache.bytes", "256 MiB")
            .with("prefetch.threads", "4")
            .with("prefetch.inflight_bytes", "4 MiB")
            .with("prefetch.window_bytes", "2 MiB")
            .with("telemetry.listen", "off")
            .with("serve.threads", "2")
    }
}

impl Setup {
    /// Sets a key of the configuration.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.options.retain(|(known, _)| known != key);
        self.options.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The credentials and the end-point of an S3 server.
    pub fn s3(self, url: &str, access_key: &str, secret_key: &str) -> Self {
        self.env("AWS_ENDPOINT_URL", url)
            .env("AWS_ACCESS_KEY_ID", access_key)
            .env("AWS_SECRET_ACCESS_KEY", secret_key)
    }
}

/// A running daemon.
pub struct Daemon {
    child: Child,
    dir: TempDir,
    setup: Setup,
}

impl Daemon {
    /// Starts a daemon with a new cache and waits until it serves.
    pub fn start(setup: Setup) -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let child = spawn(dir.path(), &setup);
        Self { child, dir, setup }
    }

    /// Ends the process with SIGKILL and starts another on the same cache.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.child = spawn(self.dir.path(), &self.setup);
    }

    /// Ends the process with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again after [`Self::kill`] or [`Self::terminate`], with another set-up.
    pub fn restart_with(&mut self, setup: Setup) {
        self.setup = setup;
        self.child = spawn(self.dir.path(), &self.setup);
    }

    /// Asks the process to end and waits for it.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(rustix::process::Signal::TERM);
        self.child.wait().expect("the daemon ends")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .expect("a process id");
        rustix::process::kill_process(pid, signal).expect("the daemon runs");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A directory for the test's own files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn cache_dir(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    pub fn socket(&self) -> PathBuf {
        socket(self.dir.path())
    }

    /// What the daemon wrote to standard error so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.socket()).expect("the daemon answers")
    }

    pub fn status(&self) -> Status {
        self.client().status().expect("the daemon answers")
    }

    pub fn open(&self, options: &StreamOptions) -> Stream {
        self.try_open(options).unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    pub fn try_open(&self, options: &StreamOptions) -> Result<Stream, Error> {
        self.client().open(options)
    }

    /// All records of a stream, copied, in order; panics on an error.
    pub fn records(&self, options: &StreamOptions) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        for batch in batches(self.open(options)) {
            let batch = batch.unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
            records.extend(batch.iter().map(<[u8]>::to_vec));
        }
        records
    }

    /// Asks for the status until it is as wanted; panics with the last one after [`LIMIT`].
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let start = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(start.elapsed() < LIMIT, "{what} did not come about: {status:#?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until nothing is held any more: no stream, no lease, nothing in flight.
    pub fn wait_until_idle(&self) -> Status {
        self.wait_until("an idle daemon", |status| {
            let (pool, cache) = (status.pool.unwrap_or_default(), status.cache.clone().unwrap_or_default());
            status.streams.is_empty()
                && pool.leased == 0
                && pool.busy == 0
                && cache.reserved_bytes == 0
                && status.inflight.is_some_and(|budget| budget.used_bytes == 0)
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("feedline.sock")
}

fn spawn(dir: &Path, setup: &Setup) -> Child {
    let notify = dir.join("notify");
    let _ = std::fs::remove_file(&notify);
    let ready = UnixDatagram::bind(&notify).expect("notify socket");
    ready.set_read_timeout(Some(LIMIT)).expect("time-out");
    let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).expect("log file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
    command.arg("serve").env_remove("FEEDLINE_CONFIG").env("NOTIFY_SOCKET", &notify);
    command.args(["--set", &format!("serve.socket={}", socket(dir).display())]);
    command.args(["--set", &format!("cache.dir={}", dir.join("cache").display())]);
    for (key, value) in &setup.options {
        command.args(["--set", &format!("{key}={value}")]);
    }
    for (name, value) in &setup.env {
        command.env(name, value);
    }
    let out = log.try_clone().expect("log file");
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(log).spawn().expect("the daemon starts");
    if let Err(error) = await_ready(&ready) {
        let _ = child.kill();
        let _ = child.wait();
        let text = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        panic!("the daemon did not get ready ({error}):\n{text}");
    }
    child
}

/// Waits until the daemon says that it serves.
fn await_ready(notices: &UnixDatagram) -> std::io::Result<()> {
    let mut message = [0; 512];
    loop {
        let read = notices.recv(&mut message)?;
        if String::from_utf8_lossy(&message[..read]).contains("READY=1") {
            return Ok(());
        }
    }
}

/// The batches of a stream; none takes longer than [`LIMIT`].
pub fn batches(mut stream: Stream) -> impl Iterator<Item = Result<Batch, Error>> {
    std::iter::from_fn(move || stream.next_batch_within(LIMIT).transpose())
}

/// A pattern for all shards in a directory.
pub fn pattern(dir: &Path) -> String {
    format!("{}/*.tfrecord*", dir.display())
}

/// Writes shards of the given record counts; record `r` of shard `s` is `payload(s, r)`.
pub fn write_shards(dir: &Path, counts: &[u64], payload: impl Fn(u64, u64) -> Vec<u8>) -> Vec<PathBuf> {
    std::fs::create_dir_all(dir).expect("directory");
    let mut paths = Vec::new();
    for (shard, &count) in (0_u64..).zip(counts) {
        let mut bytes = Vec::new();
        for record in 0..count {
            append_record(&mut bytes, &payload(shard, record));
        }
        let path = dir.join(format!("part-{shard:05}.tfrecord"));
        std::fs::write(&path, bytes).expect("shard");
        paths.push(path);
    }
    paths
}

/// A payload that says who it is, `length` bytes long or as long as that takes.
pub fn tagged(shard: u64, record: u64, length: usize) -> Vec<u8> {
    let mut payload = format!("shard {shard} record {record} ").into_bytes();
    let mut state = shard << 32 | record;
    while payload.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        payload.extend_from_slice(&state.to_le_bytes());
    }
    payload
}
