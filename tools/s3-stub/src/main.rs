//! The stub as a program: see how a client behaves when the store misbehaves.

use anyhow::{Context, bail};
use clap::Parser;
use feedline_s3_stub::{
    Action, Credentials, FaultPlan, Operation, Rule, Stub, StubConfig, parse_bytes, parse_duration,
};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// An S3 server that checks signatures and misbehaves on request, from a seed
#[derive(Debug, Parser)]
#[command(version, after_help = AFTER_HELP)]
struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Show the files below this directory as a bucket
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
    /// Name of the bucket
    #[arg(long, default_value = "bucket")]
    bucket: String,
    /// Access key; without it every request is let in unsigned
    #[arg(long, requires = "secret_key", env = "S3_STUB_ACCESS_KEY")]
    access_key: Option<String>,
    /// Secret key
    #[arg(long, requires = "access_key", env = "S3_STUB_SECRET_KEY", hide_env_values = true)]
    secret_key: Option<String>,
    /// Session token that must come with the key
    #[arg(long, requires = "access_key", env = "S3_STUB_SESSION_TOKEN", hide_env_values = true)]
    session_token: Option<String>,
    /// Only region accepted in signatures
    #[arg(long)]
    region: Option<String>,
    /// Suffix of virtual-hosted names
    #[arg(long, default_value = "s3.localhost")]
    domain: String,
    /// Refuse path style with 403 InvalidPathAccess, as TOS does
    #[arg(long)]
    virtual_only: bool,
    /// Know only version 1 of listings
    #[arg(long)]
    list_v1_only: bool,
    /// Refuse uploads with trailing checksums
    #[arg(long)]
    refuse_trailers: bool,
    /// Most entries in a page of a listing
    #[arg(long, default_value_t = 1000)]
    page_size: usize,
    /// Seconds by which the stub's clock is ahead
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    clock_offset: i64,
    /// Decides all that is left to chance
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A fault, as OPERATION[:KEY][:CONDITION]...:ACTION; may be repeated
    #[arg(long, value_name = "RULE")]
    fault: Vec<Rule>,
    /// Faults from a JSON file, before those of --fault
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Bytes per second of all object reads together, such as 100MB
    #[arg(long, value_parser = parse_bytes)]
    rate: Option<u64>,
    /// Wait before each reply, such as 20ms or 5ms..40ms
    #[arg(long, value_parser = parse_latency)]
    latency: Option<(Duration, Duration)>,
    /// Threads that serve connections
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Add objects origin/0, origin/1, ... of this size, which cost no memory, for measuring throughput
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    origin: Option<u64>,
    /// How many of them
    #[arg(long, default_value_t = 8)]
    origin_objects: u32,
}

const AFTER_HELP: &str = "\
Rules:
  operations  any get head list put part initiate complete abort delete delete_many bucket
  conditions  nth=3 every=10 skip=2 p=0.1 max=5
  actions     status=503[,CODE][,retry-after=5]  limit=100[,STATUS][,CODE]  latency=20ms[..50ms]
              throttle=1MB  throttle-all=100MB  cut=4096[,reset]  stall=4096,30s  flip[=OFFSET]
              short=BYTES  empty  error200[=CODE]  no-etag  chunked  silent=60s  close[=reset]
              pieces=1000  change  remove  repeat-page  ignore-range  ignore-conditions
Examples:
  feedline-s3-stub --dir data --fault 'get:*.tfrecord:p=0.1:status=503' --fault 'get:p=0.01:cut=64kB,reset'
  feedline-s3-stub --origin 1GiB --threads 2 --latency 20ms --rate 1250MB";

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let stub = start(&args)?;
    let mut out = std::io::stdout().lock();
    until_signalled(|| {
        writeln!(out, "{}", stub.url())?;
        out.flush()
    })?;
    writeln!(out, "{}", serde_json::to_string(&stub.counts())?)?;
    Ok(())
}

fn start(args: &Args) -> anyhow::Result<Stub> {
    let mut config = StubConfig {
        listen: args.listen,
        threads: args.threads,
        region: args.region.clone(),
        domain: args.domain.clone(),
        virtual_only: args.virtual_only,
        list_v1_only: args.list_v1_only,
        refuse_trailers: args.refuse_trailers,
        page_size: args.page_size,
        clock_offset: args.clock_offset,
        seed: args.seed,
        faults: plan(args)?,
        // A program that runs for days must not grow; the sums are kept.
        log_limit: 0,
        ..StubConfig::default().bucket(&args.bucket)
    };
    if let (Some(access), Some(secret)) = (&args.access_key, &args.secret_key) {
        let credentials =
            Credentials { session_token: args.session_token.clone(), ..Credentials::new(access, secret) };
        config.credentials.push(credentials);
    }
    if let Some(dir) = &args.dir {
        if !dir.is_dir() {
            bail!("--dir {} is not a directory", dir.display());
        }
        config.directories.push((args.bucket.clone(), dir.clone()));
    }
    let stub = Stub::try_start(config)?;
    if let Some(len) = args.origin {
        let unit = noise(8 << 20);
        for n in 0..args.origin_objects {
            stub.put_repeated(&args.bucket, &format!("origin/{n}"), unit.clone(), len);
        }
    }
    Ok(stub)
}

fn plan(args: &Args) -> anyhow::Result<FaultPlan> {
    let mut plan = FaultPlan::none();
    if let Some(file) = &args.faults {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        plan =
            serde_json::from_str(&text).with_context(|| format!("{} is not a fault plan", file.display()))?;
    }
    plan.rules.extend(args.fault.iter().cloned());
    if let Some((min, max)) = args.latency {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        plan.rules.push(Rule::any(Action::Latency { min_ms: millis(min), max_ms: millis(max) }));
    }
    if let Some(bytes_per_second) = args.rate {
        plan.rules.push(Rule::on(Operation::Get, Action::Throttle { bytes_per_second, shared: true }));
    }
    Ok(plan)
}

fn parse_latency(text: &str) -> Result<(Duration, Duration), String> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    Ok((parse_duration(min)?, parse_duration(max)?))
}

/// Bytes that do not compress and do not repeat within themselves: a linear congruential sequence.
fn noise(len: usize) -> bytes::Bytes {
    let next =
        |x: &u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(1_u64), next).map(|x| x.to_be_bytes()[0]).take(len).collect()
}

/// Calls `ready` once signals are caught, then waits for one.
fn until_signalled(ready: impl FnOnce() -> std::io::Result<()>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        ready()?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}
