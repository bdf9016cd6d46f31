//! One shard: records to frames, frames to the compressor, compressed bytes to parts.

use super::{PART_BYTES, PARTS_IN_FLIGHT};
use crate::dataset::{Compression, Manifest};
use anyhow::Result;
use bytes::Bytes;
use feedline::record::append_record;
use flate2::write::{GzEncoder, ZlibEncoder};
use indicatif::ProgressBar;
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use std::io::Write as _;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;

/// Level 1: the loader's inflate speed hardly depends on it, and making a dataset should not take an hour.
const LEVEL: flate2::Compression = flate2::Compression::fast();

#[derive(Default)]
pub(super) struct Written {
    pub(super) record_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) stored_bytes: u64,
}

enum Coder {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Zlib(ZlibEncoder<Vec<u8>>),
}

impl Coder {
    fn new(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Plain(Vec::new()),
            Compression::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), LEVEL)),
            Compression::Zlib => Self::Zlib(ZlibEncoder::new(Vec::new(), LEVEL)),
        }
    }

    fn push_record(&mut self, record: &[u8], frame: &mut Vec<u8>) -> std::io::Result<()> {
        if let Self::Plain(out) = self {
            append_record(out, record);
            return Ok(());
        }
        frame.clear();
        append_record(frame, record);
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(encoder) => encoder.write_all(frame),
            Self::Zlib(encoder) => encoder.write_all(frame),
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zlib(encoder) => encoder.get_mut(),
        }
    }

    fn finish(self) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Plain(out) => Ok(out),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zlib(encoder) => encoder.finish(),
        }
    }
}

pub(super) async fn write(
    store: &Arc<dyn ObjectStore>,
    path: Path,
    manifest: &Manifest,
    shard: u64,
    progress: &ProgressBar,
) -> Result<Written> {
    let mut writer =
        BufWriter::with_capacity(Arc::clone(store), path, PART_BYTES).with_max_concurrency(PARTS_IN_FLIGHT);
    match fill(&mut writer, manifest, shard, progress).await {
        Ok(written) => {
            writer.shutdown().await?;
            Ok(written)
        }
        Err(error) => {
            // Parts of an upload that is given up would be stored, and paid for, until somebody finds them. The first
            // error is the one to report.
            let _ = writer.abort().await;
            Err(error)
        }
    }
}

async fn fill(
    writer: &mut BufWriter,
    manifest: &Manifest,
    shard: u64,
    progress: &ProgressBar,
) -> Result<Written> {
    let mut written = Written::default();
    let mut coder = Coder::new(manifest.compression);
    let (mut record, mut scratch, mut frame) = (Vec::new(), Vec::new(), Vec::new());
    let mut unreported = 0;
    let first = shard * manifest.records_per_shard;
    for id in first..first + manifest.records_per_shard {
        record.clear();
        manifest.append_record(id, &mut record, &mut scratch);
        coder.push_record(&record, &mut frame)?;
        written.record_bytes += record.len() as u64;
        written.content_bytes += record.len() as u64 + 16;
        unreported += 1;
        if coder.out().len() >= PART_BYTES {
            let part = std::mem::replace(coder.out(), Vec::with_capacity(PART_BYTES + PART_BYTES / 8));
            written.stored_bytes += part.len() as u64;
            writer.put(Bytes::from(part)).await?;
            progress.inc(std::mem::take(&mut unreported));
        }
    }
    let rest = coder.finish()?;
    written.stored_bytes += rest.len() as u64;
    writer.put(Bytes::from(rest)).await?;
    progress.inc(unreported);
    Ok(written)
}
