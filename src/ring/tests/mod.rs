//! Both engines against the same promises.

mod abandon;
mod transfer;

use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tempfile::TempDir;

use super::*;

/// A ring with a directory of its own.
struct Bench {
    ring: Ring,
    dir: TempDir,
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file through the page cache, whatever the probe found.
    fn buffered(&self, name: &str) -> RingFile {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        RingFile::new(rustix::fs::open(self.path(name), flags, Mode::RUSR | Mode::WUSR).unwrap(), false)
    }

    /// A buffered file with this content.
    fn file_of(&self, content: &[u8]) -> RingFile {
        std::fs::write(self.path("content"), content).unwrap();
        self.buffered("content")
    }
}

/// Runs `test` once for each engine that this machine has, with system calls of at most `step` bytes.
fn for_each_engine(depth: u32, step: usize, test: impl Fn(Bench)) {
    for choice in [EngineChoice::IoUring, EngineChoice::Threads] {
        let dir = tempfile::tempdir().unwrap();
        match Ring::start(dir.path(), choice, depth, step) {
            Ok(ring) => test(Bench { ring, dir }),
            Err(RingError::Unavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Bytes that differ with the position and the seed.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn filled(bytes: &[u8]) -> AlignedBuf {
    let mut buf = AlignedBuf::new(bytes.len());
    buf.as_mut_slice().copy_from_slice(bytes);
    buf
}

/// Polls once with a waker that does nothing.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A buffer that sends its content when it is dropped.
struct Tracked(AlignedBuf, Sender<Vec<u8>>);

impl Tracked {
    fn new(len: usize) -> (Tracked, Receiver<Vec<u8>>) {
        let (sender, receiver) = channel();
        (Tracked(AlignedBuf::new(len), sender), receiver)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        drop(self.1.send(self.0.as_slice().to_vec()));
    }
}

// SAFETY: the memory is that of the `AlignedBuf` inside, which keeps the contract.
unsafe impl IoBuf for Tracked {
    fn ptr(&self) -> *mut u8 {
        self.0.ptr()
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

/// A waker that tells which thread woke it, and holds that thread until the other end of `hold` is dropped.
struct HoldingWaker {
    woken_by: Sender<rustix::thread::Pid>,
    hold: Mutex<Receiver<()>>,
}

impl Wake for HoldingWaker {
    fn wake(self: Arc<Self>) {
        self.woken_by.send(rustix::thread::gettid()).ok();
        self.hold.lock().unwrap().recv().ok();
    }
}

/// Holds an engine thread inside a waker until dropped.
struct Held {
    thread: rustix::thread::Pid,
    _hold: Sender<()>,
}

/// Catches the engine thread that answers a small read; the only one there is when the depth is 1.
fn hold_engine(ring: &Ring, file: &RingFile) -> Held {
    loop {
        let (hold, held) = channel();
        let (woken_by, thread) = channel();
        let waker = Waker::from(Arc::new(HoldingWaker { woken_by, hold: Mutex::new(held) }));
        let mut read = pin!(ring.read_at(file, 0, AlignedBuf::new(1), 0, 1));
        // When the answer is there before the first poll, nobody is woken: try again.
        if read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            return Held { thread: thread.recv().unwrap(), _hold: hold };
        }
    }
}
