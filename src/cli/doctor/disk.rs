//! The cache directory: space, engine, speed.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::Finding;
use crate::config::units::{GIB, MIB, Size};
use crate::config::{Config, Surroundings};
use crate::ring::{AlignedBuf, ProbeReport, Ring, RingFile};

/// Bytes of one request, and of the whole check.
const STEP: usize = 4 << 20;
const WHOLE: u64 = 256 * MIB;
/// Requests in flight: enough for any NVMe device at this size.
const DEPTH: usize = 16;
/// Below this a local disk slows down more than it helps, in bytes per second.
const SLOW: u64 = 500_000_000;

pub(super) fn space(config: &Config, around: &Surroundings) -> Finding {
    let (dir, limit) = (config.cache.dir.display(), config.cache.bytes);
    match (around.space)(&config.cache.dir) {
        Ok(space) => {
            let free = Size(space.free);
            let root = if space.root { ", on the root file system" } else { "" };
            let found = format!(
                "{dir}: {free} free{root}, {} in the cache, limit {}",
                Size(space.cached),
                Size(limit)
            );
            if limit > space.free.saturating_add(space.cached) {
                let cost = "the disk is full before the limit is reached; the cache then evicts early";
                return Finding::warn("cache space", found, cost, "lower cache.bytes, or make room");
            }
            Finding::ok("cache space", found)
        }
        Err(error) => Finding::fail("cache space", format!("{dir}: {error}"), "set cache.dir"),
    }
}

pub(super) fn engine(report: &ProbeReport) -> [Finding; 2] {
    let uring = report.engine == "io_uring";
    // The report gives the engine's reason first, then the mode's.
    let mut why = report.why.iter().cloned();
    let engine = if uring {
        Finding::ok("io_uring", "available")
    } else {
        Finding::warn(
            "io_uring",
            why.next().unwrap_or_else(|| "not used".to_owned()),
            "a thread pool reads and writes: more CPU per GB, more latency",
            "kernel 5.11 or newer, sysctl kernel.io_uring_disabled=0, and a seccomp profile that allows io_uring_setup",
        )
    };
    let direct = if report.direct {
        Finding::ok("O_DIRECT", format!("{}, alignment {}", report.file_system, report.offset_align))
    } else {
        Finding::warn(
            "O_DIRECT",
            why.next().unwrap_or_else(|| format!("not on {}", report.file_system)),
            "every block is copied once more and takes page cache beside the pool",
            "put cache.dir on ext4 or xfs on a local device",
        )
    };
    [engine, direct]
}

pub(super) fn speed(ring: &Ring, dir: &Path) -> Finding {
    let name = "disk speed";
    let path = dir.join(format!(".feedline-doctor-{}", std::process::id()));
    let result = measure(ring, &path);
    // Nothing to remove when it could not be made.
    let _ = std::fs::remove_file(&path);
    let (write, read) = match result {
        Ok(rates) => rates,
        Err(error) => {
            let found = format!("{}: {error}", path.display());
            return Finding::fail(name, found, "make the directory writable, or set cache.dir");
        }
    };
    let direct = ring.report().direct;
    let how = if direct { "" } else { ", through the page cache: the device may be slower" };
    let found = format!(
        "write {}/s, read {}/s ({} in {} requests{how})",
        Size(write),
        Size(read),
        Size(WHOLE),
        Size(STEP as u64)
    );
    if write.min(read) < SLOW {
        let cost = "the disk, not the object store, may decide the speed of cached epochs";
        return Finding::warn(name, found, cost, "put cache.dir on local NVMe");
    }
    Finding::ok(name, found)
}

/// Bytes per second of writing, made durable, and of reading back.
fn measure(ring: &Ring, path: &Path) -> std::io::Result<(u64, u64)> {
    let free = rustix::fs::statvfs(path.parent().unwrap_or(Path::new("/")))?;
    if free.f_bavail.saturating_mul(free.f_frsize) < GIB {
        return Err(std::io::Error::other("less than 1 GiB is free; not measured"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let file = ring.create(path)?;
        let start = Instant::now();
        steps(|offset, mut buf| {
            let file = &file;
            async move {
                // Not zeros: some file systems and devices store those for nothing.
                fill(buf.as_mut_slice(), offset);
                let (result, buf) = ring.write_at(file, offset, buf, 0, STEP).await;
                result.map(|()| buf)
            }
        })
        .await?;
        ring.sync(&file).await?;
        let write = rate(start.elapsed());
        let start = Instant::now();
        steps(|offset, buf| read(ring, &file, offset, buf)).await?;
        Ok((write, rate(start.elapsed())))
    })
}

async fn read(ring: &Ring, file: &RingFile, offset: u64, buf: AlignedBuf) -> std::io::Result<AlignedBuf> {
    let (result, buf) = ring.read_at(file, offset, buf, 0, STEP).await;
    result.map(|_| buf)
}

/// Runs `step` for every offset, a fixed number at a time, with buffers that go round.
async fn steps<F>(step: impl Fn(u64, AlignedBuf) -> F) -> std::io::Result<()>
where
    F: Future<Output = std::io::Result<AlignedBuf>>,
{
    let mut offsets = (0..WHOLE).step_by(STEP);
    let mut running: FuturesUnordered<F> =
        offsets.by_ref().take(DEPTH).map(|offset| step(offset, AlignedBuf::new(STEP))).collect();
    while let Some(done) = running.next().await {
        let buf = done?;
        if let Some(offset) = offsets.next() {
            running.push(step(offset, buf));
        }
    }
    Ok(())
}

fn fill(buf: &mut [u8], seed: u64) {
    let mut state = seed | 1;
    for word in buf.chunks_exact_mut(8) {
        // Any cheap sequence that no device compresses away will do.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&state.to_le_bytes());
    }
}

fn rate(elapsed: Duration) -> u64 {
    let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX).max(1);
    WHOLE.saturating_mul(1_000_000) / micros
}
