//! `[batch]`: batches kept ready.

use super::reader::Reader;

/// Batches handed to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Batches kept ready for each stream.
    pub ready: usize,
}

impl Batch {
    // Like `[io]`, this section has no mistakes of its own.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let ready = reader.number("ready").unwrap_or(8);
        reader.note("ready", ready, "");
        Self { ready: usize::try_from(ready).unwrap_or(usize::MAX) }
    }
}
