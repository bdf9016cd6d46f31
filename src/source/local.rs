//! Reading files in pieces large enough to be fast.
//!
//! The store layer's own stream reads 8 KiB at a time, each in a task of its own. Here a piece is read on the blocking
//! pool while the one before is consumed by the caller.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes read in one go.
const PIECE: u64 = 1024 * 1024;

/// The bytes of `range` in order. Ends early at the end of the file.
pub(crate) fn pieces(file: File, range: Range<u64>) -> BoxStream<'static, object_store::Result<Bytes>> {
    let start = (Arc::new(file), range);
    futures_util::stream::try_unfold(start, |(file, range)| async move {
        if range.start >= range.end {
            return Ok(None);
        }
        let length = PIECE.min(range.end - range.start);
        let reader = file.clone();
        let piece = tokio::task::spawn_blocking(move || read(&reader, range.start, length)).await??;
        if piece.is_empty() {
            return Ok(None);
        }
        let next = range.start + piece.len() as u64;
        Ok(Some((piece, (file, next..range.end))))
    })
    .boxed()
}

fn read(file: &File, offset: u64, length: u64) -> object_store::Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(length).expect("a piece is small")];
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(object_store::Error::Generic { store: "file", source: source.into() }),
        }
    }
    buffer.truncate(done);
    Ok(buffer.into())
}
