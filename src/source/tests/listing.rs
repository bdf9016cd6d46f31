//! Listings over S3 and the web.

use super::server::{Reply, Server};
use super::{content, stores};
use crate::source::{SourceError, SourceUrl, Stores};
use std::fmt::Write as _;

fn page(keys: &[(&str, usize)], next: Option<&str>) -> Reply {
    let mut body = String::from("<ListBucketResult>");
    for (key, size) in keys {
        write!(
            body,
            "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;e-{key}&quot;</ETag>\
             <LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
        )
        .unwrap();
    }
    if let Some(next) = next {
        write!(body, "<NextContinuationToken>{next}</NextContinuationToken>").unwrap();
    }
    body.push_str("</ListBucketResult>");
    Reply::status(200, &body)
}

async fn list(stores: &Stores, urls: &[&str]) -> Result<Vec<String>, SourceError> {
    let urls: Vec<_> = urls.iter().map(|url| SourceUrl::parse(url).unwrap()).collect();
    Ok(stores.list(&urls).await?.into_iter().map(|object| object.url).collect())
}

#[tokio::test]
async fn pages_are_joined_sorted_and_freed_of_markers() {
    let server = Server::start(|request| match (request.method.as_str(), request.number) {
        // "d/empty" and "d/t-sub" are markers: asked for by name they do not exist.
        ("HEAD", _) if request.target.ends_with("t-0") => Reply::object(request, b"", "\"e\""),
        ("HEAD", _) => Reply::status(404, ""),
        (_, 0) => page(&[("d/t-2", 5), ("d/t-1", 5), ("d/t-0", 0)], Some("next")),
        // The body of the second page breaks once.
        (_, 1) => Reply { cut: Some(60), ..page(&[("d/t-sub/", 0)], None) },
        _ => page(&[("d/t-sub/", 0), ("d/t-1/deep", 5), ("d/t-3", 5), ("d/tx", 5)], None),
    });
    let stores = stores(&server.settings());
    let found = list(&stores, &["s3://bkt/d/t-*"]).await.unwrap();
    assert_eq!(found, ["s3://bkt/d/t-0", "s3://bkt/d/t-1", "s3://bkt/d/t-2", "s3://bkt/d/t-3"]);
    let seen = server.seen();
    assert!(seen[0].target.contains("prefix=d%2Ft-"), "listed from the literal prefix: {}", seen[0].target);
    assert!(seen[2].target.contains("continuation-token=next"), "the broken page only: {}", seen[2].target);
    let counts = stores.stats().snapshot();
    assert_eq!((counts.retries_cut, counts.listed), (1, 7));
}

#[tokio::test]
async fn overlapping_urls_give_each_object_once() {
    let server = Server::start(|request| match request.method.as_str() {
        "HEAD" => Reply::object(request, &content(5), "\"e-a\""),
        _ => page(&[("b", 5), ("a", 5)], None),
    });
    let stores = stores(&server.settings());
    let found = list(&stores, &["s3://bkt/?", "s3://bkt/a", "s3://bkt/"]).await.unwrap();
    assert_eq!(found, ["s3://bkt/a", "s3://bkt/b"]);
}

#[tokio::test]
async fn nothing_found_says_what_was_there() {
    let server = Server::start(|_| page(&[("d/x.parquet", 5), ("d/y.parquet", 5)], None));
    let stores = stores(&server.settings());
    let error = list(&stores, &["s3://bkt/d/*.tfrecord"]).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "no object matches s3://bkt/d/*.tfrecord: 2 objects lie under s3://bkt/d/, for example s3://bkt/d/x.parquet"
    );
}

#[tokio::test]
async fn a_key_that_cannot_be_addressed_is_named() {
    let server = Server::start(|_| page(&[("d/ok", 5), ("d//x", 5)], None));
    let stores = stores(&server.settings());
    let error = list(&stores, &["s3://bkt/d/"]).await.unwrap_err();
    assert!(error.to_string().contains("d//x"), "{error:?}");
    assert_eq!(server.seen().len(), 1, "that does not pass by itself");
}

#[tokio::test]
async fn a_single_object_is_looked_up_and_refusals_explained() {
    let server = Server::start(|request| match request.method.as_str() {
        "HEAD" => Reply::status(403, ""),
        _ => Reply::status(403, "<Error><Code>InvalidPathAccess</Code></Error>"),
    });
    let missing = Server::start(|_| Reply::status(404, ""));
    let error = list(&stores(&server.settings()), &["s3://bkt/d/x"]).await.unwrap_err().to_string();
    assert!(error.contains("addressing = \"virtual\""), "{error}");
    let error = list(&stores(&missing.settings()), &["s3://bkt/d"]).await.unwrap_err().to_string();
    assert!(error.contains("write a / at the end"), "{error}");
}

#[tokio::test]
async fn a_web_url_signed_for_get_only_works() {
    let server = Server::start(|request| match request.method.as_str() {
        "HEAD" => Reply::status(403, ""),
        _ => Reply::object(request, &content(1000), ""),
    });
    let url = SourceUrl::parse(&format!("http://{}/x.rec?sig=1", server.address)).unwrap();
    let object = stores("").list(&[url]).await.unwrap().remove(0);
    assert_eq!((object.size, object.etag), (1000, None));
    assert_eq!(object.version.as_deref(), Some("modified:1704067200000"));
}
