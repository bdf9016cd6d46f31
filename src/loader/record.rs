//! Single records from the disk, for orders in which the neighbours of a record are of no use.

use super::block::Loader;
use super::shard::Handle;
use crate::budget::Lane;
use crate::record::{FOOTER_BYTES, Frame, masked_crc32c};
use crate::ring::AlignedBuf;
use crate::telemetry::one_line;
use std::ops::Range;

/// A record's bytes on the heap.
#[derive(Debug)]
pub struct Payload {
    buffer: AlignedBuf,
    range: Range<usize>,
}

impl Payload {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.as_slice()[self.range.clone()]
    }
}

impl Loader {
    /// The payload of the record in `frame`, read alone and checked by its own checksum. Waits for room in the in-flight
    /// budget.
    ///
    /// `None` if the cache does not have it, or it is wrong there or too large to be read at once: then its blocks have to
    /// be loaded, which finds and mends damage.
    pub async fn record(&self, handle: &Handle, frame: Frame) -> Option<Payload> {
        let shard = handle.shard();
        let Some(cached) = self.cached(shard) else {
            handle.want(u64::MAX);
            self.ensure(handle);
            return None;
        };
        let length = frame.len + FOOTER_BYTES;
        let _permit = self.parts().in_flight.reserve(length, Lane::Demand).await.ok()?;
        let (buffer, start) =
            match cached.read_span(frame.payload_offset, usize::try_from(length).ok()?).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!(
                        url = shard.object().url,
                        offset = frame.payload_offset,
                        error = one_line(&error),
                        "a cached record is lost"
                    );
                    return None;
                }
            };
        let end = start + usize::try_from(frame.len).ok()?;
        let (payload, footer) = buffer.as_slice()[start..].split_at(end - start);
        if footer.get(..4) != Some(&masked_crc32c(payload).to_le_bytes()[..]) {
            tracing::warn!(
                url = shard.object().url,
                offset = frame.payload_offset,
                "a cached record is corrupt"
            );
            return None;
        }
        Some(Payload { buffer, range: start..end })
    }
}
