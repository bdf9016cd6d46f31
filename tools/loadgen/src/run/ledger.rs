//! Which records have come: one bit per record and epoch, shared by all ranks.

use crate::dataset::Manifest;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::measure::Share;
use super::report::Verification;

/// Problems that are described one by one; all are counted.
const DESCRIBED: usize = 20;

pub(super) struct Ledger<'a> {
    manifest: &'a Manifest,
    /// Records that may be absent from each epoch, as the remainder is dropped.
    may_miss: u64,
    open: Mutex<BTreeMap<u64, Arc<Ticks>>>,
    found: Mutex<Verification>,
}

/// One epoch's ticks.
pub(super) struct Ticks {
    epoch: u64,
    words: Vec<AtomicU64>,
}

/// What one rank needs for checking: its buffers and the epoch's ticks.
pub(super) struct Checker<'a> {
    ledger: &'a Ledger<'a>,
    ticks: Arc<Ticks>,
    expected: Vec<u8>,
    scratch: Vec<u8>,
    checked: u64,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(manifest: &'a Manifest, may_miss: u64) -> Self {
        Self { manifest, may_miss, open: Mutex::default(), found: Mutex::default() }
    }

    pub(super) fn checker(&'a self, epoch: u64) -> Checker<'a> {
        Checker {
            ledger: self,
            ticks: self.ticks(epoch),
            expected: Vec::new(),
            scratch: Vec::new(),
            checked: 0,
        }
    }

    fn ticks(&self, epoch: u64) -> Arc<Ticks> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let words = usize::try_from(self.manifest.records().div_ceil(64)).unwrap_or(usize::MAX);
        let new = || Arc::new(Ticks { epoch, words: (0..words).map(|_| AtomicU64::new(0)).collect() });
        Arc::clone(open.entry(epoch).or_insert_with(new))
    }

    fn found(&self) -> MutexGuard<'_, Verification> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn problem(&self, text: impl FnOnce() -> String) {
        let mut found = self.found();
        found.problems += 1;
        if found.described.len() < DESCRIBED {
            found.described.push(text());
        }
    }

    /// Looks for what did not come in an epoch that all ranks have ended, and for ranks that were dealt unequally.
    pub(super) fn close(&self, epoch: u64, shares: &[Share]) {
        let ticks = self.ticks(epoch);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&epoch);
        let seen: u64 =
            ticks.words.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum();
        let missing = self.manifest.records() - seen;
        if missing > self.may_miss {
            let first = (0..self.manifest.records()).find(|id| !ticks.has(*id)).unwrap_or_default();
            self.problem(|| {
                format!(
                    "epoch {epoch}: {missing} of {} records never came, {} may be left out; the first is {}",
                    self.manifest.records(),
                    self.may_miss,
                    self.manifest.place(first)
                )
            });
            // Each record counts, not only the sentence about them.
            self.found().problems += missing - self.may_miss - 1;
        }
        if let Some(pair) = shares.windows(2).find(|pair| pair[0].batches != pair[1].batches) {
            self.problem(|| {
                format!(
                    "epoch {epoch}: one rank had {} batches, another {}",
                    pair[0].batches, pair[1].batches
                )
            });
        }
    }

    pub(super) fn finish(self) -> Verification {
        let mut found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.ok = found.problems == 0 && found.records > 0;
        found
    }
}

impl Ticks {
    fn has(&self, id: u64) -> bool {
        usize::try_from(id / 64)
            .ok()
            .and_then(|at| self.words.get(at))
            .is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (id % 64)) != 0)
    }

    /// Ticks an id; whether it was ticked before.
    fn tick(&self, id: u64) -> bool {
        let bit = 1 << (id % 64);
        usize::try_from(id / 64)
            .ok()
            .and_then(|at| self.words.get(at))
            .is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit != 0)
    }
}

impl Checker<'_> {
    /// Checks content and, unless the record is a pad, that it has not come before in this epoch.
    pub(super) fn check(&mut self, record: &[u8], pad: bool) {
        self.checked += 1;
        let (ledger, epoch) = (self.ledger, self.ticks.epoch);
        match ledger.manifest.check_record(record, &mut self.expected, &mut self.scratch) {
            Err(mismatch) => {
                ledger.problem(|| format!("epoch {epoch}: {}", ledger.manifest.describe(&mismatch)));
            }
            Ok(id) if !pad && self.ticks.tick(id) => {
                ledger.problem(|| format!("epoch {epoch}: {} came twice", ledger.manifest.place(id)));
            }
            Ok(_) => {}
        }
    }
}

impl Drop for Checker<'_> {
    fn drop(&mut self) {
        self.ledger.found().records += self.checked;
    }
}
