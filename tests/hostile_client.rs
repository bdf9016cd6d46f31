//! Clients that break the rules: they end their own stream or connection, and nothing else.

mod common;

use common::{Daemon, LIMIT, Setup, pattern, tagged, write_shards};
use feedline_client::{Epochs, StreamOptions};
use feedline_proto::shm::layout::{
    DATA_OFFSET, RETURN_HEAD, RETURN_TAIL, RETURN_TAKEN, RETURN_WAITING, RING_HEAD,
};
use feedline_proto::shm::{Consumer, Entry, Mapping, PoolView};
use feedline_proto::socket::{receive_with_descriptors, send_with_descriptors};
use feedline_proto::v1::{self, ErrorCode, Hello, OpenStream, Reply, Request, StreamOpened, reply, request};
use feedline_proto::{PROTOCOL_VERSION, frame};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

fn daemon() -> Daemon {
    let daemon = Daemon::start(Setup::default());
    write_shards(&daemon.dir().join("data"), &[300, 300], |shard, record| tagged(shard, record, 3_000));
    daemon
}

fn options(daemon: &Daemon) -> StreamOptions {
    StreamOptions::new(pattern(&daemon.dir().join("data"))).batch_size(16)
}

/// The daemon serves others as before, and holds nothing.
fn assert_unharmed(daemon: &Daemon) {
    assert_eq!(daemon.records(&options(daemon)).len(), 592);
    let log = daemon.log();
    assert!(!log.contains("panicked"), "{log}");
    daemon.wait_until_idle();
}

/// A connection without the client library.
struct Raw {
    socket: UnixStream,
    descriptors: Vec<OwnedFd>,
}

impl Raw {
    fn connect(daemon: &Daemon) -> Self {
        let socket = UnixStream::connect(daemon.socket()).expect("the daemon listens");
        socket.set_read_timeout(Some(LIMIT)).expect("time-out");
        Self { socket, descriptors: Vec::new() }
    }

    fn greet(daemon: &Daemon) -> Self {
        let mut raw = Self::connect(daemon);
        raw.send(&Hello { protocol: PROTOCOL_VERSION, client: "raw".to_owned(), pid: 1 });
        assert!(matches!(raw.receive(), Some(reply::Body::Hello(_))));
        raw
    }

    fn send(&mut self, message: &impl prost::Message) {
        self.socket.write_all(&frame::encode(message)).expect("the daemon reads");
    }

    /// The next reply, or `None` once the daemon has hung up.
    fn receive(&mut self) -> Option<reply::Body> {
        let mut buffer = Vec::new();
        loop {
            if let Some((message, _)) = frame::split(&buffer).expect("a frame") {
                return frame::decode::<Reply>(&buffer[message]).expect("a reply").body;
            }
            let mut piece = [0; 4096];
            match receive_with_descriptors(&self.socket, &mut piece, &mut self.descriptors) {
                Ok(0) => return None,
                Ok(count) => buffer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the daemon neither answers nor hangs up: {error}"),
            }
        }
    }

    fn error(&mut self) -> v1::Error {
        match self.receive() {
            Some(reply::Body::Error(error)) => error,
            other => panic!("not an error: {other:?}"),
        }
    }

    fn assert_hung_up(&mut self) {
        let received = self.receive();
        assert!(received.is_none(), "{received:?}");
    }
}

/// A stream whose shared memory the test writes as it likes.
struct RawStream {
    raw: Raw,
    opened: StreamOpened,
    ring: Mapping,
    returns: Mapping,
}

impl RawStream {
    fn open(daemon: &Daemon, epochs: u64) -> Self {
        let mut raw = Raw::greet(daemon);
        let dataset = vec![pattern(&daemon.dir().join("data"))];
        let open =
            OpenStream { dataset, batch_size: 16, world_size: 1, ready: 4, epochs, ..OpenStream::default() };
        raw.send(&Request { body: Some(request::Body::Open(open)) });
        let Some(reply::Body::Opened(opened)) = raw.receive() else { panic!("no stream") };
        let size = |bytes: u64| DATA_OFFSET + usize::try_from(bytes).expect("small");
        let ring = Mapping::read_only(&raw.descriptors[0], size(opened.ring_bytes)).expect("mapped");
        let returns =
            Mapping::read_write(&raw.descriptors[1], size(opened.return_entries * 8)).expect("mapped");
        Self { raw, opened, ring, returns }
    }

