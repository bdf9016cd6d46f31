//! `feedline status` and `feedline jobs`.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use comfy_table::{Table, presets};
use feedline_client::{Client, Status};
use feedline_proto::v1::StreamStatus;
use serde_json::json;

use super::{OK, Output};
use crate::config::units::Size;

/// How much to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    All,
    Jobs,
}

pub(super) fn run(socket: Option<&Path>, view: View, output: &mut Output<'_>) -> anyhow::Result<u8> {
    let mut client = match socket {
        Some(path) => Client::connect(path)?,
        None => Client::connect_default()?,
    };
    let status = client.status()?;
    if output.json() {
        let streams: Vec<_> = status.streams.iter().map(stream_document).collect();
        let document = match view {
            View::All => document(&status, streams),
            View::Jobs => json!({ "streams": streams }),
        };
        output.document(&document)?;
    } else {
        if view == View::All {
            write_daemon(output.text(), &status)?;
        }
        write_streams(output.text(), &status.streams)?;
    }
    Ok(OK)
}

fn write_daemon(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    let uptime = Duration::try_from_secs_f64(status.uptime_seconds.floor()).unwrap_or_default();
    let uptime = humantime::format_duration(uptime);
    writeln!(out, "feedline {}, process {}, up {uptime}, on {}", status.version, status.pid, status.socket)?;
    let (cpu, memory) = (status.cpu_seconds, Size(status.resident_bytes));
    writeln!(out, "  process   {cpu:.1} s CPU, {memory} resident, {} open files", status.open_descriptors)?;
    writeln!(out, "  disk      {}", status.io_engine)?;
    if let Some(pool) = &status.pool {
        let (limit, block) = (Size(pool.limit_bytes), Size(pool.block_bytes));
        writeln!(
            out,
            "  pool      {limit} in {} blocks of {block}: {} free, {} cached, {} busy, {} leased; {} hits, {} misses",
            pool.slots, pool.free, pool.cached, pool.busy, pool.leased, pool.hits, pool.misses
        )?;
    }
    if let Some(cache) = &status.cache {
        let (used, limit, reserved) =
            (Size(cache.used_bytes), Size(cache.limit_bytes), Size(cache.reserved_bytes));
        writeln!(
            out,
            "  cache     {used} of {limit} used, {reserved} reserved, {} shards, in {}",
            cache.shards, cache.dir
        )?;
        writeln!(
            out,
            "            {} hits, {} misses, {} evictions, {} corrupt; read {}, written {}",
            cache.hits,
            cache.misses,
            cache.evictions,
            cache.corrupt,
            Size(cache.read_bytes),
            Size(cache.written_bytes)
        )?;
    }
    if let Some(store) = &status.store {
        let (requests, retries) = (store.requests, store.retries);
        writeln!(out, "  store     {requests} requests, {} read, {retries} retries", Size(store.bytes))?;
    }
    if let Some(budget) = &status.inflight {
        let (used, limit, peak) =
            (Size(budget.used_bytes), Size(budget.limit_bytes), Size(budget.peak_bytes));
        let threads = status.prefetch_threads;
        writeln!(
            out,
            "  prefetch  {threads} threads, {used} of {limit} in flight (peak {peak}), {} waiting",
            budget.waiting
        )?;
    }
    Ok(())
}

fn write_streams(out: &mut dyn Write, streams: &[StreamStatus]) -> io::Result<()> {
    if streams.is_empty() {
        return writeln!(out, "no open streams");
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "job",
        "rank",
        "epoch",
        "batches",
        "records",
        "bytes",
        "skipped",
        "ready",
        "held",
        "waits for",
        "waited",
        "process",
    ]);
    for stream in streams {
        table.add_row([
            stream.job.clone(),
            format!("{}/{}", stream.rank, stream.world_size),
            stream.epoch.to_string(),
            stream.batches.to_string(),
            stream.records.to_string(),
            Size(stream.bytes).to_string(),
            stream.skipped.to_string(),
            stream.ready.to_string(),
            stream.held.to_string(),
            stream.waits_for.clone(),
            format!("{:.1} s", stream.trainer_waited_seconds),
            stream.pid.to_string(),
        ]);
    }
    writeln!(out, "{table}")
}

