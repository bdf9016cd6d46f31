//! Disk I/O of the cache: whole-block reads and writes that never copy and never block a runtime.
//!
//! # What
//! [`Ring`] reads and writes files into memory that the caller brings ([`IoBuf`]): normally a block of the shared
//! pool, so that the device writes straight into what a trainer maps. Two engines stand behind the one interface:
//! io_uring, and a pool of threads with `pread`/`pwrite` for kernels and containers that forbid io_uring.
//! [`Ring::probe`] tries what the kernel and the file system of the directory really allow, takes the best, and
//! keeps a one-line [`ProbeReport`] of what was taken and why.
//!
//! # Who owns what
//! An operation owns its buffer and its file from submission to completion. The caller's future holds only the
//! receiving end of a channel: when it is dropped (a timeout, a cancelled task, a dead client) the operation keeps
//! both, and the buffer is dropped when the kernel has let go of it. An operation that nobody waits for and that
//! has not been started is skipped. [`Ring::in_flight`] counts operations until the caller has its buffer back, or
//! until the buffer is dropped.
//!
//! # What is promised
//! - A read gives fewer bytes than asked only at the end of the file; a write writes everything or fails. Short
//!   transfers and interrupted calls are repeated inside.
//! - At most `depth` operations are with the kernel; others wait in an unbounded queue, whose memory is bounded by
//!   the callers' own buffers.
//! - An idle ring uses no CPU: the owner thread sleeps in one blocking system call.
//! - [`Ring::shutdown`] waits for what the kernel holds, answers everybody, and refuses what comes later.
//!
//! # Limits
//! - Files opened directly (O_DIRECT) want offset, length and address as multiples of the reported alignment. This
//!   is checked before submission and refused with the values in the message; nothing is padded here.
//! - An operation that the kernel has accepted cannot be called back: a disk that hangs keeps its buffers.
//! - Buffers and files are not registered with the ring; the gain is small for megabyte blocks.

mod buf;
mod engine;
mod error;
mod file_system;
mod op;
mod probe;
mod report;
mod threads;
mod uring;
mod view;

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

pub use self::buf::{AlignedBuf, IoBuf};
use self::engine::{Engine, Shared};
pub use self::engine::{EngineChoice, RingStats};
pub use self::error::RingError;
pub use self::op::RingFile;
use self::op::{Kind, Op};
pub use self::report::ProbeReport;
pub use self::view::view;

/// Largest part of one operation given to the kernel at once, in bytes. Linux moves at most 2 GiB less a page per
/// call; a power of two below keeps every part aligned.
const LARGEST_STEP: usize = 1 << 30;

/// A handle to one I/O engine, cheap to clone. See the [module](self).
///
/// The engine ends when the last handle is dropped: its threads finish what the kernel holds and leave, without
/// making the dropping thread wait. [`Ring::shutdown`] does wait.
#[derive(Clone)]
pub struct Ring {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    shared: Arc<Shared>,
    report: ProbeReport,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.engine.stop();
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("report", &self.inner.report)
            .field("in_flight", &self.in_flight())
            .finish()
    }
}

impl Ring {
    /// Starts an engine for files below `dir`, after trying what works there.
    ///
    /// `depth` is the number of operations with the kernel at once, clamped to 1..=1024.
    ///
    /// # Errors
    /// When `dir` is not a directory that files can be created in, when [`EngineChoice::IoUring`] is asked for and
    /// io_uring cannot be used, or when no thread can be started.
    pub fn probe(dir: &Path, engine: EngineChoice, depth: u32) -> Result<Ring, RingError> {
        Self::start(dir, engine, depth, LARGEST_STEP)
    }

    /// `step`: most bytes moved by one system call. Tests lower it to see the loops over short transfers.
    fn start(dir: &Path, choice: EngineChoice, depth: u32, step: usize) -> Result<Ring, RingError> {
        let depth = depth.clamp(1, 1024);
        let direct = probe::direct_io(dir)?;
        let shared = Arc::new(Shared::new(step));
        let mut why = Vec::new();
        let engine = Engine::start(choice, depth, &shared, &mut why)?;
        let report = ProbeReport::new(engine.name(), direct, why);
        Ok(Ring { inner: Arc::new(Inner { engine, shared, report }) })
    }

    /// What the probe found and chose.
    pub fn report(&self) -> &ProbeReport {
        &self.inner.report
    }

    /// Operations whose buffer is with the engine now: queued, running, or finished and not yet picked up.
    pub fn in_flight(&self) -> usize {
        self.inner.shared.in_flight()
    }

    /// Totals since the start.
    pub fn stats(&self) -> &RingStats {
        &self.inner.shared.stats
    }

    /// Opens an existing file for reading, with O_DIRECT when the probe allowed it.
    ///
    /// # Errors
    /// What `open` gives.
    pub fn open_read(&self, path: &Path) -> io::Result<RingFile> {
        self.open(path, OFlags::RDONLY)
    }