    /// Sets a counter in the client's memory.
    fn set(&self, counter: usize, value: u64) {
        self.returns.counter(counter).store(value, SeqCst);
    }

    /// Tells the daemon to look.
    fn wake(&self) {
        let sent = rustix::net::send(&self.raw.descriptors[3], &[1], rustix::net::SendFlags::NOSIGNAL);
        assert!(matches!(sent, Ok(1) | Err(rustix::io::Errno::PIPE)), "{sent:?}");
    }

    /// Waits until the daemon has written something.
    fn wait_for_batches(&self) {
        let event = &self.raw.descriptors[2];
        self.returns.flag(RETURN_WAITING).store(1, SeqCst);
        while self.ring.counter(RING_HEAD).load(SeqCst) == 0 {
            let mut fds = [rustix::event::PollFd::new(event, rustix::event::PollFlags::IN)];
            let limit = rustix::event::Timespec { tv_sec: 30, tv_nsec: 0 };
            assert_eq!(rustix::event::poll(&mut fds, Some(&limit)), Ok(1), "no batch");
        }
        self.returns.flag(RETURN_WAITING).store(0, SeqCst);
    }
}

#[test]
fn impossible_counters_end_the_stream_that_has_them() {
    let daemon = daemon();
    let mut good = daemon.open(&options(&daemon).epochs(Epochs::Forever));
    let held = good.next_batch_within(LIMIT).expect("a batch").expect("not the end");
    let copy: Vec<Vec<u8>> = held.iter().map(<[u8]>::to_vec).collect();
    let attacks: &[(&str, &[(usize, u64)])] = &[
        ("a batch that never was", &[(DATA_OFFSET, 77), (RETURN_HEAD, 1)]),
        ("a batch not yet taken", &[(DATA_OFFSET, 0), (RETURN_HEAD, 1)]),
        ("one batch twice", &[(RETURN_TAKEN, 2), (DATA_OFFSET, 0), (DATA_OFFSET + 8, 0), (RETURN_HEAD, 2)]),
        ("more returns than fit", &[(RETURN_HEAD, 1 << 40)]),
        ("the most returns there can be", &[(RETURN_HEAD, u64::MAX)]),
        ("more taken than sent", &[(RETURN_TAKEN, 5_000)]),
        ("the most taken there can be", &[(RETURN_TAKEN, u64::MAX)]),
        // Looked at before something is written.
        ("read beyond what was written", &[(RETURN_TAIL, 1 << 40), (RETURN_TAKEN, 4)]),
    ];
    for (name, writes) in attacks {
        let mut stream = RawStream::open(&daemon, 0);
        stream.wait_for_batches();
        // All that it keeps ready has been sent, so the daemon waits for a sign.
        daemon.wait_until("a full ring", |status| {
            status.streams.iter().any(|one| one.stream == stream.opened.stream && one.ready == 4)
        });
        for &(counter, value) in *writes {
            stream.set(counter, value);
        }
        stream.wake();
        stream.raw.assert_hung_up();
        assert!(daemon.log().contains("client broke the shared-memory protocol"), "{name}");
        daemon.wait_until(name, |status| status.streams.len() == 1);
    }
    assert!(held.iter().eq(copy.iter().map(Vec::as_slice)), "another client's batch changed");
    assert!(good.next_batch_within(LIMIT).expect("a batch").is_some());
    drop((held, good));
    assert_unharmed(&daemon);
}

