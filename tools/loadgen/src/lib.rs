//! Makes TFRecord datasets whose every byte can be recomputed, and measures how well a Feedline daemon feeds a node.
//!
//! - [`dataset`]: what a generated dataset contains. Record *i* of shard *s* is a pure function of the dataset's
//!   seed, so a reader is checked from end to end without keeping a copy of the data.
//! - [`make`]: writes such a dataset to any URL that `feedline` can open for writing, in bounded memory.
//! - [`run`]: reads a dataset through the daemon with K clients, the ranks of one job, and reports throughput, the
//!   waits of every `next()`, CPU per gigabyte and, on request, whether each record came exactly once and unchanged.
//! - [`cli`]: the command line around both.
//!
//! Limits: the clients are threads of one process, which share one allocator and one address space; simulated compute
//! is a sleep, as a GPU's work costs the host next to nothing.

pub mod cli;
pub mod dataset;
pub mod make;
pub mod run;
mod store;
mod units;
