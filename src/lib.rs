//! Feedline keeps GPUs fed: it prefetches TFRecord shards from object stores into a local NVMe cache and hands
//! batches to trainers through shared memory.
//!
//! This crate is the daemon. `ARCHITECTURE.md` has the map and the path of a batch; each module below starts with
//! an essay on its mechanism, what it promises, and its limits.

pub mod budget;
pub mod cache;
pub mod cli;
pub mod config;
pub mod fetch;
pub mod loader;
pub mod order;
pub mod pool;
pub mod record;
pub mod ring;
pub mod serve;
pub mod source;
pub mod telemetry;
pub mod topology;
