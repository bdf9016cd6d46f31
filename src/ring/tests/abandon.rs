//! Futures that are dropped, and rings that end, with operations at every stage.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use super::*;

const LEN: usize = 5000;

#[test]
fn a_future_never_polled_submits_nothing() {
    for_each_engine(1, 100, |bench| {
        let file = bench.file_of(&pattern(1, LEN));
        let (buf, dropped) = Tracked::new(LEN);
        drop(bench.ring.read_at(&file, 0, buf, 0, LEN));
        assert_eq!(dropped.try_recv().unwrap(), vec![0; LEN]);
        assert_eq!(bench.ring.in_flight(), 0);
    });
}

#[test]
fn an_operation_still_queued_is_skipped_but_keeps_its_buffer_until_then() {
    for_each_engine(1, 100, |bench| {
        let file = bench.file_of(&pattern(1, LEN));
        let held = hold_engine(&bench.ring, &file);
        let (buf, dropped) = Tracked::new(LEN);
        {
            let mut read = pin!(bench.ring.read_at(&file, 0, buf, 0, LEN));
            assert!(poll_once(read.as_mut()).is_pending());
        }
        assert!(dropped.try_recv().is_err(), "the engine still has the buffer");
        assert_eq!(bench.ring.in_flight(), 1);
        drop(held);
        assert_eq!(dropped.recv().unwrap(), vec![0; LEN]);
        bench.ring.shutdown();
        assert_eq!(bench.ring.in_flight(), 0);
        assert_eq!(bench.ring.stats().skipped.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn an_operation_that_has_begun_is_completed_before_its_buffer_goes() {
    for_each_engine(2, 100, |bench| {
        let content = pattern(1, LEN);
        let file = bench.file_of(&content);
        for _ in 0..50 {
            let (buf, dropped) = Tracked::new(LEN);
            {
                let mut read = pin!(bench.ring.read_at(&file, 0, buf, 0, LEN));
                // May be answered at once; then the buffer goes with the answer.
                drop(poll_once(read.as_mut()));
            }
            let last = dropped.recv().unwrap();
            assert!(last == content || last == vec![0; LEN], "all of it, or never begun");
        }
        bench.ring.shutdown();
        assert_eq!(bench.ring.in_flight(), 0);
    });
}

#[test]
fn an_answer_that_nobody_takes_frees_the_buffer_with_the_future() {
    for_each_engine(1, 100, |bench| {
        let file = bench.file_of(&pattern(1, LEN));
        let (buf, dropped) = Tracked::new(LEN);
        {
            let mut read = pin!(bench.ring.read_at(&file, 0, buf, 0, LEN));
            let (woken_by, woken) = channel();
            let waker = Waker::from(Arc::new(HoldingWaker { woken_by, hold: Mutex::new(channel().1) }));
            if read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                woken.recv().unwrap();
                assert_eq!(bench.ring.in_flight(), 1, "answered, not yet taken");
                assert!(dropped.try_recv().is_err());
            }
        }
        assert_eq!(dropped.try_recv().unwrap(), pattern(1, LEN));
        assert_eq!(bench.ring.in_flight(), 0);
    });
}

/// The kernel holds a read of an empty pipe as long as the test wants. Only io_uring can read a pipe here: `pread`
/// refuses one, and a thread that blocks in a call owns the operation in any case.
fn with_pipe(test: impl Fn(&Ring, RingFile, std::fs::File)) {
    for_each_engine(1, 100, |bench| {
        if bench.ring.report().engine == "io_uring" {
            let (read, write) = rustix::pipe::pipe().unwrap();
            test(&bench.ring, RingFile::new(read, false), std::fs::File::from(write));
        }
    });
}

/// Lets a read of the pipe take `first` and returns when it waits for more: it is with the kernel then.
fn give_first(pipe: &mut std::fs::File, first: &[u8]) {
    pipe.write_all(first).unwrap();
    while rustix::io::ioctl_fionread(&*pipe).unwrap() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn an_operation_in_the_kernel_keeps_buffer_and_file_until_its_completion() {
    with_pipe(|ring, file, mut pipe| {
        let (buf, dropped) = Tracked::new(4);
        let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let null = RingFile::new(null, false);
        let mut second = pin!(ring.read_at(&null, 0, AlignedBuf::new(1), 0, 1));
        {
            let mut first = pin!(ring.read_at(&file, 0, buf, 0, 4));
            assert!(poll_once(first.as_mut()).is_pending());
            give_first(&mut pipe, b"da");
        }
        drop(file);
        assert!(poll_once(second.as_mut()).is_pending());
        assert!(dropped.try_recv().is_err());
        assert_eq!(ring.in_flight(), 2);
        pipe.write_all(b"ta").expect("the operation keeps the read end open");
        assert_eq!(dropped.recv().unwrap(), b"data");
        // It waited for the only place in the ring.
        assert_eq!(block_on(second).0.unwrap(), 0);
        ring.shutdown();
        assert_eq!(ring.in_flight(), 0);
    });
}

#[test]
fn shutdown_waits_for_the_kernel_and_refuses_the_queue() {
    with_pipe(|ring, file, mut pipe| {
        let mut first = pin!(ring.read_at(&file, 0, AlignedBuf::new(2), 0, 2));
        let mut queued = pin!(ring.read_at(&file, 0, AlignedBuf::new(2), 0, 2));
        assert!(poll_once(first.as_mut()).is_pending());
        give_first(&mut pipe, b"o");
        assert!(poll_once(queued.as_mut()).is_pending());
        let ending = ring.clone();
        let end = std::thread::spawn(move || ending.shutdown());
        // Later work is refused from the moment the end has begun; until then it may be taken.
        while let Ok(read) = {
            let mut late = pin!(ring.read_at(&file, 0, AlignedBuf::new(2), 0, 2));
            match poll_once(late.as_mut()) {
                Poll::Ready((result, _)) => result,
                Poll::Pending => Ok(0),
            }
        } {
            assert_eq!(read, 0);
        }
        assert!(!end.is_finished(), "the kernel still has an operation");
        pipe.write_all(b"k").unwrap();
        end.join().unwrap();
        let (result, buf) = block_on(first);
        assert_eq!((result.unwrap(), buf.as_slice()), (2, &b"ok"[..]));
        assert_eq!(block_on(queued).0.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(ring.in_flight(), 0);
    });
}

#[test]
fn shutdown_under_load_answers_everybody() {
    for_each_engine(4, 500, |bench| {
        let content = pattern(9, LEN);
        let file = bench.file_of(&content);
        let ring = &bench.ring;
        let mut reads: Vec<_> =
            (0..200).map(|_| Box::pin(ring.read_at(&file, 0, AlignedBuf::new(LEN), 0, LEN))).collect();
        let mut answers: Vec<_> = reads.iter_mut().map(|read| poll_once(read.as_mut())).collect();
        ring.shutdown();
        for (read, answer) in reads.into_iter().zip(answers.drain(..)) {
            let (result, buf) = match answer {
                Poll::Ready(answer) => answer,
                Poll::Pending => block_on(read),
            };
            match result {
                Ok(read) => assert!(read == LEN && buf.as_slice() == content),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::BrokenPipe),
            }
        }
        let (late, _) = block_on(ring.read_at(&file, 0, AlignedBuf::new(1), 0, 1));
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(ring.in_flight(), 0);
        ring.shutdown();
    });
}

#[test]
fn a_ring_dropped_with_work_left_still_frees_every_buffer() {
    for_each_engine(2, 100, |bench| {
        let file = bench.file_of(&pattern(1, LEN));
        let Bench { ring, dir: _dir } = bench;
        let mut receivers = Vec::new();
        for _ in 0..20 {
            let (buf, dropped) = Tracked::new(LEN);
            let mut read = pin!(ring.read_at(&file, 0, buf, 0, LEN));
            drop(poll_once(read.as_mut()));
            receivers.push(dropped);
        }
        drop(ring);
        for dropped in receivers {
            dropped.recv().unwrap();
        }
    });
}

/// A buffer whose drop panics on the engine's thread.
struct Bomb(AlignedBuf);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a buffer's drop panicked, as this test wants");
    }
}

// SAFETY: the memory is that of the `AlignedBuf` inside, which keeps the contract.
unsafe impl IoBuf for Bomb {
    fn ptr(&self) -> *mut u8 {
        self.0.ptr()
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

#[test]
fn a_panic_in_foreign_code_does_not_end_the_engine() {
    for_each_engine(1, 100, |bench| {
        let file = bench.file_of(&pattern(1, LEN));
        let held = hold_engine(&bench.ring, &file);
        {
            let mut read = pin!(bench.ring.read_at(&file, 0, Bomb(AlignedBuf::new(8)), 0, 8));
            assert!(poll_once(read.as_mut()).is_pending());
        }
        drop(held);
        let (read, _) = block_on(bench.ring.read_at(&file, 0, AlignedBuf::new(8), 0, 8));
        assert_eq!(read.unwrap(), 8);
    });
}
