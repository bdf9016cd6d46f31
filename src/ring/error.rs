//! Why a ring could not be started.

use std::io;
use std::path::PathBuf;

/// Why [`Ring::probe`](super::Ring::probe) failed. The text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The directory cannot hold the cache's files.
    #[error(
        "cannot create a file in directory {}: it must exist and be writable by the user who runs the daemon",
        dir.display()
    )]
    Directory {
        /// The directory given to the probe.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `io.engine = "io_uring"`, and io_uring cannot be used.
    #[error(
        "io.engine = \"io_uring\" cannot be met: {reason}; lift that, or set io.engine = \"auto\" to use threads instead"
    )]
    Unavailable {
        /// What failed and what commonly causes it.
        reason: String,
    },
    /// No thread could be started.
    #[error("cannot start a thread for disk i/o: raise the limit of processes (TasksMax, ulimit -u)")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
}
