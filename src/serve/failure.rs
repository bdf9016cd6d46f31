//! Errors on their way to a client.

use crate::budget::BudgetError;
use crate::loader::LoadError;
use crate::record::RecordError;
use crate::source::SourceError;
use crate::telemetry::one_line;
use feedline_proto::shm::Violation;
use feedline_proto::v1::{self, ErrorCode};

/// Why a stream was not opened, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum StreamFailure {
    /// The request makes no sense.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The store cannot list or read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A shard cannot be had.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A record is corrupt and may not be passed over.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// One batch needs more memory than streams may hold.
    #[error(
        "a batch of {batch_bytes} bytes spans {blocks} blocks of {block_bytes} bytes, and the pool holds {limit} for streams"
    )]
    PoolTooSmall {
        /// Payload bytes of the batch.
        batch_bytes: u64,
        /// Blocks that it needs at once.
        blocks: u64,
        /// Bytes of a block.
        block_bytes: u64,
        /// Blocks that streams may hold.
        limit: u64,
    },
    /// There are as many streams as the pool has room for.
    #[error(
        "{streams} streams are open, and the pool has room for no more: it holds {limit} blocks of {block_bytes} bytes for streams"
    )]
    PoolShared {
        /// Open streams.
        streams: u64,
        /// Blocks that streams may hold.
        limit: u64,
        /// Bytes of a block.
        block_bytes: u64,
    },
    /// The dataset has no records, or none for this job.
    #[error("{message}")]
    Empty {
        /// What is missing.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The client broke the protocol.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The daemon stops.
    #[error("the daemon is stopping")]
    Stopping,
    /// The system refuses something.
    #[error("{what}: {cause}")]
    System {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        cause: std::io::Error,
    },
}

impl StreamFailure {
    /// A budget that can never give what is asked.
    pub(super) fn pool_too_small(error: &BudgetError, batch_bytes: u64, block_bytes: u64) -> Self {
        let BudgetError::TooLarge { asked, limit } = *error;
        Self::PoolTooSmall { batch_bytes, blocks: asked, block_bytes, limit }
    }

    /// The error as it travels.
    pub fn to_wire(&self) -> v1::Error {
        let message = one_line(self);
        let mut wire = v1::Error { message, ..v1::Error::default() };
        let (code, hint) = match self {
            Self::Invalid { hint, .. } => (ErrorCode::InvalidArgument, hint.clone()),
            Self::Empty { hint, .. } => (ErrorCode::InvalidArgument, hint.clone()),
            Self::Source(error) => (source_code(error), String::new()),
            Self::Load(LoadError::Source(error)) => (source_code(error), String::new()),
            Self::Load(LoadError::Format { url, .. } | LoadError::Inflate { url, .. }) => {
                wire.key.clone_from(url);
                (ErrorCode::CorruptData, String::new())
            }
            Self::Load(LoadError::Inconsistent { url, .. }) => {
                wire.key.clone_from(url);
                (ErrorCode::ContentChanged, String::new())
            }
            Self::Load(LoadError::Restart) => (ErrorCode::Unavailable, "open the stream again".to_owned()),
            Self::Load(LoadError::Stopping) | Self::Stopping => (ErrorCode::ShuttingDown, String::new()),
            Self::Record(error) => {
                wire.key.clone_from(&error.key);
                (wire.record, wire.offset) = (Some(error.record), Some(error.offset));
                (ErrorCode::CorruptData, error.hint().to_owned())
            }
            Self::PoolTooSmall { blocks, block_bytes, .. } => {
                let wanted = blocks * block_bytes * 2;
                (
                    ErrorCode::ResourceExhausted,
                    format!("raise pool.bytes to at least {wanted}, or lower the batch size"),
                )
            }
            Self::Violation(_) => {
                (ErrorCode::Protocol, "use the client library of the daemon's version".to_owned())
            }
            Self::System { cause, .. } if is_out_of_files(cause) => {
                (ErrorCode::ResourceExhausted, OUT_OF_FILES.to_owned())
            }
            Self::System { .. } => (ErrorCode::Internal, String::new()),
            Self::PoolShared { streams, block_bytes, .. } => {
                let wanted = (streams + 1) * BLOCKS_PER_STREAM * block_bytes * 2;
                (
                    ErrorCode::ResourceExhausted,
                    format!("raise pool.bytes to at least {wanted}, or open fewer streams"),
                )
            }
        };
        wire.set_code(code);
        wire.hint = hint;
        wire
    }
}

/// Blocks that every stream must be able to hold at the same time as all others, or ranks that wait for each other might
/// wait for ever: a batch at work and the next one, each over a border.
pub(super) const BLOCKS_PER_STREAM: u64 = 4;

/// What to do when descriptors run out. The soft limit has been raised at the start.
pub(super) const OUT_OF_FILES: &str =
    "raise the limit on open files: LimitNOFILE of the service, or ulimit -Hn";

/// Whether a call failed for want of descriptors.
pub(super) fn is_out_of_files(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn source_code(error: &SourceError) -> ErrorCode {
    match error {
        SourceError::NotFound { .. } | SourceError::NoMatch { .. } => ErrorCode::NotFound,
        SourceError::Denied { .. } | SourceError::Credentials { .. } => ErrorCode::PermissionDenied,
        SourceError::Changed { .. } => ErrorCode::ContentChanged,
        SourceError::Url { .. } | SourceError::Unsupported { .. } | SourceError::Settings(_) => {
            ErrorCode::InvalidArgument
        }
        SourceError::Cancelled { .. } => ErrorCode::ShuttingDown,
        SourceError::Panicked { .. } => ErrorCode::Internal,
        _ => ErrorCode::Unavailable,
    }
}
