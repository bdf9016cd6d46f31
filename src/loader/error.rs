//! Why a shard cannot be had.

use crate::record::InflateError;
use crate::source::SourceError;
use std::sync::Arc;

/// A failed load. Cheap to clone, since everyone who waits for the block gets it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// The store said no, or nothing, for too long.
    #[error(transparent)]
    Source(Arc<SourceError>),
    /// The object is not a TFRecord file.
    #[error(
        "{url} is not a TFRecord file: it looks like {looks_like}; correct the pattern, or convert the data"
    )]
    Format {
        /// The object.
        url: String,
        /// What its first bytes say.
        looks_like: String,
    },
    /// The compressed stream is damaged.
    #[error("{url} cannot be decompressed; it was fetched twice with the same result")]
    Inflate {
        /// The object.
        url: String,
        /// Where and why.
        #[source]
        cause: Arc<InflateError>,
    },
    /// A block from the store is not what was indexed under the same ETag and size.
    #[error(
        "block {block} of {url} differs from what was read before under the same version: the object was overwritten \
         in place, or its transfers are damaged; give a new object a new key"
    )]
    Inconsistent {
        /// The object.
        url: String,
        /// Number of the block.
        block: u64,
    },
    /// The cache lost the shard while it was read; asking again leads to the store.
    #[error("the cached copy was lost; ask again")]
    Restart,
    /// The daemon stops.
    #[error("the daemon is stopping")]
    Stopping,
}

impl From<SourceError> for LoadError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Cancelled { .. } => Self::Stopping,
            other => Self::Source(Arc::new(other)),
        }
    }
}