#[test]
fn counters_that_run_backwards_end_the_stream() {
    let daemon = daemon();
    for counter in [RETURN_TAKEN, RETURN_TAIL] {
        let mut stream = RawStream::open(&daemon, 0);
        stream.wait_for_batches();
        daemon.wait_until("a full ring", |status| status.streams.iter().any(|one| one.ready == 4));
        stream.set(RETURN_TAKEN, 1);
        let first = stream.ring.counter(DATA_OFFSET).load(SeqCst) & 0xffff_ffff;
        stream.set(RETURN_TAIL, first);
        stream.wake();
        // It fills the place up again, so it has seen both.
        daemon.wait_until("one batch more", |status| {
            status.streams.iter().any(|one| one.batches >= 5 && one.ready == 4)
        });
        stream.set(counter, 0);
        if counter == RETURN_TAIL {
            stream.set(RETURN_TAKEN, 4);
        }
        stream.wake();
        stream.raw.assert_hung_up();
    }
    assert_unharmed(&daemon);
}

#[test]
fn a_client_that_signs_without_end_costs_only_its_own_time() {
    let daemon = daemon();
    let stream = RawStream::open(&daemon, 0);
    stream.wait_for_batches();
    for _ in 0..100_000 {
        let _ = rustix::net::send(
            &stream.raw.descriptors[3],
            &[1],
            rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT,
        );
    }
    assert_eq!(daemon.records(&options(&daemon)).len(), 592);
    drop(stream);
    assert_unharmed(&daemon);
}

#[test]
fn the_memory_of_the_daemon_cannot_be_written_or_resized() {
    let daemon = daemon();
    let stream = RawStream::open(&daemon, 0);
    stream.wait_for_batches();
    let segment = &stream.opened.segments[0];
    let bytes = usize::try_from(segment.bytes).expect("fits");
    let pool = &stream.raw.descriptors[4];
    for (fd, bytes) in [(&stream.raw.descriptors[0], DATA_OFFSET), (pool, bytes)] {
        assert!(Mapping::read_write(fd, bytes).is_err(), "mapped for writing");
        assert!(rustix::io::pwrite(fd, b"x", 0).is_err(), "written");
        assert!(rustix::fs::ftruncate(fd, 0).is_err(), "cut");
        let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(fd, hole, 0, 4096).is_err(), "a hole");
        // A new descriptor to the same memory is no way around the seals.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd));
        if let Ok(file) = std::fs::File::options().read(true).write(true).open(path) {
            assert!(Mapping::read_write(&file, bytes).is_err(), "mapped through a new descriptor");
        }
    }
    // The ring that the client writes can at least not be cut under the daemon's feet.
    assert!(rustix::fs::ftruncate(&stream.raw.descriptors[1], 0).is_err());
    drop(stream);
    assert_unharmed(&daemon);
}

#[test]
fn a_descriptor_ring_read_by_the_rules_but_returned_late_and_in_reverse_is_fine() {
    let daemon = daemon();
    let mut raw = RawStream::open(&daemon, 1);
    let fd = |at: usize| raw.raw.descriptors[at].try_clone().expect("a descriptor");
    let segments = raw.opened.segments.iter().map(|segment| (fd(4), segment.bytes, segment.slot_bytes));
    let pool = Arc::new(PoolView::map(segments).expect("mapped"));
    let (ring, returns) = (raw.opened.ring_bytes, raw.opened.return_entries);
    let mut consumer = Consumer::new(fd(0), ring, fd(1), returns, fd(3), pool).expect("mapped");
    let mut held = Vec::new();
    loop {
        match consumer.take().expect("well formed") {
            Some(Entry::Batch(records)) => held.push(records),
            Some(Entry::End) => break,
            Some(Entry::Error(bytes)) => panic!("{:?}", frame::decode::<v1::Error>(&bytes)),
            None => {
                if consumer.prepare_to_wait() {
                    let mut fds =
                        [rustix::event::PollFd::new(&raw.raw.descriptors[2], rustix::event::PollFlags::IN)];
                    let limit = rustix::event::Timespec { tv_sec: 30, tv_nsec: 0 };
                    assert_eq!(rustix::event::poll(&mut fds, Some(&limit)), Ok(1), "no batch");
                    let _ = rustix::io::read(&raw.raw.descriptors[2], &mut [0; 8]);
                }
                consumer.stop_waiting();
            }
        }
    }
    assert_eq!(held.len(), 37);
    assert_eq!(daemon.status().streams[0].held, 37);
    while let Some(batch) = held.pop() {
        drop(batch);
    }
    daemon.wait_until("everything given back", |status| {
        status.streams[0].held == 0 && status.pool.is_some_and(|pool| pool.leased == 0)
    });
    // Something said on the control socket of a stream ends it.
    raw.raw.send(&Request { body: Some(request::Body::Status(v1::StatusRequest {})) });
    raw.raw.assert_hung_up();
    assert_unharmed(&daemon);
}

