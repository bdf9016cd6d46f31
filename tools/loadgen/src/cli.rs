//! The command line: arguments, the progress bar, and where results are printed.

use crate::dataset::{Compression, MANIFEST_NAME, Manifest, Profile};
use crate::make;
use crate::run::{self, Consume, Plan};
use crate::store::Folder;
use crate::units;
use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand, ValueEnum};
use feedline_client::{Remainder, Shuffle, StreamOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Makes TFRecord datasets and measures how well a Feedline daemon feeds a node
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a dataset of which every byte can be recomputed
    Make(MakeArgs),
    /// Read a dataset through the daemon as the ranks of one job, and report what they felt
    Run(RunArgs),
}

#[derive(clap::Args)]
struct MakeArgs {
    /// Where to: a directory, or a URL such as s3://bucket/folder (credentials and AWS_ENDPOINT_URL from the environment)
    url: String,
    /// What the records look like
    #[arg(long, value_enum)]
    profile: Profile,
    /// Number of shards
    #[arg(long)]
    shards: u64,
    /// Records in each shard
    #[arg(long)]
    records: u64,
    /// Mean size of a record in bytes, where it shall not be the profile's
    #[arg(long)]
    record_bytes: Option<u64>,
    /// Compression of each object as a whole
    #[arg(long, value_enum, default_value = "none")]
    compression: Compression,
    /// Seed of sizes and payloads: the same numbers give the same bytes
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Shards written at a time [default: the CPUs this process may use, at most 4]
    #[arg(long)]
    threads: Option<usize>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct RunArgs {
    /// URL or pattern of the dataset, or its name in the daemon's configuration
    dataset: String,
    /// The daemon's socket [default: where `feedline serve` puts it]
    #[arg(long, env = "FEEDLINE_SOCKET")]
    socket: Option<PathBuf>,
    /// Number of ranks, each a thread with its own stream
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: u32,
    /// Records per batch and rank
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
    /// How often the dataset is read
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Order of the records
    #[arg(long, value_enum, default_value = "sequential")]
    shuffle: ShuffleArg,
    /// With --shuffle blocks: shards of a group, records of a run, records of a window; 0 for the default
    #[arg(long, num_args = 3, value_names = ["SHARDS", "RUN", "WINDOW"], default_values_t = [0, 0, 0])]
    mixing: Vec<u64>,
    /// Seed of the order
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What becomes of the records that do not fill the last batch of every rank
    #[arg(long, value_enum, default_value = "partial")]
    remainder: RemainderArg,
    /// Batches that the daemon keeps ready [default: the daemon's]
    #[arg(long)]
    ready: Option<u32>,
    /// Compare each record with what was written, and see that each comes once per epoch
    #[arg(long)]
    verify: bool,
    /// URL of the dataset's manifest [default: beside the shards]
    #[arg(long, requires = "verify")]
    manifest: Option<String>,
    #[command(flatten)]
    consume: ConsumeArgs,
    /// Milliseconds of simulated work after each batch
    #[arg(long, default_value_t = 0.0, value_parser = milliseconds)]
    compute_ms: f64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(multiple = false)]
struct ConsumeArgs {
    /// Copy each record once
    #[arg(long)]
    copy: bool,
    /// Read every byte of each record [the default]
    #[arg(long)]
    touch: bool,
    /// Do not look at the records
    #[arg(long)]
    none: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShuffleArg {
    /// Shards in the order of their keys
    Sequential,
    /// Shards in a new order each epoch
    Shards,
    /// Records mixed within groups of shards
    Blocks,
    /// One permutation of all records; each shard must have been read once before
    Full,
}

#[derive(Clone, Copy, ValueEnum)]
enum RemainderArg {
    /// They are left out
    Drop,
    /// The last batch is filled up with repetitions
    Pad,
    /// The last batch is smaller
    Partial,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=3_600_000.0).contains(&value) => Ok(value),
        _ => Err("a number from 0 to 3600000 is expected".to_owned()),
    }
}

/// Runs the program: exit code 0 for success, 1 for a failed verification, 2 for an error.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
    let result = match &args.command {
        Command::Make(args) => run_make(args, &mut out),
        Command::Run(args) => run_run(args, &mut out),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // The chain is printed once, here; a closed standard error leaves the exit code.
            let _ = writeln!(std::io::stderr(), "feedline-loadgen: {}", chain(&error));
            ExitCode::from(2)
        }
    }
}

