//! One shard, read from start to end.

use serde::Serialize;

use super::sizes::Sizes;
use crate::record::{Format, InflateError, Inflater, Scanner, ShardIndex, sniff};

/// Bytes that are enough to tell a format.
const HEAD: usize = 4096;
/// Room for what a piece of compressed data becomes.
const PLAIN: usize = 256 * 1024;
/// Bad records that are named one by one; all are counted.
const NAMED: usize = 10;

/// What was found in one shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ShardReport {
    pub(super) url: String,
    /// Bytes in the store.
    pub(super) stored_bytes: u64,
    /// Bytes after decompression.
    pub(super) content_bytes: u64,
    pub(super) format: &'static str,
    /// Whole records, the bad ones included.
    pub(super) records: u64,
    pub(super) bad_records: u64,
    pub(super) empty: bool,
    /// One line each.
    pub(super) problems: Vec<String>,
}

enum State {
    /// Collecting the first bytes.
    Head(Vec<u8>),
    Plain,
    Compressed(Box<Inflater>, Vec<u8>),
    /// Nothing more to learn.
    Settled,
}

/// Takes the bytes of a shard in order.
pub(super) struct Scan {
    url: String,
    size: u64,
    format: Format,
    state: State,
    scanner: Scanner,
    index: ShardIndex,
    damage: Option<InflateError>,
}

impl Scan {
    pub(super) fn new(url: &str, size: u64) -> Self {
        Self {
            url: url.to_owned(),
            size,
            format: Format::Empty,
            state: State::Head(Vec::new()),
            scanner: Scanner::new(),
            index: ShardIndex::new(),
            damage: None,
        }
    }

    /// Whether the rest of the shard does not matter any more.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.state, State::Settled)
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Settled => {}
            State::Head(head) => {
                head.extend_from_slice(bytes);
                if head.len() >= HEAD || head.len() as u64 >= self.size {
                    let head = std::mem::take(head);
                    self.begin(&head);
                }
            }
            State::Plain => {
                self.scanner.feed(bytes, &mut self.index);
                if self.scanner.is_broken() {
                    self.state = State::Settled;
                }
            }
            State::Compressed(inflater, plain) => {
                let mut rest = bytes;
                loop {
                    match inflater.inflate(rest, plain) {
                        Ok(step) => {
                            self.scanner.feed(&plain[..step.produced], &mut self.index);
                            rest = &rest[step.consumed..];
                            // With room left in the output, all that the input gives is there.
                            if rest.is_empty() && step.produced < plain.len() {
                                break;
                            }
                        }
                        Err(damage) => {
                            self.damage = Some(damage);
                            self.state = State::Settled;
                            return;
                        }
                    }
                }
                if self.scanner.is_broken() {
                    self.state = State::Settled;
                }
            }
        }
    }

    fn begin(&mut self, head: &[u8]) {
        self.format = sniff(head, head.len() as u64 >= self.size);
        self.state = match self.format {
            // A damaged start is read like any other: the scanner then says what is wrong with the first record.
            Format::TfRecord | Format::Corrupt => State::Plain,
            Format::Gzip | Format::Zlib => {
                State::Compressed(Box::new(Inflater::new(self.format)), vec![0; PLAIN])
            }
            Format::Empty | Format::Foreign(_) => State::Settled,
        };
        self.feed(head);
    }

    /// Ends the shard; `failure` says why reading broke off, if it did.
    pub(super) fn finish(mut self, failure: Option<String>, sizes: &mut Sizes) -> ShardReport {
        if let (State::Head(head), true) = (&mut self.state, failure.is_none()) {
            let head = std::mem::take(head);
            self.begin(&head);
        }
        let foreign = matches!(self.format, Format::Foreign(_));
        let mut problems = Vec::new();
        let whole = failure.is_none() && self.damage.is_none() && !foreign;
        if whole {
            if let State::Compressed(inflater, _) = &self.state {
                self.damage = inflater.finish().err();
            }
            if self.damage.is_none() && self.format != Format::Empty {
                self.scanner.finish(&mut self.index);
            }
        }
        if let Format::Foreign(name) = self.format {
            problems.push(format!("not a TFRecord file: {name}"));
        }
        problems.extend(self.damage.iter().map(InflateError::to_string));
        problems.extend(failure);
        let bad = self.index.bad();
        problems.extend(bad.iter().take(NAMED).map(|bad| self.index.bad_error(bad, &self.url).to_string()));
        if bad.len() > NAMED {
            problems.push(format!("{} more bad records", bad.len() - NAMED));
        }
        problems.extend(self.index.tail().map(|tail| ShardIndex::tail_error(tail, &self.url).to_string()));
        let records = self.index.frames();
        for frame in self.index.frame_slice(0, records) {
            sizes.add(frame.len);
        }
        ShardReport {
            stored_bytes: self.size,
            content_bytes: self.scanner.offset(),
            format: name(self.format),
            records,
            bad_records: bad.len() as u64 + u64::from(self.index.tail().is_some()),
            empty: records == 0 && problems.is_empty(),
            problems,
            url: self.url,
        }
    }
}

fn name(format: Format) -> &'static str {
    match format {
        Format::TfRecord => "TFRecord",
        Format::Gzip => "TFRecord in gzip",
        Format::Zlib => "TFRecord in zlib",
        Format::Empty => "empty",
        Format::Foreign(name) => name,
        Format::Corrupt => "unknown",
    }
}
