//! Clients and daemons that die: nothing stays held, nobody waits for ever, and what a client holds does not change.

mod common;

use common::{Daemon, LIMIT, Setup, pattern, tagged, write_shards};
use feedline_client::{Epochs, Error, StreamOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Makes the test binary act as a trainer that takes this many batches, keeps them, and says so.
const HOLD: &str = "FEEDLINE_TEST_HOLD";

fn payload(shard: u64, record: u64) -> Vec<u8> {
    tagged(shard, record, 3000)
}

fn options(daemon: &Daemon) -> StreamOptions {
    let options = StreamOptions::new(pattern(&daemon.dir().join("data"))).batch_size(16);
    options.epochs(Epochs::Forever).reconnect(Duration::ZERO)
}

fn daemon() -> Daemon {
    let daemon = Daemon::start(Setup::default());
    write_shards(&daemon.dir().join("data"), &[300, 300], payload);
    daemon
}

/// Not a test of its own: what the child process of the others does.
#[test]
fn trainer_process() {
    let Ok(hold) = std::env::var(HOLD) else { return };
    let (count, dataset) = hold.split_once(' ').expect("a count and a dataset");
    let count: usize = count.parse().expect("a count");
    let options = StreamOptions::new(dataset).batch_size(16).epochs(Epochs::Forever);
    let client = feedline_client::Client::connect_default().expect("the daemon answers");
    let mut stream = client.open(&options).expect("a stream");
    let held: Vec<_> = (0..count).map(|_| stream.next_batch().expect("a batch")).collect();
    writeln!(std::io::stdout(), "holding").expect("the test listens");
    // Killed here, with `held` batches out and others ready.
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    drop(held);
}

fn trainer(daemon: &Daemon, batches: usize) -> Child {
    let dataset = pattern(&daemon.dir().join("data"));
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "trainer_process", "--nocapture"])
        .env(HOLD, format!("{batches} {dataset}"))
        .env("FEEDLINE_SOCKET", daemon.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("holding")), "{}", daemon.log());
    child
}

