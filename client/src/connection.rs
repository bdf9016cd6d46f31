//! The control connection: hello, requests, and the descriptors that come with a stream.

use crate::link::Link;
use crate::{DaemonError, Error, Status, Stream, StreamOptions};
use feedline_proto::socket::receive_with_descriptors;
use feedline_proto::v1::{self, Hello, OpenStream, Reply, Request, StreamOpened, reply, request};
use feedline_proto::{PROTOCOL_VERSION, frame};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    daemon_pid: u32,
    path: PathBuf,
}

impl Client {
    /// Connects to the daemon at the default place: see [`feedline_proto::default_socket_path`].
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_default() -> Result<Self, Error> {
        Self::connect(feedline_proto::default_socket_path())
    }

    /// Connects to the daemon that listens on `socket`.
    ///
    /// # Errors
    /// [`Error::NoDaemon`] if nobody listens there; [`Error::Daemon`] if the daemon refuses this version.
    pub fn connect(socket: impl AsRef<Path>) -> Result<Self, Error> {
        let path = socket.as_ref().to_owned();
        let stream =
            UnixStream::connect(&path).map_err(|cause| Error::NoDaemon { socket: path.clone(), cause })?;
        let mut client = Self { socket: stream, daemon_pid: 0, path };
        let hello = Hello {
            protocol: PROTOCOL_VERSION,
            client: concat!("feedline-client ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
        };
        client.send(&frame::encode(&hello))?;
        match client.receive(&mut Vec::new())? {
            reply::Body::Hello(hello) => client.daemon_pid = hello.pid,
            other => return Err(unexpected(&other)),
        }
        Ok(client)
    }

    /// Process id of the daemon, in the daemon's pid namespace.
    pub fn daemon_pid(&self) -> u32 {
        self.daemon_pid
    }

    /// The socket's path.
    pub fn socket_path(&self) -> &Path {
        &self.path
    }

    /// What the daemon is doing.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] if the daemon has ended.
    pub fn status(&mut self) -> Result<Status, Error> {
        self.request(request::Body::Status(v1::StatusRequest {}))?;
        match self.receive(&mut Vec::new())? {
            reply::Body::Status(status) => Ok(status),
            other => Err(unexpected(&other)),
        }
    }

    /// Has the records of all shards counted, and with `publish` the index stored beside the data. Returns after half a second
    /// with what is done so far: call it again on the same connection until [`IndexProgress::done`](v1::IndexProgress::done).
    ///
    /// # Errors
    /// [`Error::Daemon`] if a shard cannot be read, or the index cannot be stored.
    pub fn index(&mut self, dataset: &[String], publish: bool) -> Result<v1::IndexProgress, Error> {
        let dataset = dataset.to_vec();
        self.request(request::Body::Index(v1::IndexDataset { dataset, publish }))?;
        match self.receive(&mut Vec::new())? {
            reply::Body::Index(progress) => Ok(progress),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens a stream; the connection becomes the stream's own.
    ///
    /// # Errors
    /// [`Error::Option`] for options that make no sense, [`Error::Daemon`] if the daemon refuses: no such dataset, no
    /// access, no room.
    pub fn open(self, options: &StreamOptions) -> Result<Stream, Error> {
        let (path, request) = (self.path.clone(), options.request()?);
        Stream::new(Link::open(self, request.clone())?, path, request, options.reconnect_limit())
    }

    /// Asks for a stream; the socket, the reply, and the descriptors that came with it.
    pub(crate) fn ask(mut self, open: OpenStream) -> Result<(UnixStream, StreamOpened, Vec<OwnedFd>), Error> {
        self.request(request::Body::Open(open))?;
        let mut descriptors = Vec::new();
        match self.receive(&mut descriptors)? {
            reply::Body::Opened(opened) => Ok((self.socket, opened, descriptors)),
            other => Err(unexpected(&other)),
        }
    }

    fn request(&mut self, body: request::Body) -> Result<(), Error> {
        self.send(&frame::encode(&Request { body: Some(body) }))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.socket.write_all(bytes).map_err(|cause| match cause.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::DaemonGone,
            _ => Error::System { what: "cannot write to the daemon", cause },
        })
    }

    /// Reads one reply; an error reply becomes [`Error::Daemon`].
    fn receive(&mut self, descriptors: &mut Vec<OwnedFd>) -> Result<reply::Body, Error> {
        let mut buffer = Vec::new();
        loop {
            if let Some((message, _)) = frame::split(&buffer)? {
                let reply: Reply = frame::decode(&buffer[message])?;
                return match reply.body {
                    Some(reply::Body::Error(error)) => Err(DaemonError::from(error).into()),
                    Some(body) => Ok(body),
                    None => Err(Error::Protocol("the daemon sent an empty reply".to_owned())),
                };
            }
            let mut piece = [0; 4096];
            // One reply at a time is outstanding, so this never reads into the next message.
            let count =
                receive_with_descriptors(&self.socket, &mut piece, descriptors).map_err(
                    |cause| match cause.kind() {
                        io::ErrorKind::ConnectionReset => Error::DaemonGone,
                        _ => Error::System { what: "cannot read from the daemon", cause },
                    },
                )?;
            if count == 0 {
                return Err(Error::DaemonGone);
            }
            buffer.extend_from_slice(&piece[..count]);
        }
    }
}

fn unexpected(body: &reply::Body) -> Error {
    let kind = match body {
        reply::Body::Hello(_) => "hello",
        reply::Body::Error(_) => "error",
        reply::Body::Opened(_) => "stream",
        reply::Body::Status(_) => "status",
        reply::Body::Index(_) => "index",
    };
    Error::Protocol(format!("the daemon answered with an unexpected {kind} reply"))
}
