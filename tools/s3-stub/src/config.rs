//! What a stub is started with.

use crate::fault::FaultPlan;
use crate::sigv4::Credentials;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The settings of a [`Stub`](crate::Stub). `Default` is an anonymous, faultless store on a free loopback port.
#[derive(Debug, Clone)]
pub struct StubConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Threads that serve connections, each with a runtime of its own; at least 1.
    pub threads: usize,
    /// Accepted keys. Empty: no request is checked.
    pub credentials: Vec<Credentials>,
    /// The only region accepted in signatures; any if absent.
    pub region: Option<String>,
    /// Suffix of virtual-hosted names: `BUCKET.DOMAIN`. Without a port.
    pub domain: String,
    /// Answers 403 `InvalidPathAccess` to path style, as TOS does.
    pub virtual_only: bool,
    /// Knows only version 1 of listings: `list-type=2` and its tokens are ignored.
    pub list_v1_only: bool,
    /// Refuses uploads with trailing checksums, as many S3-like stores do.
    pub refuse_trailers: bool,
    /// Most entries in a page of a listing, whatever is asked for; at least 1.
    pub page_size: usize,
    /// Seconds by which the stub's clock is ahead of the machine's.
    pub clock_offset: i64,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// Faults from the start; see also [`Stub::set_faults`](crate::Stub::set_faults).
    pub faults: FaultPlan,
    /// Most entries kept in the log, oldest dropped first; 0 keeps the sums only.
    pub log_limit: usize,
    /// Buckets that exist from the start, empty.
    pub buckets: Vec<String>,
    /// Buckets that show the files below a directory. The files are never written: what is put or deleted
    /// lives in memory.
    pub directories: Vec<(String, PathBuf)>,
}

impl Default for StubConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            threads: 1,
            credentials: Vec::new(),
            region: None,
            domain: "s3.localhost".to_owned(),
            virtual_only: false,
            list_v1_only: false,
            refuse_trailers: false,
            page_size: 1_000,
            clock_offset: 0,
            seed: 0,
            faults: FaultPlan::none(),
            log_limit: 1_000_000,
            buckets: Vec::new(),
            directories: Vec::new(),
        }
    }
}

impl StubConfig {
    /// Adds an empty bucket.
    #[must_use]
    pub fn bucket(mut self, name: impl Into<String>) -> Self {
        self.buckets.push(name.into());
        self
    }

    /// Adds an accepted key pair; from then on every request must be signed.
    #[must_use]
    pub fn key(mut self, access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        self.credentials.push(Credentials::new(access_key, secret_key));
        self
    }
}
