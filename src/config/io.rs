//! `[io]`: how the cache directory is read and written.

use std::fmt;

use super::reader::{Reader, quoted};
use super::value::Reading;

/// Which engine moves bytes between disk and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// io_uring where the kernel allows it, else threads.
    Auto,
    /// io_uring, or no start.
    IoUring,
    /// Blocking calls on a few threads.
    Threads,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
        })
    }
}

/// Disk access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// The engine to use.
    pub engine: Engine,
    /// Requests in flight at most.
    pub depth: u32,
}

impl Io {
    // This section has no mistakes of its own beyond those of any value, so it has no error type.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        // In the order of the words in the table.
        let engine = match reader.reading("engine") {
            Some(Reading::Word(1)) => Engine::IoUring,
            Some(Reading::Word(2)) => Engine::Threads,
            _ => Engine::Auto,
        };
        reader.note("engine", quoted(&engine.to_string()), "");
        let depth = reader.number("depth").unwrap_or(32);
        reader.note("depth", depth, "");
        Self { engine, depth: u32::try_from(depth).unwrap_or(u32::MAX) }
    }
}
