//! Reads a dataset through the daemon as the ranks of one job would, and measures what a trainer feels.
//!
//! Each rank is a thread with its own connection ([`rank`]). All ranks meet at the end of each epoch ([`gate`]), as the
//! ranks of a training job meet at every step; there the daemon is asked for its counters, so that CPU and store
//! requests are known per epoch. Time at the meeting is in nobody's figures: an epoch lasts as long as its slowest rank
//! was busy waiting, consuming and computing.
//!
//! With verification each record's content is compared with what its id says ([`crate::dataset`]) and each id is ticked
//! off ([`ledger`]).
//!
//! Limits: what the daemon fetches ahead for the next epoch counts in the epoch in which it is fetched. Client CPU
//! includes consuming and verifying, so rates are to be taken without `--verify`.

mod feed;
mod gate;
mod ledger;
mod measure;
mod rank;
mod report;
mod table;

pub use rank::Consume;
pub use report::{DaemonUse, EpochReport, Quantiles, Report, Verification, WaitReport};
pub use table::print;

use crate::dataset::Manifest;
use anyhow::{Context as _, Result};
use feed::Feed;
use feedline_client::{Client, Error, Remainder, Status, StreamOptions};
use gate::Gate;
use indicatif::ProgressBar;
use ledger::Ledger;
use measure::{RankEpoch, Tally};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The daemon's socket; `None` for the default one.
    pub socket: Option<PathBuf>,
    /// The stream that every rank opens; rank and world size are set here.
    pub stream: StreamOptions,
    /// The dataset's URL or name, for the report.
    pub dataset: String,
    /// Number of ranks, at least 1.
    pub clients: u32,
    /// Records per batch and rank.
    pub batch_size: u32,
    /// What the stream does with the records that do not fill the last batch.
    pub remainder: Remainder,
    /// What a rank does with each record.
    pub consume: Consume,
    /// Simulated work after each batch, during which the rank sleeps.
    pub compute: Duration,
    /// How often the dataset is read.
    pub epochs: u64,
    /// The dataset's description, if every record shall be verified.
    pub verify: Option<Manifest>,
}

/// Runs the plan; `progress` counts records.
///
/// # Errors
/// No daemon, or a stream that failed: the first error of any rank. A failed verification is not an error but part of
/// the report.
pub fn run(plan: &Plan, progress: &ProgressBar) -> Result<Report> {
    let connect = || -> Result<Client> {
        Ok(match &plan.socket {
            Some(socket) => Client::connect(socket)?,
            None => Client::connect_default()?,
        })
    };
    let mut control = connect()?;
    let before = control.status().context("cannot read the daemon's status")?;
    let mut report = Report::new(plan, &before);
    let mut feeds = Vec::new();
    for rank in 0..plan.clients {
        let options = plan.stream.clone().rank(rank, plan.clients);
        feeds.push(connect()?.open(&options).with_context(|| format!("rank {rank} cannot open its stream"))?);
    }
    if let Some(records) = feeds.first().and_then(Feed::records) {
        progress.set_length(records.saturating_mul(plan.epochs));
    }
    let mut counters = before;
    drive(plan, feeds, progress, &mut report, |_| {
        let now = status_again(&mut control, &connect).context("cannot read the daemon's status")?;
        let used = DaemonUse::between(&counters, &now);
        counters = now;
        Ok(used)
    })?;
    Ok(report)
}

/// How long a daemon that is restarted under the run may be away, as for the streams.
const AWAY: Duration = Duration::from_secs(60);

/// The status, from a new daemon if the old one has gone.
fn status_again(control: &mut Client, connect: &impl Fn() -> Result<Client>) -> Result<Status> {
    let began = Instant::now();
    loop {
        match control.status() {
            Err(Error::DaemonGone | Error::System { .. }) if began.elapsed() < AWAY => {}
            other => return Ok(other?),
        }
        std::thread::sleep(Duration::from_millis(100));
        if let Ok(new) = connect() {
            *control = new;
        }
    }
}

/// Runs every feed to its end on a thread of its own; `daemon` is asked at the end of each epoch.
fn drive<F: Feed>(
    plan: &Plan,
    feeds: Vec<F>,
    progress: &ProgressBar,
    report: &mut Report,
    daemon: impl FnMut(u64) -> Result<DaemonUse> + Send,
) -> Result<()> {
    let ledger = plan.verify.as_ref().map(|manifest| Ledger::new(manifest, may_miss(plan, manifest)));
    let tally = Mutex::new((Tally::new(), report, daemon));
    let gate = Gate::new(feeds.len());
    let close = |epoch: u64| -> Result<()> {
        let (tally, report, daemon) = &mut *tally.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ledger) = &ledger {
            ledger.close(epoch, tally.ranks());
        }
        let used = daemon(epoch)?;
        report.add(tally.close(epoch, &used));
        Ok(())
    };
    let hand_in = |part: RankEpoch| tally.lock().unwrap_or_else(PoisonError::into_inner).0.add(&part);
    let shared = rank::Shared {
        consume: plan.consume,
        compute: plan.compute,
        ledger: ledger.as_ref(),
        gate: &gate,
        progress,
        hand_in: &hand_in,
        close: &close,
    };
    std::thread::scope(|scope| -> Result<()> {
        let ranks: Vec<_> = feeds
            .into_iter()
            .enumerate()
            .map(|(rank, feed)| (rank, scope.spawn(|| rank::drive(feed, &shared))))
            .collect();
        let mut outcome = Ok(());
        for (rank, handle) in ranks {
            let end = handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if outcome.is_ok() {
                outcome = end.with_context(|| format!("rank {rank}"));
            }
        }
        outcome
    })?;
    let (tally, report, _) = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.finish(tally, ledger.map(Ledger::finish));
    Ok(())
}

/// How many records of an epoch no rank is handed.
fn may_miss(plan: &Plan, manifest: &Manifest) -> u64 {
    match plan.remainder {
        Remainder::Drop => manifest.records() % (u64::from(plan.batch_size) * u64::from(plan.clients)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
