//! Everything that is wrong with a configuration, at once.

use std::fmt;

use super::keys::Allowed;
use super::{
    CacheError, DatasetError, Place, PoolError, PrefetchError, ServeError, StoreError, TelemetryError,
};
use super::{ValueError, gather::FileError, gather::NameError};

/// All mistakes of a configuration; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigError {
    /// The mistakes in the order of file, environment, flags, then of the sections.
    pub mistakes: Vec<Mistake>,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mistakes.as_slice() {
            [one] => write!(f, "configuration: {one}"),
            many => {
                write!(f, "configuration has {} mistakes:", many.len())?;
                many.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
            }
        }
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq)]
pub struct Mistake {
    /// The key with its section, `pool.bytes`; `None` when the file as a whole is at fault.
    pub key: Option<String>,
    /// The value as written, if there was one.
    pub value: Option<String>,
    /// Where it stands.
    pub place: Place,
    /// What is wrong.
    pub reason: SectionError,
    /// What would be right, if the key is known.
    pub allowed: Option<Allowed>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        match (&self.key, &self.value) {
            (Some(key), Some(value)) => write!(f, "{key} = {value}: ")?,
            (Some(key), None) => write!(f, "{key}: ")?,
            (None, _) => {}
        }
        write!(f, "{}", self.reason)?;
        self.allowed.iter().try_for_each(|allowed| write!(f, "; allowed is {allowed}"))
    }
}

/// What is wrong, by the section that knows it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // each variant carries the error of the section it is named for
pub enum SectionError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Prefetch(#[from] PrefetchError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}
