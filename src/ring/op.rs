//! One operation: what it owns, how far it is, whom it answers. Both engines drive operations through
//! [`Op::step`] and [`Op::advance`]; nothing here makes a system call.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use tokio::sync::oneshot;

use super::buf::IoBuf;
use super::engine::Shared;

/// How often one operation is repeated after EAGAIN before the error is given to the caller: the kernel answers so
/// when it is short of memory for a moment, and repeating without an end would spin.
const PATIENCE: u8 = 16;

/// An open file. Cheap to clone; closed when the last clone is gone and the last operation on it has completed.
#[derive(Clone, Debug)]
pub struct RingFile(Arc<File>);

#[derive(Debug)]
struct File {
    fd: OwnedFd,
    direct: bool,
}

impl RingFile {
    pub(super) fn new(fd: OwnedFd, direct: bool) -> Self {
        RingFile(Arc::new(File { fd, direct }))
    }

    /// Whether the page cache is bypassed, so that offsets, lengths and addresses must be aligned.
    pub fn is_direct(&self) -> bool {
        self.0.direct
    }
}

impl AsFd for RingFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Sync,
}

/// The next system call of an operation.
pub(super) struct Step {
    pub(super) kind: Kind,
    /// Start of `len` bytes inside the operation's buffer.
    pub(super) ptr: *mut u8,
    pub(super) len: usize,
    pub(super) offset: u64,
}

/// Counts an operation as in flight while it lives. It travels with the buffer, so the count falls only after the
/// buffer has been given back or dropped.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.left();
    }
}

/// What the caller receives.
pub(super) struct Reply<B> {
    result: io::Result<usize>,
    // Declared before `_counted`: a reply that nobody takes drops the buffer first.
    buf: B,
    _counted: Counted,
}

impl<B> Reply<B> {
    pub(super) fn into_parts(self) -> (io::Result<usize>, B) {
        (self.result, self.buf)
    }
}

/// The buffer and its caller, with the buffer's type erased.
trait Waiter: Send {
    fn base(&self) -> *mut u8;
    fn is_answered(&self) -> bool;
    fn is_gone(&self) -> bool;
    fn answer(&mut self, result: io::Result<usize>);
}

/// `None` once answered.
struct Waiting<B>(Option<(B, Counted, oneshot::Sender<Reply<B>>)>);

impl<B: IoBuf> Waiter for Waiting<B> {
    fn base(&self) -> *mut u8 {
        self.0.as_ref().map_or(std::ptr::null_mut(), |(buf, ..)| buf.ptr())
    }

    fn is_answered(&self) -> bool {
        self.0.is_none()
    }

    fn is_gone(&self) -> bool {
        self.0.as_ref().is_none_or(|(.., sender)| sender.is_closed())
    }

    fn answer(&mut self, result: io::Result<usize>) {
        if let Some((buf, counted, sender)) = self.0.take() {
            // Nobody there: the reply, and with it the buffer, is dropped here.
            drop(sender.send(Reply { result, buf, _counted: counted }));
        }
    }
}

pub(super) struct Op {
    kind: Kind,
    file: RingFile,
    offset: u64,
    buf_offset: usize,
    len: usize,
    done: usize,
    /// Offsets and lengths of the file's transfers are multiples of this.
    align: usize,
    patience: u8,
    waiter: Box<dyn Waiter>,
    shared: Arc<Shared>,
}

impl Op {
    /// The caller has checked that `buf_offset + len` lies inside the buffer.
    #[expect(clippy::too_many_arguments, reason = "the parts of a positioned transfer; one call site")]
    pub(super) fn new<B: IoBuf>(
        kind: Kind,
        file: RingFile,
        offset: u64,
        buf: B,
        buf_offset: usize,
        len: usize,
        align: usize,
        shared: Arc<Shared>,
    ) -> (Op, oneshot::Receiver<Reply<B>>) {
        let (sender, receiver) = oneshot::channel();
        shared.entered();
        let waiter = Box::new(Waiting(Some((buf, Counted(Arc::clone(&shared)), sender))));
        let op =
            Op { kind, file, offset, buf_offset, len, done: 0, align, patience: PATIENCE, waiter, shared };
        (op, receiver)
    }

