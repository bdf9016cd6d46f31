//! How many records each shard has, and where the sequence must end.

use super::{StreamFailure, Walk};
use crate::order::{Counts, Located, Shuffle};
use crate::record::{CorruptPolicy, RecordError, ShardIndex};

impl Walk {
    /// Takes over what is known of the whole dataset. Shards with corrupt records are left to be looked at one by one.
    pub(super) fn take_known_counts(&mut self) {
        let Some(known) = self.plan.dataset.counts() else { return };
        while let Some(slot) = self.counts.first_unknown() {
            let count = known[usize::try_from(self.order.shard_at(slot)).expect("shards fit memory")];
            if count.bad > 0 {
                return;
            }
            self.counts.learn(count.good);
        }
    }

    /// Learns more of the first shard that is not known whole: at once if possible, else by waiting for the scan.
    pub(super) async fn learn(&mut self) -> Result<(), StreamFailure> {
        let slot = self.counts.first_unknown().expect("called while counts are missing");
        let handle = self.handle(self.epoch, slot);
        let mut changes = handle.changes();
        let before = self.counts.certain();
        let (known, scanned) = {
            let index = handle.index();
            self.take_counts(slot, &index, &handle.object().url);
            (index.complete(), index.block_crcs().len() as u64)
        };
        if known {
            self.take_known_counts();
            return Ok(());
        }
        if self.poison.is_some() || self.counts.certain() > before {
            return Ok(());
        }
        if let Some(failure) = handle.failure() {
            return Err(failure.into());
        }
        if self.order.keeps_records_together() {
            handle.want(scanned + self.plan.window);
            self.loader.ensure(&handle);
        } else {
            // Nothing of a group can be told before all of it is counted, so all of it comes at once.
            let (first, end) = self.order.group(slot);
            for slot in first..end {
                let handle = self.handle(self.epoch, slot);
                handle.want(u64::MAX);
                self.loader.ensure(&handle);
            }
        }
        // The sender lives in the handle.
        let _ = changes.changed().await;
        Ok(())
    }

    /// Whether a pad lies before where counting began and is not known yet.
    pub(super) fn needs_head(&self, head: &Counts, pad: u64) -> bool {
        let unknown = |counts| matches!(self.order.locate(pad, counts), Located::Unknown { .. });
        unknown(&self.counts) && unknown(head)
    }

    /// Learns more of the shards at the epoch's start.
    pub(super) async fn learn_head(&mut self) -> Result<(), StreamFailure> {
        let slot =
            self.head.as_ref().and_then(Counts::first_unknown).expect("called while counts are missing");
        let handle = self.handle(self.epoch, slot);
        let mut changes = handle.changes();
        if let Some(failure) = handle.failure() {
            return Err(failure.into());
        }
        let known = { handle.index().complete().then(|| handle.index().good()) };
        match (known, &mut self.head) {
            (Some(records), Some(head)) => head.learn(records),
            _ => {
                handle.want(u64::MAX);
                self.loader.ensure(&handle);
                let _ = changes.changed().await;
            }
        }
        Ok(())
    }

    /// Reads from an index how many records count, and whether the sequence ends in it.
    fn take_counts(&mut self, slot: u64, index: &ShardIndex, url: &str) {
        let start = self.counts.start_of(slot).expect("all slots before are known");
        let (max, limit) = match self.plan.corrupt {
            CorruptPolicy::Fail => (0, None),
            CorruptPolicy::Skip { max } => (max, Some(max)),
        };
        let allowed = max - self.skipped_in_epoch;
        if let Some((record, mut error)) = first_not_allowed(index, allowed, url) {
            error.skip_limit = limit;
            if self.order.keeps_records_together() {
                self.poison = Some((start + record, error));
                self.counts.learn_at_least(record);
                return;
            }
            // Records are mixed: none of the group can be told from this one.
            let group = self.order.group(slot).0;
            let group =
                if self.plan.shuffle == Shuffle::Full { Some(0) } else { self.counts.start_of(group) };
            self.poison = Some((group.unwrap_or(start), error));
            return;
        }
        if index.complete() {
            let skipped = index.bad().len() as u64 + u64::from(index.tail().is_some());
            if skipped > 0 {
                tracing::warn!(url, skipped, broken_end = index.tail().is_some(), "corrupt records skipped");
            }
            self.skipped_in_epoch += skipped;
            self.skipped += skipped;
            self.counts.learn(index.good());
        } else {
            self.counts.learn_at_least(index.good());
        }
    }
}

/// The first fault of a shard beyond those allowed: number among the good records, and the error.
fn first_not_allowed(index: &ShardIndex, allowed: u64, url: &str) -> Option<(u64, RecordError)> {
    let bad = index.bad();
    let over = usize::try_from(allowed).ok().and_then(|allowed| bad.get(allowed));
    if let Some(over) = over {
        return Some((over.record - allowed, index.bad_error(over, url)));
    }
    let tail = index.tail().filter(|_| index.complete() && bad.len() as u64 == allowed)?;
    Some((index.good(), ShardIndex::tail_error(tail, url)))
}
