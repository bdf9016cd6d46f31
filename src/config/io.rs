//! `[io]`: how the cache directory is read and written.

use super::reader::{Reader, quoted};
use super::value::Reading;
use crate::ring::EngineChoice;

/// Disk access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// The engine to use.
    pub engine: EngineChoice,
    /// Requests in flight at most.
    pub depth: u32,
}

impl Io {
    // This section has no mistakes of its own beyond those of any value, so it has no error type.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let (engine, word) = match reader.reading("engine") {
            Some(Reading::Word(1)) => (EngineChoice::IoUring, "io_uring"),
            Some(Reading::Word(2)) => (EngineChoice::Threads, "threads"),
            // The words stand in the order of the table.
            _ => (EngineChoice::Auto, "auto"),
        };
        reader.note("engine", quoted(word), "");
        let depth = reader.number("depth").unwrap_or(32);
        reader.note("depth", depth, "");
        Self { engine, depth: u32::try_from(depth).unwrap_or(u32::MAX) }
    }
}
