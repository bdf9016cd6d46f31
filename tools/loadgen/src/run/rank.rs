//! One rank: asks for the next batch, does with it what a trainer would, and times each call.

use super::feed::{Feed, Rows};
use super::gate::{Gate, Pass};
use super::ledger::{Checker, Ledger};
use super::measure::{RankEpoch, thread_cpu};
use anyhow::Result;
use indicatif::ProgressBar;
use serde::Serialize;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What a rank does with each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Consume {
    /// Copies it once, all records of a batch one after the other into a buffer that is kept, as a trainer fills its
    /// staging buffer.
    Copy,
    /// Reads every byte.
    Touch,
    /// Takes note of where it is, without reading it.
    None,
}

/// What all ranks share.
pub(super) struct Shared<'a> {
    pub(super) consume: Consume,
    pub(super) compute: Duration,
    pub(super) ledger: Option<&'a Ledger<'a>>,
    pub(super) gate: &'a Gate,
    pub(super) progress: &'a ProgressBar,
    /// Takes a rank's figures when it has ended an epoch.
    pub(super) hand_in: &'a (dyn Fn(RankEpoch) + Sync),
    /// Ends an epoch once all ranks have handed in theirs.
    pub(super) close: &'a (dyn Fn(u64) -> Result<()> + Sync),
}

/// Runs a feed to its end.
pub(super) fn drive<F: Feed>(feed: F, shared: &Shared<'_>) -> Result<()> {
    /// Leaves the gate whatever happens, so that nobody waits for this rank.
    struct Leave<'a>(&'a Gate, bool);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.0.leave(self.1);
        }
    }
    let mut leave = Leave(shared.gate, true);
    let outcome = Rank { shared, staging: Vec::new(), checker: None }.run(feed);
    leave.1 = outcome.is_err();
    outcome
}

struct Rank<'a> {
    shared: &'a Shared<'a>,
    staging: Vec<u8>,
    checker: Option<Checker<'a>>,
}

impl<'a> Rank<'a> {
    fn run<F: Feed>(&mut self, mut feed: F) -> Result<()> {
        let mut part: Option<RankEpoch> = None;
        let mut cpu = thread_cpu();
        loop {
            let asked = Instant::now();
            let next = feed.next()?;
            let took = asked.elapsed();
            let epoch = next.as_ref().map(|(rows, _)| rows.epoch());
            let mut current = match part.take() {
                Some(part) if Some(part.epoch) == epoch => part,
                ended => {
                    if let Some(mut ended) = ended {
                        ended.cpu = thread_cpu().saturating_sub(cpu);
                        if self.end(ended)? == Pass::Broken {
                            return Ok(());
                        }
                    }
                    let Some(epoch) = epoch else { return Ok(()) };
                    cpu = thread_cpu();
                    self.checker = self.shared.ledger.map(|ledger| ledger.checker(epoch));
                    RankEpoch::new(epoch)
                }
            };
            if let Some((rows, ready)) = next {
                current.call(took, ready);
                self.consume(&rows, &mut current);
                // The batch is given back before the work begins, as after a copy to the device.
                drop(rows);
                self.compute(&mut current);
            }
            if self.shared.gate.is_broken() {
                return Ok(());
            }
            part = Some(current);
        }
    }

    fn end(&mut self, part: RankEpoch) -> Result<Pass> {
        let epoch = part.epoch;
        self.checker = None;
        (self.shared.hand_in)(part);
        self.shared.gate.meet(|| (self.shared.close)(epoch))
    }

    fn consume(&mut self, rows: &impl Rows, part: &mut RankEpoch) {
        let began = Instant::now();
        let (mut bytes, mut sum) = (0, 0_u64);
        self.staging.clear();
        let records = rows.records();
        let count = records.len();
        let first_pad = count - rows.pads().min(count);
        for (number, record) in records.enumerate() {
            bytes += record.len() as u64;
            match self.shared.consume {
                Consume::Copy => self.staging.extend_from_slice(record),
                Consume::Touch => sum = sum.wrapping_add(word_sum(record)),
                Consume::None => {
                    black_box(record.as_ptr());
                }
            }
            if let Some(checker) = &mut self.checker {
                checker.check(record, number >= first_pad);
            }
        }
        black_box((&self.staging, sum));
        part.batches += 1;
        part.records += count as u64;
        part.bytes += bytes;
        part.busy += began.elapsed();
        self.shared.progress.inc(count as u64);
    }

    fn compute(&self, part: &mut RankEpoch) {
        if !self.shared.compute.is_zero() {
            let began = Instant::now();
            std::thread::sleep(self.shared.compute);
            let took = began.elapsed();
            part.compute += took;
            part.busy += took;
        }
    }
}

fn word_sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0_u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}