/// An error with its causes, without those that repeat what is said already: some libraries print their causes too.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn run_make(args: &MakeArgs, out: &mut impl Write) -> Result<ExitCode> {
    let manifest = Manifest::new(
        args.profile,
        args.shards,
        args.records,
        args.record_bytes,
        args.compression,
        args.seed,
    )?;
    let threads = args.threads.unwrap_or_else(|| {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        cpus.min(4).min(usize::try_from(args.shards).unwrap_or(4))
    });
    let progress = progress_bar("records");
    let summary = make::make(&args.url, &manifest, threads, &progress)?;
    progress.finish_and_clear();
    if args.json {
        serde_json::to_writer(&mut *out, &summary)?;
        writeln!(out).context("cannot print the result")?;
    } else {
        writeln!(
            out,
            "{} records in {} shards, {} as stored, in {:.1} s: {}",
            summary.records,
            summary.shards,
            units::bytes(units::float(summary.stored_bytes)),
            summary.seconds,
            summary.pattern
        )
        .context("cannot print the result")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_run(args: &RunArgs, out: &mut impl Write) -> Result<ExitCode> {
    let verify = args.verify.then(|| manifest_of(args)).transpose()?;
    let (shuffle, remainder) = (
        match args.shuffle {
            ShuffleArg::Sequential => Shuffle::Sequential,
            ShuffleArg::Shards => Shuffle::Shards,
            ShuffleArg::Blocks => Shuffle::Blocks,
            ShuffleArg::Full => Shuffle::Full,
        },
        match args.remainder {
            RemainderArg::Drop => Remainder::Drop,
            RemainderArg::Pad => Remainder::Pad,
            RemainderArg::Partial => Remainder::Partial,
        },
    );
    let stream = StreamOptions::new(&args.dataset)
        .job("feedline-loadgen")
        .batch_size(args.batch_size)
        .epochs(args.epochs)
        .shuffle(shuffle)
        .mixing(args.mixing[0], args.mixing[1], args.mixing[2])
        .seed(args.seed)
        .remainder(remainder)
        .ready(args.ready.unwrap_or_default());
    let plan = Plan {
        socket: args.socket.clone(),
        stream,
        dataset: args.dataset.clone(),
        clients: args.clients,
        batch_size: args.batch_size,
        remainder,
        consume: match &args.consume {
            ConsumeArgs { copy: true, .. } => Consume::Copy,
            ConsumeArgs { none: true, .. } => Consume::None,
            _ => Consume::Touch,
        },
        compute: Duration::from_secs_f64(args.compute_ms / 1e3),
        epochs: args.epochs,
        verify,
    };
    let progress = progress_bar("records");
    let report = run::run(&plan, &progress)?;
    progress.finish_and_clear();
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out).context("cannot print the report")?;
    } else {
        run::print(&report, out).context("cannot print the report")?;
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Reads the description that `make` left beside the shards.
fn manifest_of(args: &RunArgs) -> Result<Manifest> {
    let url = match &args.manifest {
        Some(url) => url.clone(),
        None => {
            let (folder, _) = args.dataset.rsplit_once('/').with_context(|| {
                format!("{} is not a URL: say with --manifest where the dataset's manifest is", args.dataset)
            })?;
            format!("{folder}/{MANIFEST_NAME}")
        }
    };
    let (folder, name) = url.rsplit_once('/').unwrap_or((".", &url));
    let context = || format!("cannot read the manifest {url}, which --verify needs");
    let bytes = Folder::parse(folder).and_then(|folder| folder.read(name)).with_context(context)?;
    Manifest::from_json(&bytes).with_context(context)
}

/// A bar on a terminal, nothing elsewhere.
fn progress_bar(unit: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    let template = format!("{{wide_bar}} {{human_pos}} of {{human_len}} {unit}, {{per_sec}}, {{eta}} left");
    bar.with_style(ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }

    #[test]
    fn causes_are_not_repeated() {
        let error =
            anyhow::anyhow!("no such bucket").context("reply 404: no such bucket").context("cannot list");
        assert_eq!(chain(&error), "cannot list: reply 404: no such bucket");
    }

    #[test]
    fn without_a_manifest_beside_the_shards_verify_says_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("{}/*.tfrecord", dir.path().display());
        let args = Args::try_parse_from(["feedline-loadgen", "run", &url, "--verify"]).unwrap();
        let Command::Run(args) = args.command else { panic!("run was asked for") };
        assert!(chain(&manifest_of(&args).unwrap_err()).contains("_loadgen.json, which --verify needs"));
    }
}
