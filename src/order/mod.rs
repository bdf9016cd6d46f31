//! Which record comes when, and who gets it. Pure functions of (shards, counts, seed, epoch): no I/O, no state that
//! speed could change.
//!
//! **Sequence.** An epoch is one sequence of all records. [`EpochOrder`] puts the shards in order ([`Shuffle::Sequential`]:
//! by key; [`Shuffle::Shards`]: a keyed [`Permutation`], new for each epoch, in constant memory); the records of a shard
//! follow each other as in the file. A record's place in the sequence is its *position*.
//!
//! **Dealing.** [`Deal`] cuts the sequence into global batches of `world_size * batch_size` positions and gives each rank
//! its slice, by position and never by shard: fewer shards than ranks is no special case, and the same global batch has
//! the same records however many nodes take part. All ranks have the same number of batches; what does not
//! fill the last one is dropped, padded or shared out as [`Remainder`] says. No batch is ever empty.
//!
//! **Counts.** Nobody knows how many records a TFRecord shard has before it was read once. [`Counts`] learns them along the
//! sequence and says which shard must be counted before a position can be found.
//!
//! Epoch keys are made by hashing (seed, epoch, purpose): neighbouring seeds share nothing. What a seed means is fixed for
//! all versions, since a resumed job must find the order it left.
//!
//! **Pads.** A pad repeats a record from the start of the same epoch, the next one for each pad, and is marked, so that a
//! trainer can leave it out. Pads exist in the last global batch alone. With `partial` there are some only if fewer
//! records than ranks are left.
//!
//! Limits: mixing happens between shards only; the orders that mix records inside shards will be further [`Shuffle`]s.

mod counts;
mod deal;
mod parts;
mod permutation;
mod sequence;

pub use counts::{Counts, Located};
pub use deal::{Deal, Remainder, Share};
pub use parts::Parts;
pub use permutation::{Permutation, epoch_key};
pub use sequence::{EpochOrder, Mixing, Shuffle};
