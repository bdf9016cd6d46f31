//! The program: prints where it listens, serves, and ends on a signal with its sums.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn serves_a_directory_until_it_is_told_to_end() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "content").unwrap();
    let plan = dir.path().join("plan.json");
    std::fs::write(&plan, r#"{"rules": [{"op": "head", "action": {"status": {"code": 503}}}]}"#).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_feedline-s3-stub"))
        .args(["--bucket", "b", "--latency", "1ms..2ms", "--rate", "100MB", "--origin", "1GiB"])
        .args(["--fault", "get:nth=2:status=429", "--dir"])
        .arg(dir.path())
        .arg("--faults")
        .arg(&plan)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(program.stdout.take().unwrap());
    let mut url = String::new();
    out.read_line(&mut url).unwrap();
    let address = url.trim().strip_prefix("http://").unwrap().to_owned();
    let request = |line: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    };
    assert!(request("GET /b/a").ends_with("\r\n\r\ncontent"));
    assert!(request("GET /b/a").starts_with("HTTP/1.1 429"));
    assert!(request("HEAD /b/a").starts_with("HTTP/1.1 503"));
    assert!(request("GET /b?list-type=2&prefix=origin/").contains("<Size>1073741824</Size>"));

    let pid = program.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut sums = String::new();
    out.read_to_string(&mut sums).unwrap();
    assert!(sums.contains(r#""gets":2,"heads":1,"lists":1"#), "{sums}");
    assert!(program.wait().unwrap().success());
}

#[test]
fn mistakes_are_explained() {
    for (args, part) in [
        (["--fault", "get:statuz=503"], "is no action"),
        (["--rate", "fast"], "not a size"),
        (["--dir", "/nonexistent/dir"], "is not a directory"),
        (["--access-key", "k"], "--secret-key"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_feedline-s3-stub")).args(args).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(part), "{text}");
    }
}
