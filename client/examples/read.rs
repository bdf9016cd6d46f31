//! Reads a dataset through the daemon of this node and counts what comes.
//!
//! `cargo run --release --example read -p feedline-client -- URL [BATCH_SIZE]`

use feedline_client::{Client, StreamOptions};
use std::io::Write;
use std::process::ExitCode;

fn read(url: &str, batch_size: u32) -> Result<String, feedline_client::Error> {
    let options =
        StreamOptions::new(url).batch_size(batch_size).remainder(feedline_client::Remainder::Partial);
    let (mut batches, mut records, mut bytes) = (0_u64, 0_usize, 0_u64);
    for batch in Client::connect_default()?.open(&options)? {
        let batch = batch?;
        batches += 1;
        records += batch.len();
        bytes += batch.bytes();
    }
    Ok(format!("{records} records, {bytes} bytes in {batches} batches"))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (answer, code) = match arguments.as_slice() {
        [url, rest @ ..] => {
            let batch_size = rest.first().and_then(|size| size.parse().ok()).unwrap_or(64);
            match read(url, batch_size) {
                Ok(counts) => (counts, ExitCode::SUCCESS),
                Err(error) => (error.to_string(), ExitCode::FAILURE),
            }
        }
        [] => ("usage: read URL [BATCH_SIZE]".to_owned(), ExitCode::from(2)),
    };
    let _ = writeln!(std::io::stdout(), "{answer}");
    code
}
