//! `feedline dataset index`: has the daemon count all records of a dataset, and publish what it knows.

use std::path::Path;

use feedline_client::{Client, IndexProgress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::{FAILED, OK, Output};
use crate::config::units::Size;

/// Counts; gives 1 when there are corrupt records.
pub(super) fn run(
    urls: &[String],
    publish: bool,
    socket: Option<&Path>,
    output: &mut Output<'_>,
) -> anyhow::Result<u8> {
    let mut client = match socket {
        Some(path) => Client::connect(path)?,
        None => Client::connect_default()?,
    };
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} shards, {msg} records, {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let done = loop {
        let progress = client.index(urls, publish);
        let progress = progress.inspect_err(|_| bar.finish_and_clear())?;
        bar.set_length(progress.shards);
        bar.set_position(progress.counted_shards);
        bar.set_message(progress.records.to_string());
        if progress.done {
            break progress;
        }
    };
    bar.finish_and_clear();
    report(&done, output)?;
    Ok(if done.bad_records == 0 { OK } else { FAILED })
}

fn report(done: &IndexProgress, output: &mut Output<'_>) -> anyhow::Result<()> {
    let (shards, records, bad) = (done.shards, done.records, done.bad_records);
    let url = Some(&done.published_url).filter(|url| !url.is_empty());
    if output.json() {
        let published = url.map(|url| json!({ "url": url, "bytes": done.published_bytes }));
        let document =
            json!({ "shards": shards, "records": records, "bad_records": bad, "published": published });
        return Ok(output.document(&document)?);
    }
    writeln!(output.text(), "{records} records in {shards} shards, {bad} corrupt")?;
    if let Some(url) = url {
        writeln!(output.text(), "published: {url}, {}", Size(done.published_bytes))?;
    }
    Ok(())
}