#[test]
fn nonsense_on_the_control_socket_is_answered_or_cut_off() {
    let daemon = daemon();
    daemon.records(&options(&daemon));
    let baseline = daemon.wait_until_idle().open_descriptors;
    // A length of 4 GiB, one without end, a message that is none, text of another protocol.
    let get = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "x".repeat(99));
    let nonsense: [&[u8]; 4] =
        [&[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 64], &[3, 0x0f, 0xff, 0xff], get.as_bytes()];
    for bytes in nonsense {
        let mut raw = Raw::connect(&daemon);
        raw.socket.write_all(bytes).expect("sent");
        assert_eq!(raw.error().code(), ErrorCode::Protocol, "{bytes:?}");
        raw.assert_hung_up();
        let mut raw = Raw::greet(&daemon);
        raw.socket.write_all(bytes).expect("sent");
        assert_eq!(raw.error().code(), ErrorCode::Protocol, "{bytes:?}");
        raw.assert_hung_up();
    }
    // Half a hello, and then silence.
    let mut raw = Raw::connect(&daemon);
    raw.socket.write_all(&[99, 8]).expect("sent");
    assert!(raw.error().message.contains("no hello within 10s"));
    raw.assert_hung_up();
    // Half a hello, and then nobody.
    for cut in 1..8 {
        let mut raw = Raw::connect(&daemon);
        let hello = frame::encode(&Hello { protocol: PROTOCOL_VERSION, client: "x".repeat(99), pid: 1 });
        raw.socket.write_all(&hello[..cut]).expect("sent");
    }
    // Descriptors that nobody asked for are closed.
    let mut raw = Raw::connect(&daemon);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let hello = frame::encode(&Hello { protocol: PROTOCOL_VERSION, client: "raw".to_owned(), pid: 1 });
    send_with_descriptors(&raw.socket, &hello, &[writer.as_fd()]).expect("sent");
    drop(writer);
    assert!(matches!(raw.receive(), Some(reply::Body::Hello(_))));
    assert_eq!(reader.read(&mut [0]).expect("readable"), 0, "the daemon keeps the descriptor");
    drop(raw);
    assert_unharmed(&daemon);
    daemon.wait_until("the old number of descriptors", |status| status.open_descriptors == baseline);
}

#[test]
fn requests_that_make_no_sense_are_refused_by_name_and_the_connection_stays() {
    let daemon = daemon();
    let mut raw = Raw::connect(&daemon);
    raw.send(&Hello { protocol: 99, client: "from the future".to_owned(), pid: 1 });
    let error = raw.error();
    assert_eq!(error.code(), ErrorCode::VersionMismatch);
    assert!(error.message.contains("from the future") && error.message.contains("99"), "{error:?}");

    let mut raw = Raw::greet(&daemon);
    let dataset = vec![pattern(&daemon.dir().join("data"))];
    let fine = OpenStream { dataset, batch_size: 16, world_size: 1, ..OpenStream::default() };
    let cases = [
        (OpenStream { batch_size: 0, ..fine.clone() }, "batch_size"),
        (OpenStream { world_size: 0, ..fine.clone() }, "world size 0"),
        (OpenStream { rank: 4, world_size: 4, ..fine.clone() }, "rank 4 of world size 4"),
        (OpenStream { shuffle: 9, ..fine.clone() }, "shuffle 9"),
        (OpenStream { remainder: -1, ..fine.clone() }, "remainder -1"),
        (OpenStream { dataset: Vec::new(), ..fine.clone() }, "dataset"),
        (OpenStream { dataset: vec![String::new()], ..fine.clone() }, "dataset"),
        (
            OpenStream { dataset: vec!["nothing-of-that-name".to_owned()], ..fine.clone() },
            "nothing-of-that-name",
        ),
    ];
    for (open, named) in cases {
        raw.send(&Request { body: Some(request::Body::Open(open)) });
        let error = raw.error();
        assert!(error.message.contains(named), "{named}: {error:?}");
        assert!(!error.hint.is_empty() || error.code() == ErrorCode::NotFound, "{error:?}");
    }
    raw.send(&Request { body: None });
    assert!(raw.error().message.contains("does not know"));
    // After all that, the same connection opens a stream.
    raw.send(&Request { body: Some(request::Body::Open(fine)) });
    assert!(matches!(raw.receive(), Some(reply::Body::Opened(_))));
    drop(raw);
    assert_unharmed(&daemon);
}

