//! Batches through shared memory: what both sides map, who writes what, and what may be believed.
//!
//! Three kinds of memfd pass from the daemon to a client, all sealed against resizing, none with a name in the file
//! system:
//!
//! | memory | written by | read by | holds |
//! | --- | --- | --- | --- |
//! | pool segment | daemon (and its disk) | client, mapped read-only | blocks of shards, where the records lie |
//! | descriptor ring | daemon | client, mapped read-only | one entry per batch: which spans of which blocks |
//! | return ring | client | daemon | how far the client has read, which batches it has given back |
//!
//! A batch is a list of *runs*: a block, an offset, and the lengths of records that follow each other there as TFRecord
//! frames do (12 bytes before each payload, 4 behind). Shuffling, sharding and batching therefore move a few bytes per
//! record; the payload stays where the disk or the network put it. A record that crosses a block border comes as
//! several runs of one part each and is put together by the client; it is the only copy, about one record per block.
//!
//! Ownership lives in the daemon alone. The client says "batch 17 is given back" by number; the daemon checks the number
//! against its own list and treats anything else as a broken client ([`Violation`]), which ends that stream and
//! nothing else. In the other direction the client trusts the daemon, yet checks every offset against the mapping's
//! bounds, so that a fault of the daemon is an error and not a crash of the trainer.
//!
//! Waiting: each side raises a flag in the memory that it may write, looks once more, and then sleeps in `poll(2)` on
//! an eventfd (the daemon: on a socket pair) *and* the control socket. So an idle pair uses no CPU at all, there is no time-out to tune, and the death
//! of either side wakes the other at once. (A futex cannot be waited for together with a socket.)
//!
//! The byte-exact page is `docs/shared-memory.md`; [`layout`] holds its numbers and a golden test.

pub mod batch;
pub mod consumer;
pub mod layout;
pub mod map;
pub mod producer;

pub use batch::{BatchHeader, BatchWriter, Mark, Run};
pub use consumer::{Consumer, Entry, PoolView, Records};
pub use map::{Mapping, create_sealed, seal_against_new_writers};
pub use producer::{Producer, Violation};
