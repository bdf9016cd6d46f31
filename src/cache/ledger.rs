//! Who holds which bytes of the limit. Pure counting: no files, no policy.
//!
//! `used + reserved <= limit` holds at every moment, except after a start with a lowered limit until the surplus has
//! been evicted. Whoever holds bytes gives them back by being dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Unit in which file systems hand out room, and to which data and metadata files are rounded up. Also the largest
/// alignment that direct I/O asks for in practice. Bytes.
pub(super) const PAGE: u64 = 4096;

/// Charged per shard for what the file system spends beside the two files: folder entries and the extent map. Bytes.
pub(super) const ENTRY_BYTES: u64 = PAGE;

/// Room that the files of the cache may take beyond the limit: marker, lock and the empty folders. Bytes.
pub const MARGIN_BYTES: u64 = (2 + 4 + 2 * 256) * PAGE;

/// Metadata file without the block checksums, generously: 72 bytes plus URL, ETag and version id. Bytes.
const META_GUESS: u64 = 2048;

/// Smallest block the pool allows; gives the largest number of block checksums. Bytes.
const SMALLEST_BLOCK: u64 = 64 << 10;

/// Rounds up to whole pages; saturates.
pub(super) fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE).saturating_mul(PAGE)
}

/// What a shard takes whose metadata file is `meta` bytes long.
pub(super) fn charge_of(content: u64, meta: u64) -> u64 {
    pages(content).saturating_add(pages(meta)).saturating_add(ENTRY_BYTES)
}

/// What an index file of `len` bytes takes, with its share of a folder.
pub(super) fn index_charge(len: u64) -> u64 {
    pages(len).saturating_add(256)
}

/// What to set aside for a shard of `content` bytes before its block size and URL are known: an upper bound but for
/// URLs of several kilobytes, for which the commit asks for more.
pub(super) fn footprint(content: u64) -> u64 {
    charge_of(content, META_GUESS.saturating_add(content.div_ceil(SMALLEST_BLOCK).saturating_mul(4)))
}

/// A snapshot of the counts, all in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Shards: those in the cache, and dropped ones that somebody still reads.
    pub(super) shards: u64,
    /// Stored record indexes.
    pub(super) index: u64,
    /// Set aside for shards that are being written.
    pub(super) reserved: u64,
}

impl Counts {
    /// Everything held.
    pub(super) fn total(&self) -> u64 {
        self.shards.saturating_add(self.index).saturating_add(self.reserved)
    }
}

/// The counts of one cache directory and their limit.
#[derive(Debug)]
pub(super) struct Ledger {
    limit: u64,
    counts: Mutex<Counts>,
}

impl Ledger {
    /// An empty ledger with a limit in bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, counts: Mutex::default() }
    }

    /// The limit in bytes.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The counts at this moment.
    pub(super) fn counts(&self) -> Counts {
        *self.lock()
    }

    /// Bytes missing for `more` to fit; 0 if it fits.
    pub(super) fn missing(&self, more: u64) -> u64 {
        self.counts().total().saturating_add(more).saturating_sub(self.limit)
    }

    /// Sets `bytes` aside if they fit.
    pub(super) fn try_reserve(&self, bytes: u64) -> bool {
        self.add(bytes, |counts| &mut counts.reserved)
    }

    /// Gives back what [`Ledger::try_reserve`] set aside.
    pub(super) fn release(&self, bytes: u64) {
        let mut counts = self.lock();
        debug_assert!(counts.reserved >= bytes);
        counts.reserved = counts.reserved.saturating_sub(bytes);
    }

    /// Turns a reservation of `held` bytes into a shard of `charge <= held` bytes; the rest is free again.
    pub(super) fn settle(self: &Arc<Self>, held: u64, charge: u64) -> Arc<Charge> {
        let mut counts = self.lock();
        debug_assert!(charge <= held && held <= counts.reserved);
        counts.reserved = counts.reserved.saturating_sub(held);
        counts.shards = counts.shards.saturating_add(charge);
        Arc::new(Charge { ledger: Arc::clone(self), bytes: charge })
    }

    /// Counts a shard found on disk, whether it fits or not.
    pub(super) fn found(self: &Arc<Self>, charge: u64) -> Arc<Charge> {
        let mut counts = self.lock();
        counts.shards = counts.shards.saturating_add(charge);
        Arc::new(Charge { ledger: Arc::clone(self), bytes: charge })
    }

    /// Turns a reservation into an index file of the same size.
    pub(super) fn settle_index(&self, held: u64) {
        let mut counts = self.lock();
        counts.reserved = counts.reserved.saturating_sub(held);
        counts.index = counts.index.saturating_add(held);
    }

    /// Counts an index file found on disk, whether it fits or not.
    pub(super) fn found_index(&self, bytes: u64) {
        let mut counts = self.lock();
        counts.index = counts.index.saturating_add(bytes);
    }

    /// An index file is gone.
    pub(super) fn release_index(&self, bytes: u64) {
        let mut counts = self.lock();
        debug_assert!(counts.index >= bytes);
        counts.index = counts.index.saturating_sub(bytes);
    }

    fn add(&self, bytes: u64, field: impl FnOnce(&mut Counts) -> &mut u64) -> bool {
        let mut counts = self.lock();
        match counts.total().checked_add(bytes) {
            Some(total) if total <= self.limit => {
                *field(&mut counts) += bytes;
                true
            }
            _ => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of one shard on disk. Held by the cache's entry and by everyone who reads the shard: more than one holder
/// means "in use", and the bytes are free only after the last one, when the file is really closed.
#[derive(Debug)]
pub(super) struct Charge {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Charge {
    /// Bytes this shard takes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut counts = self.ledger.lock();
        counts.shards = counts.shards.saturating_sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_beyond_the_limit_and_everything_comes_back() {
        let ledger = Arc::new(Ledger::new(10 * PAGE));
        assert!(ledger.try_reserve(6 * PAGE));
        assert!(!ledger.try_reserve(5 * PAGE));
        assert_eq!(ledger.missing(5 * PAGE), PAGE);
        assert!(!ledger.try_reserve(u64::MAX), "no overflow");
        let charge = ledger.settle(6 * PAGE, 4 * PAGE);
        let reader = Arc::clone(&charge);
        drop(charge);
        assert_eq!(ledger.counts(), Counts { shards: 4 * PAGE, index: 0, reserved: 0 });
        drop(reader);
        assert_eq!(ledger.counts(), Counts::default());
    }

    #[test]
    fn the_guess_covers_the_smallest_blocks() {
        for content in [0u64, 1, 4096, 1 << 20, 10 << 30] {
            let meta = 72 + 1500 + 4 * content.div_ceil(64 << 10) + 4;
            assert!(charge_of(content, meta) <= footprint(content));
        }
        assert_eq!(footprint(u64::MAX), u64::MAX);
    }
}
