//! The whole path from a real S3 server. Runs when `FEEDLINE_TEST_WEED` names SeaweedFS's program, as `tools/test` does.

mod common;

use common::bucket::{assert_same, gzip, shard};
use common::{Daemon, Setup, tagged};
use feedline_client::{Error, Remainder, StreamOptions};
use feedline_proto::v1::ErrorCode;
use object_store::ObjectStoreExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

const KEY: &str = "test";
const SECRET: &str = "test-secret";

/// A server with a bucket `sample`, ended with the test.
struct Weed {
    child: Child,
    url: String,
    store: AmazonS3,
    runtime: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Drop for Weed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports that are free, and the ones 10,000 above them (for gRPC) as well. All lie below those that the system gives to
/// outgoing connections.
fn free_ports(count: usize) -> Vec<u16> {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let start = 14_000 + u16::try_from(std::process::id() % 5_000).expect("small");
    (start..22_700).filter(|&port| is_free(port) && is_free(port + 10_000)).take(count).collect()
}

impl Weed {
    /// `None` if the machine has no server.
    fn start() -> Option<Self> {
        let program = std::env::var_os("FEEDLINE_TEST_WEED")?;
        let dir = tempfile::tempdir().expect("a directory");
        let ports = free_ports(6);
        let numbered = |name: &str, at: usize| format!("-{name}={}", ports[at]);
        let mut child = Command::new(program)
            .arg("mini")
            .arg(format!("-dir={}", dir.path().display()))
            .args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-admin.ui=false"])
            .args(["-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-bucket=sample"])
            .args([numbered("s3.port", 0), numbered("master.port", 1), numbered("volume.port", 2)])
            .args([numbered("filer.port", 3), numbered("admin.port", 4)])
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut seen = String::new();
        while !seen.contains("components are running") {
            assert_ne!(lines.read_line(&mut seen).expect("text"), 0, "the server ended:\n{seen}");
        }
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        // Fails if a test before this one has set it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("http://127.0.0.1:{}", ports[0]);
        let builder =
            AmazonS3Builder::new().with_endpoint(&url).with_allow_http(true).with_region("us-east-1");
        let builder =
            builder.with_bucket_name("sample").with_access_key_id(KEY).with_secret_access_key(SECRET);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Some(Self { child, url, store: builder.build().expect("a store"), runtime, _dir: dir })
    }

    fn put(&self, key: &str, bytes: Vec<u8>) {
        self.runtime
            .block_on(self.store.put(&object_store::path::Path::parse(key).expect("a key"), bytes.into()))
            .expect("the server takes it");
    }

    fn setup(&self) -> Setup {
        Setup::default().s3(&self.url, KEY, SECRET)
    }
}

fn options(pattern: &str) -> StreamOptions {
    StreamOptions::new(format!("s3://sample/{pattern}")).batch_size(32).remainder(Remainder::Partial)
}

#[test]
fn a_real_server() {
    let Some(weed) = Weed::start() else { return };
    plain_and_compressed_shards_cold_warm_and_after_a_crash(&weed);
    what_is_missing_or_refused_is_said(&weed);
    an_object_that_is_replaced_is_new_content(&weed);
}

fn plain_and_compressed_shards_cold_warm_and_after_a_crash(weed: &Weed) {
    let mut expected = Vec::new();
    for number in 0..8 {
        let records: Vec<_> = (0..200).map(|record| tagged(number, record, 5_000)).collect();
        let bytes = shard(&records);
        // A key with all that may need escaping.
        let key = format!("run 1+ä=%25/part-{number}.tfrecord");
        weed.put(&key, if number % 2 == 0 { bytes } else { gzip(&bytes, 1) });
        expected.extend(records);
    }
    let mut daemon = Daemon::start(weed.setup());
    assert_same(&daemon.records(&options("run 1+ä=%25/*")), &expected);
    let requests = daemon.wait_until_idle().store.expect("counted").requests;
    assert!(requests > 0);
    assert_same(&daemon.records(&options("run 1+ä=%25/*").epochs(2)), &[&expected[..], &expected].concat());
    daemon.kill_and_restart();
    assert_same(&daemon.records(&options("run 1+ä=%25/*")), &expected);
    let store = daemon.wait_until_idle().store.expect("counted");
    assert_eq!((store.bytes, store.objects_listed), (0, 8), "listed again, and nothing read");
    let found: Vec<Vec<u8>> =
        (0..3).flat_map(|rank| daemon.records(&options("run*/*").rank(rank, 3))).collect();
    assert_eq!(found.len(), expected.len());
}

fn what_is_missing_or_refused_is_said(weed: &Weed) {
    weed.put("one.tfrecord", shard(&[b"record".to_vec()]));
    let daemon = Daemon::start(weed.setup());
    let failure = |daemon: &Daemon, url: &str| match daemon.try_open(&StreamOptions::new(url)) {
        Err(Error::Daemon(error)) => error,
        other => panic!("{other:?}"),
    };
    let error = failure(&daemon, "s3://sample/none-*");
    assert_eq!(error.code, ErrorCode::NotFound);
    assert!(error.message.contains("s3://sample/none-*"), "{error}");
    let error = failure(&daemon, "s3://no-such-bucket/*");
    assert_eq!(error.code, ErrorCode::NotFound, "{error}");
    assert!(error.message.contains("no-such-bucket"), "{error}");
    let wrong = Daemon::start(Setup::default().s3(&weed.url, KEY, "not-the-secret"));
    let error = failure(&wrong, "s3://sample/*");
    assert_eq!(error.code, ErrorCode::PermissionDenied, "{error}");
    assert!(!error.to_string().contains("not-the-secret") && !wrong.log().contains("not-the-secret"));
}

fn an_object_that_is_replaced_is_new_content(weed: &Weed) {
    let version = |number: u64| (0..50).map(|record| tagged(number, record, 3_000)).collect::<Vec<_>>();
    weed.put("changing.tfrecord", shard(&version(1)));
    let daemon = Daemon::start(weed.setup());
    assert_same(&daemon.records(&options("changing.tfrecord")), &version(1));
    weed.put("changing.tfrecord", shard(&version(2)));
    assert_same(&daemon.records(&options("changing.tfrecord")), &version(2));
    daemon.wait_until_idle();
}
