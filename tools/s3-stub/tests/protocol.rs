//! The store as a well-behaved client sees it when nothing goes wrong.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use common::{BUCKET, KEY, SECRET, client, retries, signed, store};
use feedline_s3_stub::{Credentials, Operation, Stub, StubConfig};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

#[tokio::test]
async fn objects_come_back_whole_and_in_ranges() {
    let stub = signed();
    let store = store(&stub);
    let path = Path::from("dir/a b+c&d=\u{e9}.tfrecord");
    let body: Vec<u8> = (0..100_000_u32).map(|n| n.to_be_bytes()[3]).collect();
    let put = store.put(&path, body.clone().into()).await.unwrap();
    assert_eq!(put.e_tag, stub.etag(BUCKET, path.as_ref()));

    let got = store.get(&path).await.unwrap();
    assert_eq!(got.meta.e_tag, put.e_tag);
    assert_eq!(got.bytes().await.unwrap(), body);
    assert_eq!(store.get_range(&path, 1_000..70_000).await.unwrap(), body[1_000..70_000]);
    let suffix = GetOptions { range: Some(GetRange::Suffix(10)), ..GetOptions::default() };
    assert_eq!(store.get_opts(&path, suffix).await.unwrap().bytes().await.unwrap(), body[99_990..]);
    assert!(store.get_range(&path, 100_000..100_001).await.is_err(), "behind the end");
    assert_eq!(store.head(&path).await.unwrap().size, 100_000);

    let counts = stub.counts();
    assert_eq!((counts.puts, counts.gets, counts.heads), (1, 4, 1));
    assert_eq!(counts.received, 100_000);
    assert_eq!(counts.connections, 1, "connections are kept alive");
    let log = stub.log();
    assert_eq!(log[2].range.as_deref(), Some("bytes=1000-69999"));
    assert_eq!((log[2].status, log[2].bytes, log[2].complete), (206, 69_000, true));
    assert_eq!(log[4].code.as_deref(), Some("InvalidRange"));
    stub.reset_counts();
    assert_eq!(stub.counts(), feedline_s3_stub::Counts::default());
}

#[tokio::test]
async fn conditions_hold() {
    let stub = signed();
    let store = store(&stub);
    let path = Path::from("k");
    stub.put(BUCKET, "k", "old");
    let if_match = |etag: &str| GetOptions { if_match: Some(etag.to_owned()), ..GetOptions::default() };
    let old = stub.etag(BUCKET, "k").unwrap();
    store.get_opts(&path, if_match(&old)).await.unwrap();
    stub.put(BUCKET, "k", "new");
    assert!(matches!(store.get_opts(&path, if_match(&old)).await, Err(Error::Precondition { .. })));
    let unchanged = GetOptions { if_none_match: stub.etag(BUCKET, "k"), ..GetOptions::default() };
    assert!(matches!(store.get_opts(&path, unchanged).await, Err(Error::NotModified { .. })));
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    assert!(matches!(store.put_opts(&path, "x".into(), create).await, Err(Error::AlreadyExists { .. })));
    assert!(matches!(store.get(&Path::from("none")).await, Err(Error::NotFound { .. })));
    assert_eq!(stub.log()[0].if_match.as_deref(), Some(old.as_str()));
}

#[tokio::test]
async fn listings_are_paged_sorted_and_grouped() {
    let stub = signed();
    let store = store(&stub);
    for n in 0..2_300 {
        stub.put(BUCKET, &format!("p/{:02}/{n:05} <&>.tfrecord", n % 3), "x");
    }
    stub.put(BUCKET, "other", "x");
    let all: Vec<_> = store.list(Some(&Path::from("p"))).try_collect().await.unwrap();
    assert_eq!(all.len(), 2_300);
    assert!(all.is_sorted_by(|a, b| a.location.as_ref() < b.location.as_ref()));
    assert_eq!(stub.counts().lists, 3);

    let offset = all[1_999].location.clone();
    let rest: Vec<_> = store.list_with_offset(Some(&Path::from("p")), &offset).try_collect().await.unwrap();
    assert_eq!(rest, all[2_000..]);

    let top = store.list_with_delimiter(None).await.unwrap();
    assert_eq!(top.common_prefixes, [Path::from("p")]);
    assert_eq!(top.objects.len(), 1);
    let groups = store.list_with_delimiter(Some(&Path::from("p"))).await.unwrap();
    assert_eq!(groups.common_prefixes.len(), 3);
}

