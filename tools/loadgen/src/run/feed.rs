//! Where a rank's batches come from: a stream of the daemon, or a script in tests.

use anyhow::Result;
use feedline_client::{Batch, Stream};

/// A batch as a rank needs it.
pub(super) trait Rows {
    /// Epoch, from 0.
    fn epoch(&self) -> u64;
    /// Records at the end that are repetitions.
    fn pads(&self) -> usize;
    /// All payloads in order.
    fn records(&self) -> impl ExactSizeIterator<Item = &[u8]>;
}

/// A source of batches that blocks until the next one is there.
pub(super) trait Feed: Send {
    type Rows: Rows;

    /// The next batch, and whether it was ready when asked for; `None` after the last.
    fn next(&mut self) -> Result<Option<(Self::Rows, bool)>>;

    /// Records of an epoch over all ranks, if known.
    fn records(&self) -> Option<u64>;
}

impl Rows for Batch {
    fn epoch(&self) -> u64 {
        Batch::epoch(self)
    }

    fn pads(&self) -> usize {
        Batch::pads(self)
    }

    fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.iter()
    }
}

impl Feed for Stream {
    type Rows = Batch;

    fn next(&mut self) -> Result<Option<(Batch, bool)>> {
        let waited = self.waits().waited;
        let batch = self.next_batch()?;
        let ready = self.waits().waited == waited;
        Ok(batch.map(|batch| (batch, ready)))
    }

    fn records(&self) -> Option<u64> {
        Stream::records(self)
    }
}
