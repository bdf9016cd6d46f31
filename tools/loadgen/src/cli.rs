//! The command line: arguments, the progress bar, and where results are printed.

use crate::dataset::{Compression, Manifest, Profile};
use crate::make;
use crate::units;
use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;

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

/// Runs the program: exit code 0 for success, 1 for a failed verification, 2 for an error.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
    let result = match &args.command {
        Command::Make(args) => run_make(args, &mut out),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // The chain is printed once, here; a closed standard error leaves the exit code.
            let _ = writeln!(std::io::stderr(), "feedline-loadgen: {error:#}");
            ExitCode::from(2)
        }
    }
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

/// A bar on a terminal, nothing elsewhere.
fn progress_bar(unit: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    let template = format!("{{wide_bar}} {{human_pos}} of {{human_len}} {unit}, {{per_sec}}, {{eta}} left");
    bar.with_style(ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
