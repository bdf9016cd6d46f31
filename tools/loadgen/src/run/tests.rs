use super::*;
use crate::dataset::{Compression, Profile};
use feed::Rows;
use std::collections::VecDeque;

struct Script {
    batches: VecDeque<Scripted>,
    fails: bool,
}

struct Scripted {
    epoch: u64,
    pads: usize,
    records: Vec<Vec<u8>>,
}

impl Rows for Scripted {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn pads(&self) -> usize {
        self.pads
    }

    fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter().map(Vec::as_slice)
    }
}

impl Feed for Script {
    type Rows = Scripted;

    fn next(&mut self) -> Result<Option<(Scripted, bool)>> {
        match self.batches.pop_front() {
            Some(batch) => Ok(Some((batch, true))),
            None if self.fails => anyhow::bail!("the script ends in an error"),
            None => Ok(None),
        }
    }

    fn records(&self) -> Option<u64> {
        None
    }
}

fn manifest() -> Manifest {
    Manifest::new(Profile::Tiny, 2, 10, None, Compression::None, 1).unwrap()
}

fn record(id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    manifest().append_record(id, &mut out, &mut Vec::new());
    out
}

/// The ids of batches of five, dealt to two ranks, for `epochs` epochs: 20 records, two batches for each rank.
fn scripts(epochs: u64) -> Vec<Script> {
    (0..2)
        .map(|rank| {
            let batch = |epoch, number: u64| {
                let first = (number * 2 + rank) * 5;
                Scripted { epoch, pads: 0, records: (first..first + 5).map(record).collect() }
            };
            let batches = (0..epochs).flat_map(|epoch| [batch(epoch, 0), batch(epoch, 1)]).collect();
            Script { batches, fails: false }
        })
        .collect()
}

fn plan(remainder: Remainder) -> Plan {
    Plan {
        socket: None,
        stream: StreamOptions::new("script"),
        dataset: "script".to_owned(),
        clients: 2,
        batch_size: 5,
        remainder,
        consume: Consume::Copy,
        compute: Duration::ZERO,
        epochs: 1,
        verify: Some(manifest()),
    }
}

fn report(plan: &Plan, feeds: Vec<Script>) -> Result<Report> {
    let mut report = Report::new(plan, &Status::default());
    let daemon = |epoch| Ok(DaemonUse { store_requests: 10 - epoch, ..DaemonUse::default() });
    drive(plan, feeds, &ProgressBar::hidden(), &mut report, daemon)?;
    Ok(report)
}

fn problems(feeds: Vec<Script>) -> Vec<String> {
    let found = report(&plan(Remainder::Partial), feeds).unwrap().verification.unwrap();
    assert!(!found.ok);
    found.described
}

#[test]
fn figures_are_summed_per_epoch_and_in_total() {
    let report = report(&plan(Remainder::Partial), scripts(3)).unwrap();
    let verification = report.verification.as_ref().unwrap();
    assert!(verification.ok, "{:?}", verification.described);
    assert_eq!(verification.records, 60);
    assert_eq!(report.epochs.len(), 3);
    for (number, epoch) in report.epochs.iter().enumerate() {
        assert_eq!(epoch.epoch, Some(number as u64));
        assert_eq!((epoch.batches, epoch.records), (4, 20));
        assert_eq!(epoch.daemon.store_requests, 10 - number as u64);
        assert_eq!((epoch.wait.ready.calls, epoch.wait.waited.calls), (4, 0));
    }
    let total = report.total.as_ref().unwrap();
    assert_eq!((total.records, total.daemon.store_requests), (60, 27));
    assert_eq!(total.bytes, 3 * (0..20).map(|id| record(id).len() as u64).sum::<u64>());
    let mut text = Vec::new();
    print(&report, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("epoch 3") && text.contains("total") && text.contains("verified: 60 records"),
        "{text}"
    );
}

#[test]
fn a_record_seen_twice_and_one_never_seen_are_named() {
    let mut feeds = scripts(1);
    feeds[1].batches[0].records[0] = record(3);
    let found = problems(feeds);
    assert!(found.iter().any(|text| text.contains("record 3 (id 3) came twice")), "{found:?}");
    assert!(found.iter().any(|text| text.contains("1 of 20 records never came")), "{found:?}");
    assert!(found.iter().any(|text| text.contains("record 5 (id 5)")), "{found:?}");
}

#[test]
fn a_damaged_record_is_named() {
    let mut feeds = scripts(2);
    feeds[0].batches[3].records[4][60] ^= 1;
    let found = problems(feeds);
    let text = "epoch 1: shard shard-00001-of-00002.tfrecord record 4 (id 14)";
    assert!(found[0].starts_with(text), "{found:?}");
}

#[test]
fn pads_are_checked_but_may_repeat() {
    let mut feeds = scripts(1);
    let pad = feeds[1].batches.back_mut().unwrap();
    pad.records.push(record(0));
    pad.pads = 1;
    let sound = report(&plan(Remainder::Pad), feeds).unwrap();
    assert!(sound.is_sound(), "{:?}", sound.verification);
}

#[test]
fn only_a_dropped_remainder_may_be_missing() {
    let shortened = || {
        let mut feeds = scripts(1);
        for feed in &mut feeds {
            feed.batches.pop_back();
        }
        feeds
    };
    assert!(!report(&plan(Remainder::Partial), shortened()).unwrap().is_sound());
    let dropping = Plan { batch_size: 6, ..plan(Remainder::Drop) };
    // 20 records in global batches of 12: eight are left over.
    let found = report(&dropping, shortened()).unwrap().verification.unwrap();
    assert!(found.described[0].contains("10 of 20 records never came, 8 may be left out"), "{found:?}");
    assert_eq!(found.problems, 2);
}

#[test]
fn unequal_ranks_are_a_problem() {
    let mut feeds = scripts(1);
    let moved = feeds[1].batches.pop_back().unwrap();
    feeds[0].batches.push_back(moved);
    assert!(problems(feeds)[0].contains("one rank had"));
}

#[test]
fn a_failing_rank_ends_the_run_with_its_error() {
    let mut feeds = scripts(2);
    feeds[1].batches.truncate(1);
    feeds[1].fails = true;
    let error = report(&plan(Remainder::Partial), feeds).unwrap_err();
    assert_eq!(format!("{error:#}"), "rank 1: the script ends in an error");
}

#[test]
fn no_daemon_is_an_error_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { socket: Some(dir.path().join("none.sock")), ..plan(Remainder::Drop) };
    let error = run(&plan, &ProgressBar::hidden()).unwrap_err();
    assert!(error.to_string().contains("feedline serve"), "{error:#}");
}
