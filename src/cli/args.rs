//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{Flag, Request};

/// Keeps GPUs fed: prefetches TFRecord shards from object stores into a local NVMe cache and hands batches to trainers
/// through shared memory.
#[derive(Debug, Parser)]
#[command(name = "feedline", version, propagate_version = true, max_term_width = 100)]
pub(super) struct Cli {
    /// Write one JSON document instead of text.
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the daemon. Without any configuration it chooses everything itself, and prints what it chose.
    Serve {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Run one command with a daemon of its own, which ends with it. The command finds it by FEEDLINE_SOCKET.
    Run {
        #[command(flatten)]
        config: ConfigArgs,
        /// The command and its arguments.
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<std::ffi::OsString>,
    },
    /// Show what the daemon is doing.
    Status {
        /// The daemon's socket; without it the usual places are tried.
        #[arg(long, value_name = "PATH", env = "FEEDLINE_SOCKET")]
        socket: Option<PathBuf>,
    },
    /// Show the streams that are open, and what each waits for.
    Jobs {
        /// The daemon's socket; without it the usual places are tried.
        #[arg(long, value_name = "PATH", env = "FEEDLINE_SOCKET")]
        socket: Option<PathBuf>,
    },
    /// Look at data sets, and index them.
    Dataset {
        #[command(subcommand)]
        command: DatasetCommand,
    },
    /// Check a configuration: report every mistake, or print the values in effect and where each came from.
    CheckConfig {
        /// The file; without it the one that the daemon would read.
        file: Option<PathBuf>,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Find out what this machine is good for, and what holds it back.
    Doctor {
        /// Also try to list and read this URL or pattern.
        url: Option<String>,
        /// Leave out the disk speed check, which writes and reads 256 MiB in the cache directory.
        #[arg(long)]
        no_disk: bool,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Print a page of the documentation that is made from code.
    #[command(hide = true)]
    Docs {
        /// Which one.
        page: Page,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum DatasetCommand {
    /// Have the running daemon count all records, which the shuffle "full" needs before it starts.
    Index {
        /// URLs or patterns, or the name of a data set in the daemon's configuration.
        #[arg(required = true)]
        urls: Vec<String>,
        /// Also store the index beside the data, as _feedline.index, for the daemons of other nodes.
        #[arg(long)]
        publish: bool,
        /// The daemon's socket; without it the usual places are tried.
        #[arg(long, value_name = "PATH", env = "FEEDLINE_SOCKET")]
        socket: Option<PathBuf>,
    },
    /// Count shards and records, and find what is empty, damaged or of another format. Needs no daemon.
    Inspect {
        /// URLs or patterns, or the name of a data set in the configuration.
        #[arg(required = true)]
        urls: Vec<String>,
        /// Only list the shards; read nothing.
        #[arg(long)]
        no_scan: bool,
        /// Shards read at the same time; without it prefetch.threads.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
        threads: Option<u16>,
        #[command(flatten)]
        config: ConfigArgs,
    },
}

/// Pages that are made from code.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Page {
    /// `docs/configuration.md`.
    Configuration,
    /// `docs/metrics.md`.
    Metrics,
}

/// Flags that change the configuration; they win over file and environment.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub struct ConfigArgs {
    /// The configuration file; without it $FEEDLINE_CONFIG and the usual places.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set any key of the configuration; may be repeated.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// Path of the control socket [serve.socket].
    #[arg(long = "listen-socket", value_name = "PATH")]
    pub socket: Option<String>,
    /// Size of the shared memory pool, as in "8 GiB" or "25%" [pool.bytes].
    #[arg(long, value_name = "SIZE")]
    pub pool_bytes: Option<String>,
    /// Cache directory [cache.dir].
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<String>,
    /// Limit of the cache, as in "500 GiB" [cache.bytes].
    #[arg(long, value_name = "SIZE")]
    pub cache_bytes: Option<String>,
    /// Prefetch threads, a number or "auto" [prefetch.threads].
    #[arg(long, value_name = "N")]
    pub prefetch_threads: Option<String>,
    /// Address of metrics and health, or "off" [telemetry.listen].
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// What is logged, as in "debug" [telemetry.log].
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
}

impl ConfigArgs {
    /// What to load.
    pub fn request(&self) -> Request {
        let set = self.set.iter().map(|pair| {
            // Without an equals sign the value is missing, and the key says so when it is checked.
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            ("--set", key.trim(), value.trim())
        });
        let named = [
            ("--listen-socket", "serve.socket", &self.socket),
            ("--pool-bytes", "pool.bytes", &self.pool_bytes),
            ("--cache-dir", "cache.dir", &self.cache_dir),
            ("--cache-bytes", "cache.bytes", &self.cache_bytes),
            ("--prefetch-threads", "prefetch.threads", &self.prefetch_threads),
            ("--metrics", "telemetry.listen", &self.metrics),
            ("--log", "telemetry.log", &self.log),
        ];
        let named = named.iter().filter_map(|(flag, key, value)| Some((*flag, *key, value.as_deref()?)));
        let flags = set.chain(named).map(|(name, key, value)| Flag {
            name: name.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
        });
        Request { file: self.config.clone(), flags: flags.collect() }
    }
}
