//! An S3 server that checks what clients send and misbehaves on request.
//!
//! Tests of a program that reads an object store need a store that fails on purpose, always in the same way, and
//! that tells afterwards what it was asked. This one runs inside the test's process ([`Stub`]) or as a program of
//! its own (`feedline-s3-stub`), keeps objects in memory or shows a directory as a bucket, checks signatures
//! byte by byte, and applies a [`FaultPlan`] drawn from one seed. A log of all requests and sums over them
//! answer questions such as "how many GETs did the second epoch make".
//!
//! ```
//! use feedline_s3_stub::{Stub, StubConfig};
//!
//! let stub = Stub::start(StubConfig::default().key("key", "secret"));
//! stub.put("bucket", "data/a.tfrecord", "bytes");
//! stub.set_faults("get:*.tfrecord:nth=2:status=503".parse::<feedline_s3_stub::Rule>()?);
//! // ... a client reads from stub.url() ...
//! assert_eq!(stub.counts().gets, 0);
//! # Ok::<(), feedline_s3_stub::ShorthandError>(())
//! ```
//!
//! Limits: HTTP/1.1 without TLS, signatures in headers only (no presigned URLs), no versions, ACLs or tags, and
//! nothing outlives the process.

mod black_hole;
mod body;
mod clock;
mod config;
mod conn;
mod encode;
mod fault;
mod journal;
mod objects;
mod s3;
mod server;
mod sigv4;
mod stub;

pub use black_hole::BlackHole;
pub use config::StubConfig;
pub use fault::{Action, FaultPlan, Rule, ShorthandError, parse_bytes, parse_duration};
pub use journal::{Counts, LogEntry};
pub use s3::Operation;
pub use sigv4::Credentials;
pub use stub::{StartError, Stub};
