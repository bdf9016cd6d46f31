//! Opening a stream: the request is checked, the dataset listed, the place found, and the shared memory made.

use super::batch::Held;
use super::datasets::Dataset;
use super::failure::{BLOCKS_PER_STREAM, StreamFailure};
use super::jobs::{JobName, Member};
use super::registry::Opening;
use super::resume;
use super::session::Shared;
use super::stream::{RETURN_ENTRIES, RING_BYTES, Stream, StreamDescriptors};
use super::walk::{Plan, Walk};
use crate::order::{Deal, Remainder, Shuffle};
use crate::record::CorruptPolicy;
use feedline_proto::v1::{self, OpenStream};
use std::sync::Arc;

/// Most batches that a client may ask to have ready.
const MAX_READY: u64 = 1024;

/// Opens the stream that a client asks for: what it reads, where it starts, and the memory that it shares.
pub(super) async fn open_stream(
    shared: &Arc<Shared>,
    open: &OpenStream,
    pid: u32,
    uid: u32,
) -> Result<(Stream, v1::StreamOpened, StreamDescriptors), StreamFailure> {
    let (deal, shuffle) = checked(open)?;
    // Counted from here on, so that two that come at once do not both find the last room.
    let lease = shared.leases.open();
    let (streams, limit) = (shared.leases.streams(), shared.leases.limit());
    if streams * BLOCKS_PER_STREAM > limit {
        let (streams, block_bytes) = (streams - 1, shared.loader.block_bytes());
        return Err(StreamFailure::PoolShared { streams, limit, block_bytes });
    }
    let dataset = shared.datasets.resolve(&open.dataset, &shared.loader).await?;
    let (known, loader) = (Arc::clone(&dataset), shared.loader.clone());
    let total = tokio::task::spawn_blocking(move || known.count(&loader)).await.ok().flatten();
    let parts = resume::parts(open)?;
    let needs_counts =
        [(shuffle == Shuffle::Full, "shuffle \"full\""), (parts.is_some(), "placement \"sticky\"")];
    if let Some((_, what)) = needs_counts.into_iter().find(|(needed, _)| *needed && total.is_none()) {
        return Err(uncounted(what, &open.dataset));
    }
    let own = resume::token(open, &dataset, shuffle, parts);
    let (token, member) = enter(shared, open, &dataset, &own).await?;
    let (start, parts) = (resume::place(&token), resume::parts_of(&token));
    let corrupt = match &open.corrupt {
        None => dataset.corrupt,
        Some(v1::CorruptPolicy { skip: 0 }) => CorruptPolicy::Fail,
        Some(v1::CorruptPolicy { skip }) => CorruptPolicy::Skip { max: *skip },
    };
    let job = if open.job.is_empty() { dataset.title.clone() } else { open.job.clone() };
    let entry = shared.registry.enter(Opening {
        job,
        dataset: dataset.title.clone(),
        label: dataset.label.clone(),
        rank: open.rank,
        world_size: open.world_size,
        pid,
        uid,
    });
    tracing::info!(
        stream = entry.info.id,
        dataset = dataset.title,
        shards = dataset.shards.len(),
        pid,
        uid,
        rank = open.rank,
        world_size = open.world_size,
        batch_size = open.batch_size,
        "stream opened"
    );
    let shards = dataset.shards.len() as u64;
    let plan = Plan {
        dataset,
        deal,
        shuffle,
        parts,
        seed: open.seed,
        epochs: open.epochs,
        corrupt,
        window: shared.window,
    };
    let walk = Walk::new(shared.loader.clone(), plan, start);
    let ready = if open.ready == 0 { shared.ready } else { u64::from(open.ready).min(MAX_READY) };
    let id = entry.info.id;
    let held = Held::new(lease);
    let (stream, descriptors) = Stream::new(shared.loader.clone(), walk, held, entry, member, ready)?;
    let pool = &shared.loader.parts().pool;
    let opened = v1::StreamOpened {
        stream: id,
        ring_bytes: RING_BYTES,
        return_entries: RETURN_ENTRIES,
        segments: vec![v1::Segment { id: 0, bytes: pool.bytes(), slot_bytes: pool.block_bytes() }],
        shards,
        records: total,
        batches: total.map(|total| deal.batches(total)),
        start: Some(token),
    };
    Ok((stream, opened, descriptors))
}