fn document(status: &Status, streams: Vec<serde_json::Value>) -> serde_json::Value {
    json!({
        "version": status.version,
        "pid": status.pid,
        "uptime_seconds": status.uptime_seconds,
        "cpu_seconds": status.cpu_seconds,
        "resident_bytes": status.resident_bytes,
        "socket": status.socket,
        "io_engine": status.io_engine,
        "prefetch_threads": status.prefetch_threads,
        "open_descriptors": status.open_descriptors,
        "pool": status.pool.map(|pool| json!({
            "limit_bytes": pool.limit_bytes, "block_bytes": pool.block_bytes, "slots": pool.slots,
            "free": pool.free, "cached": pool.cached, "busy": pool.busy, "leased": pool.leased,
            "hits": pool.hits, "misses": pool.misses, "evictions": pool.evictions,
        })),
        "cache": status.cache.as_ref().map(|cache| json!({
            "dir": cache.dir, "limit_bytes": cache.limit_bytes, "used_bytes": cache.used_bytes,
            "reserved_bytes": cache.reserved_bytes, "shards": cache.shards, "hits": cache.hits,
            "misses": cache.misses, "evictions": cache.evictions, "corrupt": cache.corrupt,
            "read_bytes": cache.read_bytes, "written_bytes": cache.written_bytes, "bypassed": cache.bypassed,
        })),
        "store": status.store.map(|store| json!({
            "requests": store.requests, "bytes": store.bytes, "retries": store.retries, "objects_listed": store.objects_listed,
            "corrupt_transfers": store.corrupt_transfers,
        })),
        "inflight": status.inflight.map(|budget| json!({
            "limit_bytes": budget.limit_bytes, "used_bytes": budget.used_bytes, "peak_bytes": budget.peak_bytes,
            "waiting": budget.waiting,
        })),
        "streams": streams,
    })
}

fn stream_document(stream: &StreamStatus) -> serde_json::Value {
    json!({
        "stream": stream.stream, "job": stream.job, "dataset": stream.dataset, "rank": stream.rank,
        "world_size": stream.world_size, "epoch": stream.epoch, "batches": stream.batches,
        "records": stream.records, "bytes": stream.bytes, "skipped": stream.skipped, "ready": stream.ready,
        "held": stream.held, "leased_blocks": stream.leased_blocks, "lease_limit": stream.lease_limit,
        "waits_for": stream.waits_for, "trainer_waited_seconds": stream.trainer_waited_seconds,
        "pid": stream.pid, "uid": stream.uid,
    })
}

#[cfg(test)]
mod tests {
    use feedline_proto::v1::{BudgetStatus, CacheStatus, PoolStatus, StoreStatus};

    use super::*;

    fn status() -> Status {
        Status {
            version: "1.2.3".into(),
            pid: 42,
            uptime_seconds: 3661.5,
            io_engine: "io_uring, O_DIRECT".into(),
            pool: Some(PoolStatus { limit_bytes: 1 << 30, slots: 256, leased: 3, ..PoolStatus::default() }),
            cache: Some(CacheStatus { dir: "/c".into(), used_bytes: 5 << 30, ..CacheStatus::default() }),
            store: Some(StoreStatus { requests: 7, ..StoreStatus::default() }),
            inflight: Some(BudgetStatus { peak_bytes: 9 << 20, ..BudgetStatus::default() }),
            streams: vec![StreamStatus {
                job: "imagenet".into(),
                rank: 3,
                world_size: 8,
                waits_for: "store".into(),
                ..StreamStatus::default()
            }],
            ..Status::default()
        }
    }

    #[test]
    fn text_names_every_part() {
        let mut out = Vec::new();
        write_daemon(&mut out, &status()).unwrap();
        write_streams(&mut out, &status().streams).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in
            ["1h 1m 1s", "3 leased", "5 GiB of", "7 requests", "peak 9 MiB", "imagenet", "3/8", "store"]
        {
            assert!(text.contains(part), "missing {part:?} in:\n{text}");
        }
        let mut out = Vec::new();
        write_streams(&mut out, &[]).unwrap();
        assert_eq!(out, b"no open streams\n");
    }

    #[test]
    fn json_has_the_names_of_the_protocol() {
        let document = document(&status(), status().streams.iter().map(stream_document).collect());
        assert_eq!(document["pool"]["leased"], 3);
        assert_eq!(document["streams"][0]["waits_for"], "store");
        // Parts that an older daemon does not send are null, not absent.
        assert!(super::document(&Status::default(), Vec::new())["cache"].is_null());
    }

    #[test]
    fn without_a_daemon_the_error_says_what_to_do() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = Output::new(&mut out, &mut err, false);
        let error = run(Some(Path::new("/nonexistent/socket")), View::All, &mut output).unwrap_err();
        assert!(error.to_string().contains("feedline serve"), "{error}");
    }
}
