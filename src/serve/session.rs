//! One client connection, from hello to hang-up.

use super::datasets::Datasets;
use super::failure::StreamFailure;
use super::indexing::Indexing;
use super::jobs::Jobs;
use super::opening::open_stream;
use super::registry::Registry;
use super::status::Reporter;
use super::stream::{Stream, StreamDescriptors, error_reply};
use crate::loader::Loader;
use crate::pool::Leases;
use crate::ring::Ring;
use feedline_proto::PROTOCOL_VERSION;
use feedline_proto::frame::{self, FrameError};
use feedline_proto::socket::send_with_descriptors;
use feedline_proto::v1::{self, Hello, HelloReply, Reply, Request, reply, request};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// What all sessions share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) loader: Loader,
    pub(super) leases: Leases,
    pub(super) datasets: Arc<Datasets>,
    pub(super) registry: Arc<Registry>,
    pub(super) jobs: Arc<Jobs>,
    pub(super) reporter: Reporter,
    pub(super) disk: Ring,
    /// Batches kept ready unless the client says otherwise.
    pub(super) ready: u64,
    /// Blocks that a stream looks ahead.
    pub(super) window: u64,
}

/// A connected client.
#[derive(Debug)]
pub(super) struct Session {
    socket: UnixStream,
    shared: Arc<Shared>,
    buffer: Vec<u8>,
    pid: u32,
    uid: u32,
}

impl Session {
    pub(super) fn new(socket: UnixStream, shared: Arc<Shared>) -> Self {
        let credentials = socket.peer_cred().ok();
        let pid = credentials
            .as_ref()
            .and_then(tokio::net::unix::UCred::pid)
            .and_then(|pid| u32::try_from(pid).ok());
        let uid = credentials.map_or(u32::MAX, |credentials| credentials.uid());
        Self { socket, shared, buffer: Vec::new(), pid: pid.unwrap_or(0), uid }
    }

