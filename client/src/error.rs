//! What can go wrong on the client's side, and what the daemon says went wrong on its own.

use feedline_proto::frame::FrameError;
use feedline_proto::shm::batch::MalformedBatch;
use feedline_proto::v1::{self, ErrorCode};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A failed call of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No daemon listens there.
    #[error("no feedline daemon at {socket}: start one with `feedline serve`, or set FEEDLINE_SOCKET")]
    NoDaemon {
        /// The socket that was tried.
        socket: PathBuf,
        /// Why the connection failed.
        #[source]
        cause: io::Error,
    },
    /// The daemon was there and is gone: it crashed, was stopped or closed the stream.
    #[error("the feedline daemon closed the connection: it was stopped or has died")]
    DaemonGone,
    /// No batch came within the time set.
    #[error("no batch within {0:?}; `feedline status` shows what the stream waits for")]
    TimedOut(std::time::Duration),
    /// The daemon refused the request or the stream failed.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The daemon speaks, but not this protocol.
    #[error("the daemon broke the protocol: {0}")]
    Protocol(String),
    /// An option that no daemon would accept.
    #[error("stream option {option}: {problem}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A system call failed.
    #[error("{what}")]
    System {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
}

/// An error that the daemon reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonError {
    /// Kind of failure.
    pub code: ErrorCode,
    /// What happened, naming the object.
    pub message: String,
    /// What to do about it, if there is something to say.
    pub hint: Option<String>,
    /// The object at fault.
    pub key: Option<String>,
    /// Record number in the object, from 0.
    pub record: Option<u64>,
    /// Byte offset in the object's (uncompressed) content.
    pub offset: Option<u64>,
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for DaemonError {}

impl From<v1::Error> for DaemonError {
    fn from(error: v1::Error) -> Self {
        let text = |text: String| (!text.is_empty()).then_some(text);
        Self {
            code: error.code(),
            hint: text(error.hint),
            key: text(error.key),
            record: error.record,
            offset: error.offset,
            message: error.message,
        }
    }
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Closed => Self::DaemonGone,
            FrameError::Io(cause)
                if matches!(
                    cause.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                ) =>
            {
                Self::DaemonGone
            }
            FrameError::Io(cause) => Self::System { what: "cannot read from the daemon", cause },
            other => Self::Protocol(other.to_string()),
        }
    }
}

impl From<MalformedBatch> for Error {
    fn from(error: MalformedBatch) -> Self {
        Self::Protocol(error.to_string())
    }
}