    /// Creates a file (mode 0600) or empties the one that is there, for writing and reading, with O_DIRECT when
    /// the probe allowed it. A symbolic link in the place of the file is refused.
    ///
    /// # Errors
    /// What `open` gives.
    pub fn create(&self, path: &Path) -> io::Result<RingFile> {
        self.open(path, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW)
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<RingFile> {
        let mode = Mode::RUSR | Mode::WUSR;
        let flags = flags | OFlags::CLOEXEC;
        if self.inner.report.direct {
            match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
                // Another file system may be mounted below the probed directory: that file is read buffered.
                Err(rustix::io::Errno::INVAL) => {}
                other => return Ok(RingFile::new(other?, true)),
            }
        }
        Ok(RingFile::new(rustix::fs::open(path, flags, mode)?, false))
    }

    /// Reads `len` bytes at `offset` of the file into `buf` from its byte `buf_offset` on. Gives the bytes read,
    /// fewer than `len` only at the end of the file, and the buffer. Past the bytes read, the asked range may hold
    /// anything: direct reads of some file systems put zeros there.
    ///
    /// When the future is dropped, the engine keeps buffer and file as long as the kernel needs them.
    ///
    /// # Errors
    /// The system's error; `InvalidInput` for a range outside the buffer or, on a direct file, a misaligned
    /// offset, length or address; `BrokenPipe` when the ring has been shut down.
    pub async fn read_at<B: IoBuf>(
        &self,
        file: &RingFile,
        offset: u64,
        buf: B,
        buf_offset: usize,
        len: usize,
    ) -> (io::Result<usize>, B) {
        self.transfer(Kind::Read, file, offset, buf, buf_offset, len).await
    }

    /// Writes `len` bytes of `buf` from its byte `buf_offset` on to `offset` of the file: all of them, or an error
    /// after which any part may have been written. Gives the buffer back.
    ///
    /// # Errors
    /// As [`Ring::read_at`].
    pub async fn write_at<B: IoBuf>(
        &self,
        file: &RingFile,
        offset: u64,
        buf: B,
        buf_offset: usize,
        len: usize,
    ) -> (io::Result<()>, B) {
        let (result, buf) = self.transfer(Kind::Write, file, offset, buf, buf_offset, len).await;
        (result.map(drop), buf)
    }

    /// Makes the file's content durable (`fdatasync`).
    ///
    /// # Errors
    /// The system's error; `BrokenPipe` when the ring has been shut down.
    pub async fn sync(&self, file: &RingFile) -> io::Result<()> {
        self.run(Kind::Sync, file, 0, buf::NoBuf, 0, 0).await.0.map(drop)
    }

    /// Ends the engine: operations with the kernel are waited for and answered, queued ones and all later ones are
    /// refused with `BrokenPipe`. Blocks until the last is answered; may be called more than once, but not from
    /// the `Drop` of a buffer.
    pub fn shutdown(&self) {
        self.inner.engine.stop();
        self.inner.shared.wait_until_ended();
    }

    async fn transfer<B: IoBuf>(
        &self,
        kind: Kind,
        file: &RingFile,
        offset: u64,
        buf: B,
        buf_offset: usize,
        len: usize,
    ) -> (io::Result<usize>, B) {
        if let Err(error) = self.check(file, offset, &buf, buf_offset, len) {
            return (Err(error), buf);
        }
        if len == 0 {
            return (Ok(0), buf);
        }
        self.run(kind, file, offset, buf, buf_offset, len).await
    }

    async fn run<B: IoBuf>(
        &self,
        kind: Kind,
        file: &RingFile,
        offset: u64,
        buf: B,
        buf_offset: usize,
        len: usize,
    ) -> (io::Result<usize>, B) {
        let align = if file.is_direct() { self.inner.report.offset_align as usize } else { 1 };
        let (op, reply) =
            Op::new(kind, file.clone(), offset, buf, buf_offset, len, align, Arc::clone(&self.inner.shared));
        self.inner.engine.submit(op);
        reply.await.expect("an operation answers even when it is dropped").into_parts()
    }

    /// Refuses what the kernel would refuse later with a bare EINVAL, and what would leave the buffer.
    fn check<B: IoBuf>(
        &self,
        file: &RingFile,
        offset: u64,
        buf: &B,
        buf_offset: usize,
        len: usize,
    ) -> io::Result<()> {
        let refuse = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if buf_offset.checked_add(len).is_none_or(|end| end > buf.capacity()) {
            let capacity = buf.capacity();
            return refuse(format!("{len} bytes at {buf_offset} leave the buffer of {capacity} bytes"));
        }
        let end = u64::try_from(len).ok().and_then(|len| offset.checked_add(len));
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            return refuse(format!("{len} bytes at file offset {offset} end past the largest file offset"));
        }
        if file.is_direct() {
            let ProbeReport { offset_align, memory_align, .. } = self.inner.report;
            let address = (buf.ptr() as usize).wrapping_add(buf_offset);
            if !offset.is_multiple_of(u64::from(offset_align)) || !len.is_multiple_of(offset_align as usize) {
                return refuse(format!(
                    "file offset {offset} and length {len} must be multiples of {offset_align} for O_DIRECT"
                ));
            }
            if !address.is_multiple_of(memory_align as usize) {
                return refuse(format!(
                    "buffer address {address:#x} must be a multiple of {memory_align} for O_DIRECT"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