/// The token that the stream starts with, and its part in its job if that has a name.
async fn enter(
    shared: &Shared,
    open: &OpenStream,
    dataset: &Dataset,
    own: &v1::ResumeToken,
) -> Result<(v1::ResumeToken, Option<Member>), StreamFailure> {
    let name = JobName { job: open.job.clone(), dataset: dataset.title.clone() };
    if let Some(found) = &open.resume {
        resume::check(found, own, dataset)?;
        let member = (!name.job.is_empty()).then(|| shared.jobs.enter(name, open.rank, found));
        return Ok((found.clone(), member));
    }
    if name.job.is_empty() {
        if open.resume_job {
            return Err(StreamFailure::Invalid {
                message: "only a job with a name can be gone on with".to_owned(),
                hint: "give the stream a job name, the same in every run".to_owned(),
            });
        }
        return Ok((own.clone(), None));
    }
    if !open.resume_job {
        return Ok((own.clone(), Some(shared.jobs.enter(name, open.rank, own))));
    }
    let (member, token) = shared.jobs.go_on(name, open.rank, own).await?;
    Ok((token, Some(member)))
}

/// Some orders cannot begin before all records are counted.
fn uncounted(what: &str, dataset: &[String]) -> StreamFailure {
    StreamFailure::Invalid {
        message: format!("{what} needs the record counts of all shards of {}", dataset.join(" ")),
        hint: format!(
            "count them once with: feedline dataset index {}; or read the dataset once in another order",
            dataset.iter().map(|url| format!("'{url}'")).collect::<Vec<_>>().join(" ")
        ),
    }
}

fn checked(open: &OpenStream) -> Result<(Deal, Shuffle), StreamFailure> {
    let refuse = |message: String, hint: &str| Err(StreamFailure::Invalid { message, hint: hint.to_owned() });
    if open.batch_size == 0 {
        return refuse("batch_size is 0".to_owned(), "ask for at least one record per batch");
    }
    if open.world_size == 0 || open.rank >= open.world_size {
        let message = format!("rank {} of world size {} does not exist", open.rank, open.world_size);
        return refuse(message, "ranks count from 0 and stay below the world size");
    }
    let shuffle = match open.shuffle() {
        v1::Shuffle::Unspecified | v1::Shuffle::Sequential => Shuffle::Sequential,
        v1::Shuffle::Shards => Shuffle::Shards,
        v1::Shuffle::Blocks => Shuffle::Blocks(resume::mixing(open.mixing.as_ref())),
        v1::Shuffle::Full => Shuffle::Full,
    };
    let remainder = match open.remainder() {
        v1::Remainder::Unspecified | v1::Remainder::Drop => Remainder::Drop,
        v1::Remainder::Pad => Remainder::Pad,
        v1::Remainder::Partial => Remainder::Partial,
    };
    let unknown = |name: &str, value: i32| {
        refuse(
            format!("{name} {value} is not known to this daemon"),
            "install client and daemon of the same version",
        )
    };
    if v1::Shuffle::try_from(open.shuffle).is_err() {
        return unknown("shuffle", open.shuffle);
    }
    if v1::Remainder::try_from(open.remainder).is_err() {
        return unknown("remainder", open.remainder);
    }
    let deal = Deal {
        batch_size: open.batch_size.into(),
        world_size: open.world_size.into(),
        rank: open.rank.into(),
        remainder,
    };
    Ok((deal, shuffle))
}
