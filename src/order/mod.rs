//! Which record comes when, and who gets it. Pure functions of (shards, counts, seed, epoch): no I/O, no state that
//! speed could change.
//!
//! **Sequence.** An epoch is one sequence of all records; a record's place in it is its *position*. [`EpochOrder`] puts the
//! shards in order (their place is a *slot*), by key or by a keyed [`Permutation`], new for each epoch and in constant
//! memory, and says which record is at a position, and back:
//! - [`Shuffle::Sequential`] and [`Shuffle::Shards`]: the records of a shard follow each other as in the file.
//! - [`Shuffle::Blocks`]: the slots are cut into groups of [`Mixing::shards`], the records of a group into runs of
//!   [`Mixing::run`]. The runs of a group are permuted (the last, which may be short, is put where the permutation has it),
//!   what comes out is cut into windows of [`Mixing::window`], and the records of each window are permuted.
//! - [`Shuffle::Full`]: all records, permuted.
//!
//! **Parts.** With [`Parts`] the slots are divided among the nodes of a cluster, each part is a sequence of its own, and the
//! epoch takes a chunk of each in turn.
//!
//! **Dealing.** [`Deal`] cuts the sequence into global batches of `world_size * batch_size` positions and gives each rank
//! its slice, by position and never by shard: fewer shards than ranks is no special case, and the same global batch has
//! the same records however many nodes take part. All ranks have the same number of batches; what does not
//! fill the last one is dropped, padded or shared out as [`Remainder`] says. No batch is ever empty.
//!
//! **Counts.** Nobody knows how many records a TFRecord shard has before it was read once. [`Counts`] learns them along the
//! sequence and says which shard must be counted before a position can be found: one shard after another, a group of
//! shards, or all of them (`Full`, parts). Counting may begin in the middle of an epoch, at an [anchor](EpochOrder::anchor).
//!
//! Epoch keys are made by hashing (seed, epoch, purpose): neighbouring seeds share nothing. What a seed means is fixed for
//! all versions, since a resumed job must find the order it left.
//!
//! **Pads.** A pad repeats a record from the start of the same epoch, the next one for each pad, and is marked, so that a
//! trainer can leave it out. Pads exist in the last global batch alone. With `partial` there are some only if fewer
//! records than ranks are left.
//!
//! Limits: looking up a position costs a binary search over the slots, with parts also a step for each part. What each order
//! costs and how well it mixes stands in `docs/order.md`; `cargo bench --bench order` measures it.

mod counts;
mod deal;
mod parts;
mod permutation;
mod sequence;
#[cfg(test)]
mod tests;

pub use counts::{Counts, Located};
pub use deal::{Deal, Remainder, Share};
pub use parts::Parts;
pub use permutation::{Permutation, epoch_key};
pub use sequence::{EpochOrder, Mixing, Shuffle};