#[test]
fn tokens_that_name_no_place_are_refused_and_odd_ones_do_no_harm() {
    let daemon = daemon();
    let dataset = vec![pattern(&daemon.dir().join("data"))];
    for shuffle in [1, 2, 3, 4] {
        let open = OpenStream {
            dataset: dataset.clone(),
            batch_size: 16,
            world_size: 1,
            epochs: 2,
            shuffle,
            ..OpenStream::default()
        };
        let ask = |open: OpenStream| {
            let mut raw = Raw::greet(&daemon);
            raw.send(&Request { body: Some(request::Body::Open(open)) });
            (raw.receive().expect("an answer"), raw)
        };
        if shuffle == 4 {
            // Its counts must be known.
            assert_eq!(daemon.records(&options(&daemon)).len(), 592);
        }
        let (reply::Body::Opened(opened), _) = ask(open.clone()) else { panic!("not opened") };
        let token = opened.start.expect("a token");
        let max = u64::MAX;
        let refused = [
            v1::ResumeToken { position: max, ..token.clone() },
            v1::ResumeToken { epoch: max, ..token.clone() },
            v1::ResumeToken { batch: max, ..token.clone() },
            v1::ResumeToken { slot: 3, position: 9, ..token.clone() },
            v1::ResumeToken { slot_position: 10, position: 9, ..token.clone() },
            v1::ResumeToken { content: Vec::new(), ..token.clone() },
            v1::ResumeToken { shuffle: 99, ..token.clone() },
            v1::ResumeToken { mixing: Some(v1::Mixing { shards: max, run: 0, window: 0 }), ..token.clone() },
            v1::ResumeToken { parts: 7, chunk: max, ..token.clone() },
        ];
        for token in refused {
            let (reply, _) = ask(OpenStream { resume: Some(token.clone()), ..open.clone() });
            let reply::Body::Error(error) = reply else { panic!("{token:?}: {reply:?}") };
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error:?}");
        }
        // Past the end of the last epoch, or where no record is: the end comes, or an error, and no harm.
        for token in [
            v1::ResumeToken { epoch: 2, ..token.clone() },
            v1::ResumeToken { epoch: 1, position: 599, ..token.clone() },
            v1::ResumeToken { slot: 2, slot_position: 599, position: 600, ..token.clone() },
        ] {
            let (reply, raw) = ask(OpenStream { resume: Some(token), ..open.clone() });
            assert!(matches!(reply, reply::Body::Opened(_) | reply::Body::Error(_)));
            drop(raw);
        }
        // The largest numbers that a shuffle may be asked for.
        let mixing = Some(v1::Mixing { shards: max, run: max, window: max });
        let (reply, _raw) = ask(OpenStream { mixing, ..open.clone() });
        assert!(matches!(reply, reply::Body::Opened(_)), "{reply:?}");
    }
    assert_unharmed(&daemon);
}

#[test]
fn a_client_stopped_in_mid_read_holds_its_share_and_nothing_more() {
    let daemon = daemon();
    let stopped: Vec<RawStream> = (0..6).map(|_| RawStream::open(&daemon, 0)).collect();
    stopped.iter().for_each(RawStream::wait_for_batches);
    // None of them ever reads. A job that needs the pool many times over goes through.
    let other = daemon.dir().join("other");
    write_shards(&other, &[2_000; 4], |shard, record| tagged(shard + 9, record, 3_000));
    assert_eq!(daemon.records(&StreamOptions::new(pattern(&other)).batch_size(100)).len(), 8_000);
    drop(stopped);
    assert_unharmed(&daemon);
}
