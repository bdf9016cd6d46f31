//! Where a value came from.

use std::fmt;
use std::path::PathBuf;

/// A value given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag as typed, for messages: `--cache-bytes`, `--set`.
    pub name: String,
    /// The key it sets: `cache.bytes`.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nobody said anything; `why` explains a choice that depends on the machine, else it is empty.
    Default {
        /// How the value was found.
        why: String,
    },
    /// A configuration file.
    File {
        /// Its path.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// An environment variable of this name.
    Environment(String),
    /// A command line flag, as typed.
    Flag(String),
}

impl Place {
    /// One word for tables and JSON: `default`, `file`, `env`, `flag`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Default { .. } => "default",
            Self::File { .. } => "file",
            Self::Environment(_) => "env",
            Self::Flag(_) => "flag",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default { why } if why.is_empty() => f.write_str("default"),
            Self::Default { why } => write!(f, "default: {why}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}