    /// Serves the client until it hangs up or says what cannot be understood.
    pub(super) async fn run(mut self) -> io::Result<()> {
        match timeout(HELLO_WITHIN, self.receive::<Hello>()).await {
            Ok(Ok(Heard::Message(hello))) => self.greeted(&hello).await,
            Ok(Ok(Heard::Nonsense(error))) => self.refuse(&error).await,
            Ok(Ok(Heard::End)) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_) => self.refuse(&format!("no hello within {HELLO_WITHIN:?}")).await,
        }
    }

    async fn greeted(mut self, hello: &Hello) -> io::Result<()> {
        if hello.protocol != PROTOCOL_VERSION {
            let failure = StreamFailure::Invalid {
                message: format!(
                    "client {:?} speaks protocol {}, this daemon (version {}) speaks {PROTOCOL_VERSION}",
                    hello.client,
                    hello.protocol,
                    env!("CARGO_PKG_VERSION")
                ),
                hint: "install client and daemon of the same version".to_owned(),
            };
            let mut error = failure.to_wire();
            error.set_code(v1::ErrorCode::VersionMismatch);
            return self.reply(reply::Body::Error(error)).await;
        }
        let hello = HelloReply {
            protocol: PROTOCOL_VERSION,
            daemon_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        };
        self.reply(reply::Body::Hello(hello)).await?;
        let mut indexing = None;
        loop {
            let request = match self.receive::<Request>().await? {
                Heard::Message(request) => request,
                Heard::Nonsense(error) => return self.refuse(&error).await,
                Heard::End => return Ok(()),
            };
            match request.body {
                Some(request::Body::Status(_)) => {
                    let status = self.shared.reporter.status(&self.shared);
                    self.reply(reply::Body::Status(status)).await?;
                }
                Some(request::Body::Index(request)) => {
                    let progress =
                        Indexing::go_on(&mut indexing, &request, &self.shared.datasets, &self.shared.loader);
                    let progress = tokio::select! {
                        progress = progress => progress,
                        () = hung_up(&self.socket) => return Ok(()),
                    };
                    match progress {
                        Ok(progress) => self.reply(reply::Body::Index(progress)).await?,
                        Err(failure) => self.write(&error_reply(&failure)).await?,
                    }
                }
                Some(request::Body::Open(open)) => {
                    // Opening may list a large bucket; a client that goes away meanwhile is not waited for.
                    let opened = tokio::select! {
                        opened = open_stream(&self.shared, &open, self.pid, self.uid) => opened,
                        () = hung_up(&self.socket) => return Ok(()),
                    };
                    match opened {
                        Ok((stream, reply, descriptors)) => {
                            return self.stream(stream, reply, descriptors).await;
                        }
                        Err(failure) => {
                            tracing::info!(pid = self.pid, uid = self.uid, error = %failure, "stream refused");
                            self.write(&error_reply(&failure)).await?;
                        }
                    }
                }
                None => {
                    let failure = StreamFailure::Invalid {
                        message: "the request is of a kind that this daemon does not know".to_owned(),
                        hint: "install client and daemon of the same version".to_owned(),
                    };
                    self.write(&error_reply(&failure)).await?;
                }
            }
        }
    }

    /// Says why the connection is closed; what else the client sends is not looked at.
    async fn refuse(&self, error: &(dyn fmt::Display + Sync)) -> io::Result<()> {
        tracing::info!(pid = self.pid, uid = self.uid, %error, "connection closed");
        let mut wire = v1::Error { message: error.to_string(), ..v1::Error::default() };
        wire.set_code(v1::ErrorCode::Protocol);
        wire.hint = "connect with a Feedline client; the status page is at telemetry.listen".to_owned();
        self.reply(reply::Body::Error(wire)).await
    }

    /// Hands the stream over and runs it until the client hangs up.
    async fn stream(
        self,
        stream: Stream,
        opened: v1::StreamOpened,
        descriptors: StreamDescriptors,
    ) -> io::Result<()> {
        let bytes = frame::encode(&Reply { body: Some(reply::Body::Opened(opened)) });
        let sent = loop {
            self.socket.writable().await?;
            let fds = [
                descriptors.rings.ring.as_fd(),
                descriptors.rings.returns.as_fd(),
                descriptors.client.as_fd(),
                descriptors.daemon.as_fd(),
                self.shared.loader.parts().pool.descriptor(),
            ];
            let sent =
                self.socket.try_io(Interest::WRITABLE, || send_with_descriptors(&self.socket, &bytes, &fds));
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => break other?,
            }
        };
        drop(descriptors);
        self.write(&bytes[sent..]).await?;
        tokio::select! {
            failure = stream.run() => {
                tracing::warn!(pid = self.pid, uid = self.uid, error = %failure, "stream closed");
            }
            () = hung_up(&self.socket) => {}
        }
        Ok(())
    }

    async fn reply(&self, body: reply::Body) -> io::Result<()> {
        self.write(&frame::encode(&Reply { body: Some(body) })).await
    }

    async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.socket.writable().await?;
            match self.socket.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next message.
    async fn receive<M: prost::Message + Default>(&mut self) -> io::Result<Heard<M>> {
        loop {
            match frame::split(&self.buffer) {
                Err(error) => return Ok(Heard::Nonsense(error)),
                Ok(Some((message, used))) => {
                    let decoded = frame::decode(&self.buffer[message]);
                    self.buffer.drain(..used);
                    return Ok(decoded.map_or_else(Heard::Nonsense, Heard::Message));
                }
                Ok(None) => {}
            }
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return match self.buffer.is_empty() {
                    true => Ok(Heard::End),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }
}

/// How long a new connection may say nothing.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// What came from the client.
enum Heard<M> {
    Message(M),
    Nonsense(FrameError),
    /// It has hung up between two messages.
    End,
}

/// Returns when the client has closed the connection, or sent something although it has nothing to say.
async fn hung_up(socket: &UnixStream) {
    loop {
        let Ok(()) = socket.readable().await else { return };
        match socket.try_read(&mut [0; 1]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}