#[tokio::test]
async fn a_group_is_not_repeated_on_the_next_page() {
    let stub =
        Stub::start(StubConfig { page_size: 1, ..StubConfig::default().bucket(BUCKET).key(KEY, SECRET) });
    for key in ["a/1", "a/2", "b", "c/1", "c/2"] {
        stub.put(BUCKET, key, "x");
    }
    let top = store(&stub).list_with_delimiter(None).await.unwrap();
    assert_eq!(top.common_prefixes, [Path::from("a"), Path::from("c")]);
    assert_eq!(top.objects.len(), 1);
    assert_eq!(stub.counts().lists, 3);
}

#[tokio::test]
async fn multipart_uploads_copies_and_deletes() {
    let stub = signed();
    let store = store(&stub);
    let path = Path::from("big");
    let mut upload = store.put_multipart(&path).await.unwrap();
    for part in 0..3_u8 {
        upload.put_part(vec![part; 5 << 20].into()).await.unwrap();
    }
    let put = upload.complete().await.unwrap();
    assert!(put.e_tag.unwrap().ends_with("-3\""));
    let whole = stub.get(BUCKET, "big").unwrap();
    assert_eq!((whole.len(), whole[0], whole[(10 << 20) + 1]), (15 << 20, 0, 2));

    let mut given_up = store.put_multipart(&Path::from("none")).await.unwrap();
    given_up.put_part("x".into()).await.unwrap();
    assert_eq!(stub.open_uploads(), 1);
    given_up.abort().await.unwrap();
    assert_eq!(stub.open_uploads(), 0);

    store.copy(&path, &Path::from("copy")).await.unwrap();
    store.delete(&path).await.unwrap();
    assert!(stub.get(BUCKET, "big").is_none());
    assert_eq!(stub.get(BUCKET, "copy").unwrap(), whole);
}

#[tokio::test]
async fn wrong_keys_are_refused() {
    let stub = signed();
    stub.put(BUCKET, "k", "x");
    let path = Path::from("k");
    let get = async |key: &str, secret: &str, token: Option<&str>| {
        let mut builder = client(&stub.url(), BUCKET).with_access_key_id(key).with_secret_access_key(secret);
        if let Some(token) = token {
            builder = builder.with_token(token);
        }
        builder.build().unwrap().get(&path).await
    };
    get(KEY, SECRET, None).await.unwrap();
    assert!(matches!(get("nobody", SECRET, None).await, Err(Error::PermissionDenied { .. })));
    assert!(matches!(get(KEY, "wrong", None).await, Err(Error::PermissionDenied { .. })));
    let codes: Vec<_> = stub.log().into_iter().filter_map(|entry| entry.code).collect();
    assert_eq!(codes, ["InvalidAccessKeyId", "SignatureDoesNotMatch"]);

    stub.set_credentials([Credentials::new("temp", "s").with_token("t1")]);
    assert!(matches!(get(KEY, SECRET, None).await, Err(Error::PermissionDenied { .. })));
    get("temp", "s", Some("t1")).await.unwrap();
    assert!(get("temp", "s", Some("t0")).await.is_err());
    assert_eq!(stub.log().last().unwrap().code.as_deref(), Some("InvalidToken"));
    stub.set_credentials([Credentials::new("temp2", "s").with_token("t2")]);
    assert!(get("temp", "s", Some("t1")).await.is_err());
    assert_eq!(stub.log().last().unwrap().code.as_deref(), Some("ExpiredToken"));
    stub.set_credentials([]);
    get("anybody", "x", None).await.unwrap();
}

