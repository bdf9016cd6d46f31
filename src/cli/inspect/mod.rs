//! `feedline dataset inspect`: what lies behind a URL, without a daemon.
//!
//! Shards are listed, then each is read once from start to end by one of a few threads and walked record by record,
//! with the same code as in the daemon. Nothing is kept but counts, so memory stays at one record index per thread.

mod report;
mod scan;
mod sizes;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

use super::{FAILED, OK, Output};
use crate::config::Config;
use crate::source::{Cancel, Object, OriginId, SourceUrl, Store, Stores, read_range_until};
use report::Report;
use scan::{Scan, ShardReport};
use sizes::Sizes;

/// What to inspect, and how thoroughly.
#[derive(Debug)]
pub(super) struct Options {
    /// URLs, patterns, or names of configured data sets.
    pub(super) urls: Vec<String>,
    /// Read every shard, not only the listing.
    pub(super) scan: bool,
    /// Shards read at the same time; `None` for the configured number of prefetch threads.
    pub(super) threads: Option<u16>,
}

/// Inspects; gives 1 when a shard is damaged, foreign or unreadable.
pub(super) fn run(options: &Options, config: &Config, output: &mut Output<'_>) -> anyhow::Result<u8> {
    let urls = resolve(&options.urls, config)?;
    let stores = Stores::new(config.store.clone())?;
    let objects = runtime()?.block_on(stores.list(&urls))?;
    let mut report = Report::listed(&objects);
    if options.scan {
        let threads = options.threads.map_or(config.prefetch.threads, usize::from).min(objects.len());
        let (shards, sizes) = scan_all(&stores, &objects, threads)?;
        report.scanned(shards, &sizes);
    }
    if output.json() {
        output.document(&report)?;
    } else {
        report.write(output.text())?;
    }
    Ok(if report.is_good() { OK } else { FAILED })
}

/// Names of configured data sets become their URLs; everything else is a URL.
fn resolve(names: &[String], config: &Config) -> anyhow::Result<Vec<SourceUrl>> {
    let mut urls = Vec::new();
    for name in names {
        match config.dataset.get(name) {
            Some(dataset) => {
                for url in &dataset.urls {
                    urls.push(
                        SourceUrl::parse(url)
                            .with_context(|| format!("data set {name} in the configuration"))?,
                    );
                }
            }
            None => urls.push(SourceUrl::parse(name)?),
        }
    }
    Ok(urls)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime can be started")
}

fn scan_all(
    stores: &Stores,
    objects: &[Object],
    threads: usize,
) -> anyhow::Result<(Vec<ShardReport>, Sizes)> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::with_capacity(objects.len()), Sizes::default()));
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| work(stores, objects, &next, &done))).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let (mut shards, sizes) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    shards.sort_by_key(|(at, _)| *at);
    Ok((shards.into_iter().map(|(_, shard)| shard).collect(), sizes))
}

type Done = Mutex<(Vec<(usize, ShardReport)>, Sizes)>;

/// Takes shards from the list until there are none left.
fn work(stores: &Stores, objects: &[Object], next: &AtomicUsize, done: &Done) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let mut open: Vec<(OriginId, Store)> = Vec::new();
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(object) = objects.get(at) else { return Ok(()) };
        let store = match open.iter().find(|(origin, _)| *origin == object.origin) {
            Some((_, store)) => store.clone(),
            None => {
                let store = stores.open(&object.origin)?;
                open.push((object.origin.clone(), store.clone()));
                store
            }
        };
        let mut sizes = Sizes::default();
        let shard = runtime.block_on(scan_one(&store, object, &mut sizes));
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.0.push((at, shard));
        done.1.merge(&sizes);
    }
}

async fn scan_one(store: &Store, object: &Object, sizes: &mut Sizes) -> ShardReport {
    let cancel = Cancel::new();
    let mut scan = Scan::new(&object.url, object.size);
    let read = read_range_until(store, object, 0..object.size, &cancel, |bytes| {
        scan.feed(bytes);
        if scan.is_settled() {
            // Nothing more can be learned from the rest.
            cancel.cancel();
        }
    });
    let read = read.await;
    let failure = read.err().filter(|_| !cancel.is_cancelled());
    scan.finish(failure.map(|error| error.to_string()), sizes)
}

#[cfg(test)]
mod tests;
