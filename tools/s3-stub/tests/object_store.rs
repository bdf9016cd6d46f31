//! The faults as object_store's S3 client takes them: what it survives, what it reports, what it does not see.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use common::{BUCKET, client, impatient, signed, store};
use feedline_s3_stub::{BlackHole, Rule, Stub};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ClientOptions, Error, ObjectStore, ObjectStoreExt, Result};
use std::time::Duration;

fn filled(rule: &str) -> Stub {
    let stub = signed();
    stub.put(BUCKET, "k", body());
    stub.set_faults(rule.parse::<Rule>().unwrap());
    stub
}

fn body() -> Vec<u8> {
    (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect()
}

async fn get(stub: &Stub) -> Result<bytes::Bytes> {
    impatient(stub).get_range(&Path::from("k"), 0..200_000).await
}

#[tokio::test]
async fn survives_with_a_retry() {
    for rule in [
        "get:max=3:status=503",
        "get:max=1:status=429",
        "get:max=1:status=500",
        "get:max=1:close",
        "get:max=1:close=reset",
        "get:max=1:silent=60s",
        "get:max=1:cut=1000",
        "get:max=1:cut=1000,reset",
        "get:max=1:cut=150kB",
        "get:max=1:stall=1000,60s",
        "any:latency=1ms..5ms",
        "get:pieces=1000",
        "get:throttle=10MB",
    ] {
        let stub = filled(rule);
        assert_eq!(get(&stub).await.unwrap(), body(), "{rule}");
        assert!(stub.counts().faulted > 0, "{rule}");
    }
}

#[tokio::test]
async fn resumes_a_cut_body_from_the_last_byte() {
    let stub = filled("get:max=1:cut=1000");
    get(&stub).await.unwrap();
    let ranges: Vec<_> = stub.log().into_iter().map(|entry| entry.range.unwrap()).collect();
    assert_eq!(ranges, ["bytes=0-199999", "bytes=1000-199999"]);
}

#[tokio::test]
async fn gives_up() {
    for rule in [
        "get:status=503",
        "get:status=403",
        "get:status=400,ExpiredToken",
        "get:status=409",
        "get:status=301",
        "get:ignore-range",
        "get:error200",
        "get:close",
        "get:cut=1000",
    ] {
        assert!(get(&filled(rule)).await.is_err(), "{rule}");
    }
}

#[tokio::test]
async fn cannot_resume_without_etag_or_across_a_change() {
    for second in ["get:max=1:no-etag", "get:max=1:change"] {
        let stub = filled("get:max=1:cut=1000");
        let cut: Rule = "get:max=1:cut=1000".parse().unwrap();
        let plan = feedline_s3_stub::FaultPlan::from(cut).with(second.parse().unwrap());
        stub.set_faults(plan);
        assert!(get(&stub).await.is_err(), "{second}");
    }
}

#[tokio::test]
async fn does_not_see_wrong_or_missing_bytes() {
    let stub = filled("get:flip=7");
    assert_ne!(get(&stub).await.unwrap(), body());
    let stub = filled("get:short=10");
    assert_eq!(get(&stub).await.unwrap().len(), 199_990);
}

#[tokio::test]
async fn listing_faults() {
    let list = async |rule: &str| {
        let stub = signed();
        for n in 0..1_500 {
            stub.put(BUCKET, &format!("{n:04}"), "x");
        }
        stub.set_faults(rule.parse::<Rule>().unwrap());
        store(&stub).list(None).take(5_000).await
    };
    assert_eq!(list("list:nth=2:status=503").await.unwrap(), 1_500);
    assert!(list("list:nth=2:cut=1000").await.is_err());
    assert_eq!(list("list:nth=2:error200").await.unwrap(), 1_000, "the rest is missing, without an error");
    assert_eq!(list("list:repeat-page").await.unwrap(), 5_000, "without end");
}

/// Counts entries up to a limit.
trait Take {
    async fn take(self, most: usize) -> Result<usize>;
}

impl<S: futures_util::Stream<Item = Result<object_store::ObjectMeta>> + Unpin> Take for S {
    async fn take(mut self, most: usize) -> Result<usize> {
        let mut n = 0;
        while n < most && self.try_next().await?.is_some() {
            n += 1;
        }
        Ok(n)
    }
}

#[tokio::test]
async fn a_shard_goes_after_it_was_listed() {
    let stub = filled("list:latency=0ms");
    assert_eq!(store(&stub).list(None).take(10).await.unwrap(), 1);
    stub.remove(BUCKET, "k");
    assert!(matches!(get(&stub).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn a_black_hole_times_out() {
    let hole = BlackHole::open().unwrap();
    let options = ClientOptions::new().with_allow_http(true).with_connect_timeout(Duration::from_millis(100));
    let store =
        client(&hole.url(), BUCKET).with_skip_signature(true).with_client_options(options).build().unwrap();
    assert!(store.get(&Path::from("k")).await.is_err());
}
