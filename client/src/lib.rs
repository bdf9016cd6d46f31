//! Reads batches of TFRecords from the Feedline daemon of this node.
//!
//! ```no_run
//! use feedline_client::{Client, StreamOptions};
//!
//! fn main() -> Result<(), feedline_client::Error> {
//!     let options = StreamOptions::new("s3://bucket/imagenet/train-*").batch_size(256).rank(0, 8).epochs(90);
//!     let mut stream = Client::connect_default()?.open(&options)?;
//!     while let Some(batch) = stream.next_batch()? {
//!         for record in batch.iter() {
//!             // `record` is a slice of shared memory: nothing has been copied.
//!             train_on(record);
//!         }
//!     } // dropping a batch gives its memory back
//!     Ok(())
//! }
//! # fn train_on(_: &[u8]) {}
//! ```
//!
//! A [`Stream`] is one rank's view of a job. It blocks in [`Stream::next_batch`] until a batch is ready, using no CPU
//! meanwhile. When the daemon goes away it connects again by itself and goes on with the next record, for a time that can be
//! set ([`StreamOptions::reconnect`]). [`Stream::token`] says where it is. A [`Batch`] may be kept, sent to another thread and dropped in
//! any order; what it holds counts against the stream's share of the daemon's memory, so a trainer that keeps
//! too many stalls itself, and nobody else.
//!
//! Limits: Linux only; a stream is not usable in a forked child; the daemon is trusted (it runs as a service of the
//! node), while the daemon does not trust its clients.

mod batch;
mod connection;
mod error;
mod link;
mod options;
mod stream;
mod token;

pub use batch::Batch;
pub use connection::Client;
pub use error::{DaemonError, Error};
pub use feedline_proto::v1::{IndexProgress, Status};
pub use options::{Epochs, Remainder, Shuffle, StreamOptions};
pub use stream::{Stream, Waits};
pub use token::Token;
