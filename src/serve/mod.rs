//! Clients: the socket, the handshake, and the streams that feed trainers.
//!
//! **Connections.** [`listener`] accepts on a Unix socket; [`session`] speaks the control protocol of `feedline-proto` with one
//! client, and [`opening`] makes a stream of a request. A connection carries one stream at most, so the end of the connection, however it comes, is the end of the
//! stream, and everything that the client held is dropped with it: ownership lives in the daemon alone.
//!
//! **Streams.** [`stream`] walks one rank's part of a job: [`walk`] turns positions into records, [`lookahead`] has the
//! blocks of the next while brought in, [`batch`] takes leases and writes descriptors, and the stream sends them through
//! the shared ring until enough are ready, then sleeps until the trainer takes or returns some.
//!
//! Where records are mixed, [`gather`] copies those of a batch together into slots of its own, several batches at a time.
//!
//! **Jobs.** Streams with the same dataset share one listing ([`datasets`]), so that the ranks of a job read the same
//! shards in the same order even if objects come and go. Every batch carries the place behind it; [`resume`] lets a stream
//! start at such a place, and [`jobs`] keeps the places of named jobs on disk. [`indexing`] counts a dataset on request,
//! [`published`] exchanges what is known of it with other nodes.
//!
//! **Trust.** What a client sends is checked: sizes before allocation, options before use, every returned batch against
//! the list of those that are out. A client that breaks the rules loses its stream; nobody else notices.
//!
//! Limits: one pool segment for all clients of a daemon. A stream that goes on after the daemon's end finds the dataset listed
//! anew: if its shards have changed meanwhile, the token is refused.

mod batch;
pub mod daemon;
mod datasets;
mod failure;
mod gather;
mod indexing;
mod jobs;
mod listener;
mod lookahead;
mod metrics;
mod opening;
mod published;
mod registry;
mod resume;
mod session;
mod status;
mod stream;
mod walk;

pub use failure::StreamFailure;
