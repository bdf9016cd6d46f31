//! What the daemon was told to do, and where each value came from.
//!
//! **Sources.** A TOML file, then environment variables `FEEDLINE_SECTION_KEY`, then command line flags; a later
//! one wins. What nobody says is chosen from the machine: `feedline serve` works as any user without a file. The
//! origin of every value is kept ([`Config::settings`]) and printed at start.
//!
//! **Mistakes.** Reading never stops at the first one. Everything that is wrong comes back in one [`ConfigError`]:
//! each with its key, the value, what would be allowed, and file and line (or variable, or flag). Unknown keys are
//! mistakes as well, with the nearest known name: a limit that is silently ignored because of a typing error is
//! worse than a daemon that does not start.
//!
//! **Shape.** One file, one struct and one error type per section. The table in [`keys`] is the only place that
//! knows names, ranges, units and descriptions; parser, messages and `docs/configuration.md` are made from it.
//! [`Surroundings`] is everything else that a default depends on, so tests bring their own machine.
//!
//! **Limits.** Sections `store` and `dataset` have free names and come from the file only, apart from
//! `FEEDLINE_STORE_KEY` for store defaults.

mod batch;
mod cache;
mod dataset;
mod docs;
mod error;
mod gather;
mod io;
pub mod keys;
mod paths;
mod place;
mod pool;
mod prefetch;
mod reader;
mod serve;
mod store;
mod suggest;
mod surroundings;
mod telemetry;
pub mod units;
mod value;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use batch::Batch;
pub use cache::{Cache, CacheError};
pub use dataset::{Dataset, DatasetError};
pub use docs::configuration_page;
pub use error::{ConfigError, Mistake, SectionError};
pub use io::Io;
pub use place::{Flag, Place};
pub use pool::{Pool, PoolError};
pub use prefetch::{Prefetch, PrefetchError};
pub use reader::Setting;
pub use serve::{Serve, ServeError};
pub use store::StoreError;
pub use surroundings::{Space, Surroundings};
pub use telemetry::{LogFormat, Telemetry, TelemetryError};
pub use value::ValueError;

use crate::source::StoreSettings;

/// The whole configuration, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The control socket.
    pub serve: Serve,
    /// Shared memory.
    pub pool: Pool,
    /// The local cache directory.
    pub cache: Cache,
    /// How the cache directory is read and written.
    pub io: Io,
    /// Prefetch threads and how far they look ahead.
    pub prefetch: Prefetch,
    /// Batches kept ready.
    pub batch: Batch,
    /// Options of object stores.
    pub store: StoreSettings,
    /// Named data sets.
    pub dataset: BTreeMap<String, Dataset>,
    /// Metrics and logs.
    pub telemetry: Telemetry,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    settings: Vec<Setting>,
}

/// Where to look for a configuration.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The file named by `--config`; without it the usual places are searched.
    pub file: Option<PathBuf>,
    /// Values given as flags; they win over everything else.
    pub flags: Vec<Flag>,
}

impl Config {
    /// Reads file, environment and flags, and fills in what nobody said.
    ///
    /// # Errors
    /// [`ConfigError`] with every mistake that was found.
    pub fn load(request: &Request, around: &Surroundings) -> Result<Self, ConfigError> {
        let mut mistakes = Vec::new();
        let mut given = gather::Gathered::default();
        let file = paths::find(request.file.as_deref(), around);
        if let Some(file) = &file {
            given.read_file(file, &mut mistakes);
        }
        given.read_environment(&around.vars, &mut mistakes);
        given.read_flags(&request.flags, &mut mistakes);

        let mut readers = reader::Readers::new(given, &mut mistakes);
        let serve = Serve::read(&mut readers.section("serve"), around);
        let pool = Pool::read(&mut readers.section("pool"), around);
        let cache = Cache::read(&mut readers.section("cache"), around);
        let io = Io::read(&mut readers.section("io"));
        let prefetch = Prefetch::read(&mut readers.section("prefetch"), &pool, around);
        let batch = Batch::read(&mut readers.section("batch"));
        let telemetry = Telemetry::read(&mut readers.section("telemetry"));
        let store = store::read(&mut readers);
        let dataset = Dataset::read_all(&mut readers);
        let settings = readers.into_settings();
        if mistakes.is_empty() {
            let file = file.map(|file| file.path);
            Ok(Self { serve, pool, cache, io, prefetch, batch, store, dataset, telemetry, file, settings })
        } else {
            Err(ConfigError { mistakes })
        }
    }

    /// Every key with its value and where that came from, in the order of the documentation.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Whether somebody gave a value for this key.
    pub fn is_given(&self, section: &str, key: &str) -> bool {
        let found = self.settings.iter().find(|setting| setting.section == section && setting.key == key);
        found.is_some_and(|setting| !matches!(setting.place, Place::Default { .. }))
    }
}

#[cfg(test)]
mod tests;