#[test]
fn fifty_killed_clients_leave_nothing_behind() {
    let daemon = daemon();
    // One orderly client first: the daemon's own descriptors are open from now on.
    drop(trainer(&daemon, 1).kill());
    let baseline = daemon.wait_until_idle();
    for round in 0..50 {
        let mut child = trainer(&daemon, [0, 1, 7][round % 3]);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
    let status = daemon.wait_until_idle();
    assert_eq!(status.open_descriptors, baseline.open_descriptors);
    let (pool, before) = (status.pool.unwrap_or_default(), baseline.pool.unwrap_or_default());
    assert_eq!(pool.free + pool.cached, before.free + before.cached);
    assert_eq!(daemon.records(&options(&daemon).epochs(1)).len(), 592, "and the next client is served");
}

#[test]
fn a_hundred_short_visits_leave_the_descriptors_flat() {
    let daemon = daemon();
    daemon.records(&options(&daemon).epochs(1));
    let baseline = daemon.wait_until_idle().open_descriptors;
    for _ in 0..100 {
        let mut stream = daemon.open(&options(&daemon));
        stream.next_batch_within(LIMIT).expect("a batch");
    }
    assert_eq!(daemon.wait_until_idle().open_descriptors, baseline);
}

#[test]
fn a_hoarder_stalls_itself_and_nobody_else_and_its_bytes_stay() {
    let daemon = daemon();
    let mut hoarder = daemon.open(&options(&daemon).job("hoarder"));
    let mut kept = Vec::new();
    let stalled = loop {
        match hoarder.next_batch_within(Duration::from_millis(300)) {
            Ok(Some(batch)) => {
                let copy: Vec<Vec<u8>> = batch.iter().map(<[u8]>::to_vec).collect();
                kept.push((batch, copy));
            }
            Ok(None) => panic!("the stream never ends"),
            Err(Error::TimedOut(_)) => break true,
            Err(error) => panic!("{error}"),
        }
        if kept.len() > 5_000 {
            break false;
        }
    };
    // The whole dataset fits its share, so what stops it is the number of batches out.
    let status = daemon.status();
    let stream = status.streams.iter().find(|stream| stream.job == "hoarder").expect("it is open");
    assert!(stalled && stream.waits_for.starts_with("leases"), "{stream:?}");

    // Another job runs over the pool meanwhile.
    let other = daemon.dir().join("other");
    write_shards(&other, &[2000, 2000, 2000], |shard, record| tagged(shard + 9, record, 3000));
    assert_eq!(daemon.records(&StreamOptions::new(pattern(&other)).batch_size(100)).len(), 6000);
    assert!(
        kept.iter().all(|(batch, copy)| batch.iter().eq(copy.iter().map(Vec::as_slice))),
        "held bytes changed"
    );

    // Dropped in any order and on another thread, they let the stream go on.
    let middle = kept.len() / 2;
    let dropped = kept.split_off(middle);
    std::thread::spawn(move || drop(dropped)).join().expect("a thread");
    assert!(hoarder.next_batch_within(LIMIT).expect("a batch").is_some());
    drop((kept, hoarder));
    daemon.wait_until_idle();
}

#[test]
fn batches_outlive_their_stream_and_do_not_change() {
    let daemon = daemon();
    let mut stream = daemon.open(&options(&daemon));
    let kept: Vec<_> = (0..5).map(|_| stream.next_batch_within(LIMIT).expect("one").expect("one")).collect();
    let copies: Vec<Vec<Vec<u8>>> =
        kept.iter().map(|batch| batch.iter().map(<[u8]>::to_vec).collect()).collect();
    drop(stream);
    // Another job runs over the pool several times meanwhile.
    let other = daemon.dir().join("other");
    write_shards(&other, &[2000, 2000, 2000], |shard, record| tagged(shard + 9, record, 3000));
    assert_eq!(daemon.records(&StreamOptions::new(pattern(&other)).batch_size(100).epochs(2)).len(), 12_000);
    for (batch, copy) in kept.iter().zip(&copies) {
        assert!(batch.iter().eq(copy.iter().map(Vec::as_slice)), "held bytes changed");
    }
    drop(kept);
    daemon.wait_until_idle();
}

#[test]
fn the_death_of_the_daemon_is_noticed_at_once_and_held_batches_stay_readable() {
    let mut daemon = daemon();
    let mut stream = daemon.open(&options(&daemon));
    let batch = stream.next_batch_within(LIMIT).expect("a batch").expect("not the end");
    let copy: Vec<Vec<u8>> = batch.iter().map(<[u8]>::to_vec).collect();
    daemon.kill();
    let start = Instant::now();
    let error = loop {
        match stream.next_batch() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("not an orderly end"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DaemonGone), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(batch.iter().eq(copy.iter().map(Vec::as_slice)));
    assert!(stream.next_batch().expect("a second look is no error").is_none());
    assert!(matches!(feedline_client::Client::connect(daemon.socket()), Err(Error::NoDaemon { .. })));
}

#[test]
fn a_waiting_client_is_woken_by_the_death_of_the_daemon() {
    let mut daemon = daemon();
    let mut stream = daemon.open(&options(&daemon).ready(1));
    let mut kept = Vec::new();
    // Until it stalls for want of returns: then nothing more can come.
    while let Ok(Some(batch)) = stream.next_batch_within(Duration::from_millis(200)) {
        kept.push(batch);
    }
    let waiter = std::thread::spawn(move || {
        let outcome = stream.next_batch_within(LIMIT);
        (outcome.err(), Instant::now())
    });
    daemon.kill();
    let killed = Instant::now();
    let (error, noticed) = waiter.join().expect("a thread");
    assert!(matches!(error, Some(Error::DaemonGone)), "{error:?}");
    assert!(noticed.saturating_duration_since(killed) < Duration::from_secs(1));
    drop(kept);
}

#[test]
fn a_stopped_daemon_is_a_time_out_and_the_stream_goes_on_afterwards() {
    let daemon = daemon();
    let mut stream = daemon.open(&options(&daemon));
    daemon.signal(rustix::process::Signal::STOP);
    let mut taken = 0;
    let error = loop {
        match stream.next_batch_within(Duration::from_millis(200)) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::TimedOut(_)), "{error}");
    daemon.signal(rustix::process::Signal::CONT);
    let batch = stream.next_batch_within(LIMIT).expect("it goes on").expect("not the end");
    assert_eq!(batch.global_batch() + batch.epoch() * 37, taken, "the next one, none lost");
}
