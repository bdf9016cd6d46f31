//! Clients for the tests.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its share")]

pub mod wire;

use feedline_s3_stub::{Stub, StubConfig};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{DnsFuture, DnsResolver};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

pub const BUCKET: &str = "bucket";
pub const KEY: &str = "test-key";
pub const SECRET: &str = "test/secret+key";

/// A stub that accepts one key.
pub fn signed() -> Stub {
    Stub::start(StubConfig::default().bucket(BUCKET).key(KEY, SECRET))
}

/// A client without keys.
pub fn client(url: &str, bucket: &str) -> AmazonS3Builder {
    // Fails when another test was first, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    AmazonS3Builder::new()
        .with_endpoint(url)
        .with_bucket_name(bucket)
        .with_region("us-east-1")
        .with_allow_http(true)
        .with_retry(retries(3))
}

/// Quick retries.
pub fn retries(max_retries: usize) -> RetryConfig {
    let wait = Duration::from_millis(1);
    let backoff = BackoffConfig { init_backoff: wait, max_backoff: wait, base: 2.0 };
    RetryConfig { backoff, max_retries, retry_timeout: Duration::from_secs(30) }
}

/// A client that the stub accepts.
pub fn store(stub: &Stub) -> AmazonS3 {
    client(&stub.url(), BUCKET).with_access_key_id(KEY).with_secret_access_key(SECRET).build().unwrap()
}

/// The same with a read time-out of 300 ms.
pub fn impatient(stub: &Stub) -> AmazonS3 {
    let options = ClientOptions::new().with_allow_http(true).with_read_timeout(Duration::from_millis(300));
    client(&stub.url(), BUCKET)
        .with_access_key_id(KEY)
        .with_secret_access_key(SECRET)
        .with_client_options(options)
        .build()
        .unwrap()
}

/// Sends every name to the loopback address: `*.localhost` does not resolve everywhere.
#[derive(Debug)]
struct Loopback;

impl DnsResolver for Loopback {
    fn resolve(&self, _host: &str) -> DnsFuture {
        Box::pin(async { Ok(vec![IpAddr::from(Ipv4Addr::LOCALHOST)]) })
    }
}

/// A client that puts the bucket into the host name.
pub fn virtual_client(stub: &Stub, bucket: &str) -> AmazonS3 {
    let options = ClientOptions::new().with_allow_http(true).with_dns_resolver(Arc::new(Loopback));
    client(&stub.virtual_url(bucket), bucket)
        .with_access_key_id(KEY)
        .with_secret_access_key(SECRET)
        .with_virtual_hosted_style_request(true)
        .with_client_options(options)
        .build()
        .unwrap()
}
