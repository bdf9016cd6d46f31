//! Reads a dataset through the daemon of this node, counts what comes, and says how to go on later.
//!
//! `cargo run --release --example read -p feedline-client -- URL [BATCH_SIZE [BATCHES [ORDER [TOKEN]]]]`
//!
//! ORDER is sequential, shards, blocks or full; TOKEN is what an earlier run printed.

use feedline_client::{Client, Error, Remainder, Shuffle, StreamOptions};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

fn read(url: &str, rest: &[String]) -> Result<String, Error> {
    let argument = |at: usize| rest.get(at).map(String::as_str);
    let batch_size = argument(0).and_then(|size| size.parse().ok()).unwrap_or(64);
    let limit = argument(1).and_then(|count| count.parse().ok()).unwrap_or(usize::MAX);
    let shuffle = match argument(2) {
        Some("shards") => Shuffle::Shards,
        Some("blocks") => Shuffle::Blocks,
        Some("full") => Shuffle::Full,
        _ => Shuffle::Sequential,
    };
    let mut options =
        StreamOptions::new(url).batch_size(batch_size).remainder(Remainder::Partial).shuffle(shuffle);
    if let Some(token) = argument(3) {
        options = options.resume(token.parse()?);
    }
    let began = Instant::now();
    let mut stream = Client::connect_default()?.open(&options)?;
    let opened = began.elapsed();
    let (mut batches, mut records, mut bytes, mut first) = (0_u64, 0_usize, 0_u64, None);
    for batch in stream.by_ref().take(limit) {
        let batch = batch?;
        first.get_or_insert_with(|| began.elapsed());
        batches += 1;
        records += batch.len();
        bytes += batch.bytes();
    }
    let first = first.unwrap_or_default();
    let token = stream.token();
    Ok(format!(
        "{records} records, {bytes} bytes in {batches} batches; opened in {opened:?}, first batch after {first:?}\n\
         to go on: {token}"
    ))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (answer, code) = match arguments.as_slice() {
        [url, rest @ ..] => match read(url, rest) {
            Ok(counts) => (counts, ExitCode::SUCCESS),
            Err(error) => (error.to_string(), ExitCode::FAILURE),
        },
        [] => ("usage: read URL [BATCH_SIZE [BATCHES [ORDER [TOKEN]]]]".to_owned(), ExitCode::from(2)),
    };
    let _ = writeln!(std::io::stdout(), "{answer}");
    code
}
