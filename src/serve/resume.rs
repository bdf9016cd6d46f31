//! Tokens: what they say of a job, and whether a job may go on with one.

use super::datasets::Dataset;
use super::failure::StreamFailure;
use crate::order::{Mixing, Parts, Shuffle};
use feedline_proto::shm::Mark;
use feedline_proto::v1::{self, OpenStream, ResumeToken};
use std::num::NonZeroU64;

/// How far to mix; what is 0 or absent is the default.
pub(super) fn mixing(asked: Option<&v1::Mixing>) -> Mixing {
    let (default, asked) = (Mixing::default(), asked.copied().unwrap_or_default());
    let or = |number, default| NonZeroU64::new(number).unwrap_or(default);
    Mixing {
        shards: or(asked.shards, default.shards),
        run: or(asked.run, default.run),
        window: or(asked.window, default.window),
    }
}

/// How the dataset is divided, with chunks that make a global batch.
pub(super) fn parts(open: &OpenStream) -> Result<Option<Parts>, StreamFailure> {
    let Some(count) = NonZeroU64::new(open.parts) else { return Ok(None) };
    let refuse = |message: String, hint: String| Err(StreamFailure::Invalid { message, hint });
    if count.get() > MOST_PARTS {
        return refuse(
            format!("{count} parts are too many"),
            format!("at most {MOST_PARTS} nodes are allowed"),
        );
    }
    let global = u64::from(open.batch_size) * u64::from(open.world_size);
    match NonZeroU64::new(global / count) {
        Some(chunk) if global.is_multiple_of(count.get()) => Ok(Some(Parts { count, chunk })),
        _ => refuse(
            format!("a global batch of {global} records cannot be divided among {count} parts"),
            "let world size times batch size be a multiple of the number of nodes".to_owned(),
        ),
    }
}

/// How the dataset of a job with this token is divided.
pub(super) fn parts_of(token: &ResumeToken) -> Option<Parts> {
    Some(Parts { count: NonZeroU64::new(token.parts)?, chunk: NonZeroU64::new(token.chunk)? })
}

/// More parts would make every look for a record slow.
const MOST_PARTS: u64 = 1_024;

/// The token of a stream at its beginning.
pub(super) fn token(
    open: &OpenStream,
    dataset: &Dataset,
    shuffle: Shuffle,
    parts: Option<Parts>,
) -> ResumeToken {
    let mixing = match shuffle {
        Shuffle::Blocks(Mixing { shards, run, window }) => {
            Some(v1::Mixing { shards: shards.get(), run: run.get(), window: window.get() })
        }
        Shuffle::Sequential | Shuffle::Shards | Shuffle::Full => None,
    };
    ResumeToken {
        content: dataset.content.to_vec(),
        shards: dataset.shards.len() as u64,
        bytes: dataset.bytes(),
        shuffle: wire(shuffle).into(),
        mixing,
        // The order of the keys is the same for every seed.
        seed: if shuffle == Shuffle::Sequential { 0 } else { open.seed },
        parts: parts.map_or(0, |parts| parts.count.get()),
        chunk: parts.map_or(0, |parts| parts.chunk.get()),
        ..ResumeToken::default()
    }
}

fn wire(shuffle: Shuffle) -> v1::Shuffle {
    match shuffle {
        Shuffle::Sequential => v1::Shuffle::Sequential,
        Shuffle::Shards => v1::Shuffle::Shards,
        Shuffle::Blocks(_) => v1::Shuffle::Blocks,
        Shuffle::Full => v1::Shuffle::Full,
    }
}

/// The place in a token.
pub(super) fn place(token: &ResumeToken) -> Mark {
    let ResumeToken { epoch, position, batch, slot, slot_position, .. } = *token;
    Mark { epoch, position, batch, slot, slot_position }
}

/// The token of the same job at another place.
pub(super) fn moved(token: &ResumeToken, to: &Mark) -> ResumeToken {
    let Mark { epoch, position, batch, slot, slot_position } = *to;
    ResumeToken { epoch, position, batch, slot, slot_position, ..token.clone() }
}

/// Whether a stream with the token `own` may go on from `found`.
pub(super) fn fits(found: &ResumeToken, own: &ResumeToken) -> Result<(), StreamFailure> {
    let Some((what, theirs, ours)) = difference(found, own) else { return Ok(()) };
    Err(StreamFailure::Invalid {
        message: format!("the token belongs to another job: its {what} is {theirs}, and this stream's is {ours}"),
        hint: "open the stream as it was when the token was taken, or start anew: without the token, under another \
               job name"
            .to_owned(),
    })
}

/// No epoch, position or batch of a real job is larger; sums of them stay far from overflowing.
const LARGEST: u64 = 1 << 56;

/// Whether a stream may start with a token that it brings.
pub(super) fn check(found: &ResumeToken, own: &ResumeToken, dataset: &Dataset) -> Result<(), StreamFailure> {
    fits(found, own)?;
    let mark = place(found);
    let counted = dataset.counts().map(|counts| counts.iter().map(|count| count.good).sum::<u64>());
    let large = [mark.epoch, mark.position, mark.batch].iter().any(|&number| number > LARGEST);
    let beyond = large || counted.is_some_and(|total| mark.position > total);
    if mark.slot > own.shards || mark.slot_position > mark.position || beyond {
        return Err(StreamFailure::Invalid {
            message: format!(
                "the token's place does not exist: position {} of epoch {}, shard {}",
                mark.position, mark.epoch, mark.slot
            ),
            hint: "the token is damaged; take an older one, or start without".to_owned(),
        });
    }
    Ok(())
}

/// The first thing in which two tokens differ, other than the place: name, and both values.
fn difference(found: &ResumeToken, own: &ResumeToken) -> Option<(&'static str, String, String)> {
    let numbers = [("number of shards", found.shards, own.shards), ("size in bytes", found.bytes, own.bytes)];
    let number = numbers.into_iter().find(|(_, found, own)| found != own);
    if let Some((what, found, own)) = number {
        return Some((what, found.to_string(), own.to_string()));
    }
    if found.content != own.content {
        return Some((
            "content (keys, sizes and versions of the shards)",
            hex(&found.content),
            hex(&own.content),
        ));
    }
    if found.shuffle != own.shuffle {
        let name = |number| v1::Shuffle::try_from(number).map_or("unknown", |shuffle| shuffle.as_str_name());
        let name = |number| name(number).trim_start_matches("SHUFFLE_").to_lowercase();
        return Some(("shuffle", name(found.shuffle), name(own.shuffle)));
    }
    if found.mixing != own.mixing {
        let text = |mixing: &Option<v1::Mixing>| {
            mixing.map_or("none".to_owned(), |v1::Mixing { shards, run, window }| {
                format!("{shards} shards, runs of {run}, windows of {window}")
            })
        };
        return Some(("mixing", text(&found.mixing), text(&own.mixing)));
    }
    // The chunk is the token's: a job goes on with the chunks that it began with, whatever its batches are now.
    if found.parts != own.parts || (found.parts > 0 && found.chunk == 0) {
        return Some(("number of parts", found.parts.to_string(), own.parts.to_string()));
    }
    (found.seed != own.seed).then(|| ("seed", found.seed.to_string(), own.seed.to_string()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