#[tokio::test]
async fn a_wrong_clock_is_refused() {
    let stub = signed();
    stub.put(BUCKET, "k", "x");
    stub.set_clock_offset(20 * 60);
    assert!(store(&stub).get(&Path::from("k")).await.is_err());
    assert_eq!(stub.log()[0].code.as_deref(), Some("RequestTimeTooSkewed"));
    stub.set_clock_offset(-14 * 60);
    store(&stub).get(&Path::from("k")).await.unwrap();
}

#[tokio::test]
async fn virtual_hosted_style() {
    let config = StubConfig { virtual_only: true, ..StubConfig::default().bucket(BUCKET).key(KEY, SECRET) };
    let stub = Stub::start(config);
    stub.put(BUCKET, "k/l", "x");
    assert!(store(&stub).get(&Path::from("k/l")).await.is_err());
    assert_eq!(stub.log()[0].code.as_deref(), Some("InvalidPathAccess"));

    let hosted = common::virtual_client(&stub, BUCKET);
    assert_eq!(hosted.get(&Path::from("k/l")).await.unwrap().bytes().await.unwrap(), "x");
    let all: Vec<_> = hosted.list(None).try_collect().await.unwrap();
    assert_eq!(all.len(), 1);
}

#[tokio::test]
async fn a_directory_is_a_bucket_that_is_never_written() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_be_bytes()[2]).collect();
    std::fs::write(dir.path().join("sub/file"), &body).unwrap();
    std::fs::write(dir.path().join("gone"), "x").unwrap();
    let directories = vec![(BUCKET.to_owned(), dir.path().to_owned())];
    let stub = Stub::start(StubConfig { directories, ..StubConfig::default().key(KEY, SECRET) });
    let store = store(&stub);
    assert_eq!(store.get_range(&Path::from("sub/file"), 7..2_500_000).await.unwrap(), body[7..2_500_000]);
    store.put(&Path::from("sub/new"), "y".into()).await.unwrap();
    store.delete(&Path::from("gone")).await.unwrap();
    let keys: Vec<_> = store.list(None).map_ok(|m| m.location.to_string()).try_collect().await.unwrap();
    assert_eq!(keys, ["sub/file", "sub/new"]);
    assert!(dir.path().join("gone").exists() && !dir.path().join("sub/new").exists());
}

#[tokio::test]
async fn encodings_and_repeated_content() {
    let stub = signed();
    stub.put_encoded(BUCKET, "z", "not really gzip", "gzip");
    stub.put_repeated(BUCKET, "r", "abc", 5_000_000_000);
    let got = store(&stub).get(&Path::from("z")).await.unwrap();
    let encoding = object_store::Attribute::ContentEncoding;
    assert_eq!(got.attributes.get(&encoding).unwrap().as_ref(), "gzip");
    let tail = store(&stub).get_range(&Path::from("r"), 4_999_999_994..5_000_000_000).await.unwrap();
    assert_eq!(tail, "cabcab");
}

#[tokio::test]
async fn an_outage_ends_and_objects_survive() {
    let stub = signed();
    stub.put(BUCKET, "k", "x");
    let store = client(&stub.url(), BUCKET)
        .with_access_key_id(KEY)
        .with_secret_access_key(SECRET)
        .with_retry(retries(0))
        .build()
        .unwrap();
    store.get(&Path::from("k")).await.unwrap();
    stub.take_down();
    assert!(store.get(&Path::from("k")).await.is_err());
    stub.bring_up().unwrap();
    store.get(&Path::from("k")).await.unwrap();
    let log = stub.log();
    let answered = log.iter().filter(|entry| entry.operation == Some(Operation::Get) && entry.status == 200);
    assert_eq!(answered.count(), 2);
}
