//! A connection whose end and flushes a reply can steer.
//!
//! hyper decides when bytes are written; a fault such as "cut after 4,096 bytes" must know when they have been.
//! [`TapIo`] sits between hyper and the socket: hyper calls its `poll_flush` only when its own buffer is empty,
//! and a body that waits for [`Conn::flushed`] so learns that all it gave is with the kernel.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What the replies of a connection share with its socket.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) number: u64,
    reset: AtomicBool,
    /// Of a body that waits for a flush.
    waiting: Mutex<Option<Waker>>,
    flushed: AtomicBool,
}

impl Conn {
    pub(crate) fn new(number: u64) -> Arc<Self> {
        Arc::new(Self {
            number,
            reset: AtomicBool::new(false),
            waiting: Mutex::default(),
            flushed: AtomicBool::new(false),
        })
    }

    /// Makes the close of this connection an RST.
    pub(crate) fn reset_on_close(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    /// Waits until everything given to hyper before is with the kernel.
    pub(crate) async fn flushed(&self) {
        self.flushed.store(false, Ordering::Relaxed);
        std::future::poll_fn(|cx| {
            if self.flushed.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn note_flush(&self) {
        self.flushed.store(true, Ordering::Relaxed);
        if let Some(waker) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
    }
}

/// The socket with its [`Conn`].
#[derive(Debug)]
pub(crate) struct TapIo {
    stream: TcpStream,
    conn: Arc<Conn>,
}

impl TapIo {
    pub(crate) fn new(stream: TcpStream, conn: Arc<Conn>) -> Self {
        Self { stream, conn }
    }
}

impl Drop for TapIo {
    fn drop(&mut self) {
        if self.conn.reset.load(Ordering::Relaxed) {
            // Fails only if the peer has closed already; then there is nobody to reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for TapIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TapIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.conn.note_flush();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
