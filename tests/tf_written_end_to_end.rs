//! What TensorFlow wrote arrives unchanged at a client: cold and warm, by either disk engine, from files and from S3.

mod common;

use common::{Daemon, Setup};
use feedline_client::{Remainder, StreamOptions};
use feedline_s3_stub::{Stub, StubConfig};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tf-written")
}

/// File name, records, digest of the payloads one after the other.
fn manifest() -> Vec<(String, usize, String)> {
    let text = std::fs::read_to_string(data().join("manifest.json")).expect("the manifest");
    let manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let files = manifest["files"].as_object().expect("files");
    let entry = |(name, file): (&String, &serde_json::Value)| {
        let records = file["records"].as_u64().expect("a count");
        let digest = file["sha256"].as_str().expect("a digest").to_owned();
        (name.clone(), usize::try_from(records).expect("a small count"), digest)
    };
    files.iter().map(entry).collect()
}

fn digest(records: &[Vec<u8>]) -> String {
    let mut hash = Sha256::new();
    records.iter().for_each(|record| hash.update(record));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn assert_files(daemon: &Daemon, base: &str, state: &str) {
    for (name, count, sha256) in manifest() {
        let options =
            StreamOptions::new(format!("{base}/{name}")).batch_size(7).remainder(Remainder::Partial);
        let records = daemon.records(&options);
        assert_eq!((records.len(), digest(&records)), (count, sha256), "{name}, {state}");
    }
}

#[test]
fn files_cold_and_warm_by_either_engine_and_any_block_size() {
    for (engine, block) in [("io_uring", "64 KiB"), ("threads", "64 KiB"), ("auto", "1 MiB")] {
        let setup = Setup::default().with("io.engine", engine).with("pool.block_bytes", block);
        let mut daemon = Daemon::start(setup);
        let base = data().display().to_string();
        assert_files(&daemon, &base, &format!("{engine} cold"));
        let read = daemon.wait_until_idle().store.unwrap_or_default().bytes;
        assert_files(&daemon, &base, &format!("{engine} warm"));
        // A new process has nothing in memory: everything comes from its disk.
        daemon.terminate();
        assert!(read > 0);
        daemon.kill_and_restart();
        assert_files(&daemon, &base, &format!("{engine} from disk"));
        let status = daemon.wait_until_idle();
        assert_eq!(status.store.unwrap_or_default().bytes, 0, "{engine}: the second process read the store");
        let expected = if engine == "threads" { "thread pool" } else { "io_uring" };
        assert!(status.io_engine.starts_with(expected), "{}", status.io_engine);
    }
}

#[test]
fn objects_of_an_s3_server() {
    let stub = Stub::start(StubConfig::default().bucket("bkt").key("key", "secret"));
    for (name, ..) in manifest() {
        stub.put("bkt", &format!("tf/{name}"), std::fs::read(data().join(&name)).expect("a file"));
    }
    let daemon = Daemon::start(Setup::default().s3(&stub.url(), "key", "secret"));
    assert_files(&daemon, "s3://bkt/tf", "cold");
    daemon.wait_until_idle();
    stub.reset_counts();
    assert_files(&daemon, "s3://bkt/tf", "warm");
    assert_eq!(stub.counts().gets, 0);
}
