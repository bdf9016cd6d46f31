//! A training job of real processes: ranks that meet after every batch, die, and come back in another number.

mod common;

use common::{Daemon, LIMIT, Setup, pattern, tagged, write_shards};
use feedline_client::{Client, Remainder, Shuffle, StreamOptions, Token};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Makes the test binary act as one rank: rank, world size, batch size, order, token or "start", dataset.
const RANK: &str = "FEEDLINE_TEST_RANK";
const COUNTS: [u64; 11] = [130, 0, 75, 1, 160, 33, 190, 12, 251, 88, 60];
const TOTAL: usize = 1_000;
const EPOCHS: u64 = 2;

fn options(order: &str, dataset: &str) -> StreamOptions {
    let options = StreamOptions::new(dataset).remainder(Remainder::Pad).seed(11).epochs(EPOCHS);
    match order {
        "shards" => options.shuffle(Shuffle::Shards),
        "blocks" => options.shuffle(Shuffle::Blocks).mixing(3, 4, 64),
        _ => options.shuffle(Shuffle::Full),
    }
}

/// Not a test of its own: what each rank does.
#[test]
fn rank_process() {
    let Ok(arguments) = std::env::var(RANK) else { return };
    let [rank, world, batch, order, token, dataset] = &arguments.splitn(6, ' ').collect::<Vec<_>>()[..]
    else {
        panic!("six arguments")
    };
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let mut options =
        options(order, dataset).rank(number(rank), number(world)).batch_size(number(batch)).ready(3);
    if *token != "start" {
        options = options.resume(token.parse::<Token>().expect("a token"));
    }
    let mut stream = Client::connect_default().expect("the daemon answers").open(&options).expect("a stream");
    let mut go = String::new();
    while let Some(batch) = stream.next_batch_within(LIMIT).expect("the daemon comes back") {
        let own = batch.iter().take(batch.len() - batch.pads());
        let ids = own
            .map(|record| String::from_utf8_lossy(record).split(' ').take(4).collect::<Vec<_>>().join("_"));
        let ids = ids.collect::<Vec<_>>().join(",");
        writeln!(std::io::stdout(), "\nbatch {} {} {ids}", batch.epoch(), stream.token()).expect("heard");
        drop(batch);
        // The barrier: nobody takes the next batch before all have taken this one.
        std::io::stdin().read_line(&mut go).expect("the test goes on");
    }
    writeln!(std::io::stdout(), "\nend").expect("heard");
}

struct Rank {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
}

impl Rank {
    fn start(daemon: &Daemon, arguments: String) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "rank_process", "--nocapture"])
            .env(RANK, arguments)
            .env("FEEDLINE_SOCKET", daemon.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let stdin = child.stdin.take().expect("piped");
        Self { child, lines, stdin }
    }

    /// Epoch, token and records of the next batch; `None` at the end.
    fn batch(&mut self) -> Option<(u64, String, Vec<String>)> {
        loop {
            let line = self.lines.next().expect("the rank speaks").expect("text");
            if line == "end" {
                return None;
            }
            if let Some(rest) = line.strip_prefix("batch ") {
                let [epoch, token, ids] = rest.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                    panic!("{line}")
                };
                let ids = ids.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
                return Some((epoch.parse().expect("a number"), token.to_owned(), ids));
            }
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // As a node that loses power: no farewell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ranks_that_die_and_come_back_in_other_numbers_see_every_record_once_under_a_dying_daemon() {
    for order in ["shards", "blocks", "full"] {
        let mut daemon = Daemon::start(Setup::default());
        let data = daemon.dir().join("data");
        write_shards(&data, &COUNTS, |shard, record| tagged(shard, record, 700));
        let dataset = pattern(&data);
        assert_eq!(daemon.records(&StreamOptions::new(&dataset)).len(), TOTAL);
        let mut seen: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let mut token = "start".to_owned();
        let mut step = 0;
        // Ranks, batch size, and steps until all are killed.
        for (world, batch, steps) in [(7, 6, 14), (3, 14, 9), (2, 25, 11), (5, 9, usize::MAX)] {
            let arguments = |rank| format!("{rank} {world} {batch} {order} {token} {dataset}");
            let mut ranks: Vec<Rank> = (0..world).map(|rank| Rank::start(&daemon, arguments(rank))).collect();
            let mut ended = false;
            for _ in 0..steps {
                let batches: Vec<_> = ranks.iter_mut().map(Rank::batch).collect();
                if batches.iter().any(Option::is_none) {
                    assert!(batches.iter().all(Option::is_none), "{order}: one rank ends before the others");
                    ended = true;
                    break;
                }
                let batches: Vec<_> = batches.into_iter().flatten().collect();
                token.clone_from(&batches[0].1);
                assert!(batches.iter().all(|batch| batch.1 == token), "{order}: all ranks are at one place");
                for (epoch, _, ids) in batches {
                    seen.entry(epoch).or_default().extend(ids);
                }
                step += 1;
                if step % 8 == 4 {
                    daemon.kill_and_restart();
                }
                ranks.iter_mut().for_each(|rank| writeln!(rank.stdin, "go").expect("it listens"));
            }
            assert_eq!(ended, steps == usize::MAX, "{order}");
        }
        assert!(step > 40, "five kills and more: {step} steps");
        assert_eq!(seen.len() as u64, EPOCHS);
        for (epoch, mut ids) in seen {
            ids.sort();
            let mut expected: Vec<String> = (0..)
                .zip(COUNTS)
                .flat_map(|(shard, count)| {
                    (0..count).map(move |record| format!("shard_{shard}_record_{record}"))
                })
                .collect();
            expected.sort();
            assert!(ids == expected, "{order}, epoch {epoch}: {} of {TOTAL} records", ids.len());
        }
        daemon.wait_until_idle();
    }
}
