//! An S3 stub with shards in it, and ways to make and read them.

use super::{LIMIT, Setup, batches};
use bytes::Bytes;
use feedline::record::append_record;
use feedline_client::{DaemonError, Error, Stream};
use feedline_s3_stub::{Stub, StubConfig};
use std::io::Write;

/// The only bucket.
pub const BUCKET: &str = "bkt";

/// A stub that wants signed requests.
pub struct Bucket {
    pub stub: Stub,
}

impl Bucket {
    pub fn new() -> Self {
        Self::with(StubConfig::default())
    }

    pub fn with(config: StubConfig) -> Self {
        Self { stub: Stub::start(config.bucket(BUCKET).key("key", "secret")) }
    }

    /// The usual set-up, with this store's end-point and keys.
    pub fn setup(&self) -> Setup {
        Setup::default().s3(&self.stub.url(), "key", "secret")
    }

    pub fn put(&self, key: &str, bytes: impl Into<Bytes>) {
        self.stub.put(BUCKET, key, bytes);
    }

    /// Puts shards `prefix-00000.tfrecord` and so on; gives their records in order.
    pub fn put_shards(
        &self,
        prefix: &str,
        counts: &[u64],
        payload: impl Fn(u64, u64) -> Vec<u8>,
    ) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for (number, &count) in (0_u64..).zip(counts) {
            let records: Vec<_> = (0..count).map(|record| payload(number, record)).collect();
            self.put(&format!("{prefix}-{number:05}.tfrecord"), shard(&records));
            all.extend(records);
        }
        all
    }

    /// Object reads that the stub has answered.
    pub fn gets(&self) -> u64 {
        self.stub.counts().gets
    }
}

/// The URL of a key or pattern.
pub fn url(key: &str) -> String {
    format!("s3://{BUCKET}/{key}")
}

/// The bytes of a shard.
pub fn shard(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| append_record(&mut bytes, record));
    bytes
}

pub fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

pub fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// All records of a stream up to its end or its error.
pub fn read_to_end(stream: Stream) -> (Vec<Vec<u8>>, Option<DaemonError>) {
    let mut records = Vec::new();
    for batch in batches(stream) {
        match batch {
            Ok(batch) => records.extend(batch.iter().map(<[u8]>::to_vec)),
            Err(Error::Daemon(error)) => return (records, Some(error)),
            Err(other) => panic!("within {LIMIT:?}: {other}"),
        }
    }
    (records, None)
}

/// Compares without printing megabytes.
#[track_caller]
pub fn assert_same(found: &[Vec<u8>], expected: &[Vec<u8>]) {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    assert!(differs.is_none(), "record {} of {} differs", differs.unwrap_or_default(), expected.len());
    assert_eq!(found.len(), expected.len(), "number of records");
}