    /// Whether the caller has lost interest, so that an operation not yet started need not be.
    pub(super) fn is_abandoned(&self) -> bool {
        self.waiter.is_gone()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// What to ask of the kernel next.
    pub(super) fn step(&self) -> Step {
        let start = self.buf_offset + self.done;
        Step {
            kind: self.kind,
            ptr: self.waiter.base().wrapping_add(start),
            len: (self.len - self.done).min(self.shared.step),
            offset: self.offset + self.done as u64,
        }
    }

    /// Takes the kernel's answer to the last step: on with the next step, or the result of the operation.
    pub(super) fn advance(&mut self, answer: Result<usize, Errno>) -> ControlFlow<io::Result<usize>> {
        let moved = match answer {
            Ok(moved) => moved,
            Err(Errno::INTR) => return ControlFlow::Continue(()),
            Err(Errno::AGAIN) if self.patience > 0 => {
                self.patience -= 1;
                return ControlFlow::Continue(());
            }
            Err(errno) => return ControlFlow::Break(Err(errno.into())),
        };
        self.done = (self.done + moved).min(self.len);
        if self.done == self.len {
            return ControlFlow::Break(Ok(self.done));
        }
        let aligned = self.done.is_multiple_of(self.align);
        match self.kind {
            // Only the end of the file cuts a direct read inside an aligned unit, and the rest could not be asked
            // for in an aligned call.
            Kind::Read if moved == 0 || !aligned => ControlFlow::Break(Ok(self.done)),
            Kind::Write if moved == 0 || !aligned => ControlFlow::Break(Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("the write stopped after {} of {} bytes", self.done, self.len),
            ))),
            Kind::Sync => ControlFlow::Break(Ok(0)),
            Kind::Read | Kind::Write => ControlFlow::Continue(()),
        }
    }

    /// Gives buffer and result to the caller, or drops the buffer when there is none.
    pub(super) fn finish(mut self, result: io::Result<usize>) {
        let stats = &self.shared.stats;
        match (&result, self.kind) {
            (Err(_), _) => stats.errors.fetch_add(1, Ordering::Relaxed),
            (Ok(bytes), Kind::Read) => {
                stats.read_bytes.fetch_add(*bytes as u64, Ordering::Relaxed);
                stats.reads.fetch_add(1, Ordering::Relaxed)
            }
            (Ok(bytes), Kind::Write) => {
                stats.written_bytes.fetch_add(*bytes as u64, Ordering::Relaxed);
                stats.writes.fetch_add(1, Ordering::Relaxed)
            }
            (Ok(_), Kind::Sync) => stats.syncs.fetch_add(1, Ordering::Relaxed),
        };
        self.answer(result);
    }

    /// Answers that the operation was not started because its caller is gone.
    pub(super) fn skip(mut self) {
        self.shared.stats.skipped.fetch_add(1, Ordering::Relaxed);
        self.answer(Err(Errno::CANCELED.into()));
    }

    /// Runs foreign code (the buffer's `Drop`, the task's waker): a panic there must not end the engine's thread,
    /// which holds the buffers of other operations.
    fn answer(&mut self, result: io::Result<usize>) {
        let waiter = &mut self.waiter;
        if catch_unwind(AssertUnwindSafe(|| waiter.answer(result))).is_err() {
            tracing::error!("a buffer or waker panicked while its disk operation was answered");
        }
    }
}

/// An operation that is dropped unfinished still answers, so that no caller waits for ever and none loses its
/// buffer.
impl Drop for Op {
    fn drop(&mut self) {
        if !self.waiter.is_answered() {
            self.answer(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the ring was shut down")));
        }
    }
}
