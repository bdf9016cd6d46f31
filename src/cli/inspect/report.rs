//! The result of an inspection, for people and for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::scan::ShardReport;
use super::sizes::Sizes;
use crate::config::units::Size;
use crate::source::Object;

/// Shards with problems that are named in the text; JSON has them all.
const NAMED: usize = 20;

/// Sums over all shards, and the shards themselves.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    shards: usize,
    stored_bytes: u64,
    /// `null` in what follows: the shards were only listed.
    records: Option<u64>,
    bad_records: Option<u64>,
    content_bytes: Option<u64>,
    payload_bytes: Option<u64>,
    record_bytes: Option<RecordBytes>,
    /// Number of shards by format.
    formats: BTreeMap<&'static str, usize>,
    empty: Vec<String>,
    /// Shards with problems.
    bad: Vec<ShardReport>,
    /// Every shard: URL, stored bytes, and records once scanned.
    list: Vec<Line>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct RecordBytes {
    min: u64,
    /// Right within 2 %.
    median: u64,
    max: u64,
}

#[derive(Debug, Serialize)]
struct Line {
    url: String,
    bytes: u64,
    records: Option<u64>,
}

impl Report {
    pub(super) fn listed(objects: &[Object]) -> Self {
        let line = |object: &Object| Line { url: object.url.clone(), bytes: object.size, records: None };
        Self {
            shards: objects.len(),
            stored_bytes: objects.iter().map(|object| object.size).sum(),
            empty: objects
                .iter()
                .filter(|object| object.size == 0)
                .map(|object| object.url.clone())
                .collect(),
            list: objects.iter().map(line).collect(),
            ..Self::default()
        }
    }

    pub(super) fn scanned(&mut self, shards: Vec<ShardReport>, sizes: &Sizes) {
        self.records = Some(shards.iter().map(|shard| shard.records).sum());
        self.bad_records = Some(shards.iter().map(|shard| shard.bad_records).sum());
        self.content_bytes = Some(shards.iter().map(|shard| shard.content_bytes).sum());
        self.payload_bytes = Some(sizes.bytes());
        self.record_bytes = sizes.summary().map(|(min, median, max)| RecordBytes { min, median, max });
        self.empty = shards.iter().filter(|shard| shard.empty).map(|shard| shard.url.clone()).collect();
        for (line, shard) in self.list.iter_mut().zip(&shards) {
            line.records = Some(shard.records);
            *self.formats.entry(shard.format).or_default() += 1;
        }
        self.bad = shards.into_iter().filter(|shard| !shard.problems.is_empty()).collect();
    }

    /// Whether every shard can be read to its end. Empty shards are no fault.
    pub(super) fn is_good(&self) -> bool {
        self.bad.is_empty()
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "shards        {} ({})", self.shards, Size(self.stored_bytes))?;
        if let Some(content) = self.content_bytes.filter(|&content| content != self.stored_bytes) {
            writeln!(out, "uncompressed  {}", Size(content))?;
        }
        if let (Some(records), Some(bytes)) = (self.records, self.payload_bytes) {
            writeln!(out, "records       {records} ({} of payload)", Size(bytes))?;
        }
        if let Some(RecordBytes { min, median, max }) = self.record_bytes {
            let (min, median, max) = (Size(min), Size(median), Size(max));
            writeln!(out, "record size   {min} to {max}, median {median}")?;
        }
        for (format, count) in &self.formats {
            writeln!(out, "format        {format}: {count}")?;
        }
        if !self.empty.is_empty() {
            writeln!(out, "empty shards  {}", self.empty.len())?;
            list(out, self.empty.iter().map(String::as_str))?;
        }
        if self.records.is_some() {
            writeln!(out, "bad records   {}", self.bad_records.unwrap_or(0))?;
            writeln!(out, "bad shards    {}", self.bad.len())?;
        } else {
            writeln!(out, "not scanned: records, formats and damage are unknown")?;
        }
        list(
            out,
            self.bad.iter().map(|shard| {
                // The line begins with the shard; record errors need not name it again.
                let again = format!(" of {}", shard.url);
                format!("{}: {}", shard.url, shard.problems.join("; ").replace(&again, ""))
            }),
        )
    }
}

fn list<S: AsRef<str>>(out: &mut dyn Write, lines: impl Iterator<Item = S>) -> io::Result<()> {
    let mut left = 0usize;
    for (at, line) in lines.enumerate() {
        if at < NAMED {
            writeln!(out, "  {}", line.as_ref())?;
        } else {
            left += 1;
        }
    }
    if left > 0 {
        writeln!(out, "  and {left} more; --json lists them all")?;
    }
    Ok(())
}
