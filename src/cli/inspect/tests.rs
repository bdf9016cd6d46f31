use std::fs;
use std::path::Path;

use super::*;
use crate::config::{Flag, Request, Surroundings};
use crate::record::append_record;

fn config(dir: &Path) -> Config {
    let flag = |key: &str, value: String| Flag { name: "--set".into(), key: key.into(), value };
    let mut around = Surroundings::detect();
    around.vars.retain(|name, _| name == "HOME");
    around.root = dir.to_owned();
    let flags = vec![
        flag("cache.dir", dir.join("cache").display().to_string()),
        flag("cache.bytes", "1 GiB".into()),
        flag("pool.bytes", "64 MiB".into()),
    ];
    Config::load(&Request { file: None, flags }, &around).unwrap()
}

fn inspect(dir: &Path, pattern: &str, scan: bool) -> (u8, String, serde_json::Value) {
    let urls = vec![dir.join(pattern).display().to_string()];
    let options = Options { urls, scan, threads: Some(3) };
    let show = |json: bool| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = run(&options, &config(dir), &mut Output::new(&mut out, &mut err, json)).unwrap();
        (code, String::from_utf8(out).unwrap())
    };
    let (code, text) = show(false);
    (code, text, serde_json::from_str(&show(true).1).unwrap())
}

fn records(sizes: &[usize]) -> Vec<u8> {
    let mut file = Vec::new();
    for &size in sizes {
        append_record(&mut file, &vec![7; size]);
    }
    file
}

fn compressed(bytes: &[u8], gzip: bool) -> Vec<u8> {
    use std::io::Write;
    let level = flate2::Compression::fast();
    if gzip {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), level);
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    } else {
        let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), level);
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }
}

#[test]
fn good_shards_are_counted_whatever_their_compression() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.tfrecord"), records(&[10, 100, 0])).unwrap();
    fs::write(dir.path().join("b.tfrecord"), compressed(&records(&[50, 300_000]), true)).unwrap();
    fs::write(dir.path().join("c.tfrecord"), compressed(&records(&[60]), false)).unwrap();
    fs::write(dir.path().join("d.tfrecord"), b"").unwrap();
    let (code, text, json) = inspect(dir.path(), "*.tfrecord", true);
    assert_eq!(code, OK, "{text}");
    assert_eq!(json["shards"], 4);
    assert_eq!(json["records"], 6);
    assert_eq!(json["record_bytes"], serde_json::json!({ "min": 0, "median": 50, "max": 300_000 }));
    assert_eq!(json["formats"]["TFRecord in gzip"], 1);
    assert_eq!(json["formats"]["TFRecord in zlib"], 1);
    assert_eq!(json["list"][1]["records"], 2);
    assert_eq!(json["content_bytes"], 5 * 16 + 16 + 10 + 100 + 50 + 300_000 + 60);
    assert!(json["empty"][0].as_str().unwrap().ends_with("d.tfrecord"));
    assert!(text.contains("records       6") && text.contains("empty shards  1"), "{text}");
}

#[test]
fn damage_and_foreign_files_are_named_and_fail() {
    let dir = tempfile::tempdir().unwrap();
    let mut bad = records(&[20, 20, 20]);
    bad[36 + 12 + 5] ^= 1;
    fs::write(dir.path().join("bad.x"), &bad).unwrap();
    let cut = records(&[20, 20]);
    fs::write(dir.path().join("cut.x"), &cut[..50]).unwrap();
    let gzip = compressed(&records(&[1000]), true);
    fs::write(dir.path().join("gzip-cut.x"), &gzip[..gzip.len() - 9]).unwrap();
    fs::write(dir.path().join("good.x"), records(&[20])).unwrap();
    fs::write(dir.path().join("table.x"), [b"PAR1".as_slice(), &[0; 9000]].concat()).unwrap();
    let (code, text, json) = inspect(dir.path(), "*.x", true);
    assert_eq!(code, FAILED);
    assert_eq!(json["bad"].as_array().unwrap().len(), 4, "{text}");
    assert_eq!(json["bad_records"], 2);
    for part in
        ["bad.x: ", "data CRC", "cut.x: ", "table.x: not a TFRecord file: Parquet", "compressed data ends"]
    {
        assert!(text.contains(part), "missing {part:?} in:\n{text}");
    }
}

#[test]
fn a_listing_reads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.x"), b"anything").unwrap();
    let (code, text, json) = inspect(dir.path(), "*.x", false);
    assert_eq!((code, &json["records"]), (OK, &serde_json::Value::Null), "{text}");
}

#[test]
fn nothing_that_matches_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        Options { urls: vec![dir.path().join("*.x").display().to_string()], scan: true, threads: None };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let error = run(&options, &config(dir.path()), &mut Output::new(&mut out, &mut err, false)).unwrap_err();
    assert!(error.to_string().contains("no object matches"), "{error}");
}
