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

/// Pieces read at the same time.
const AT_ONCE: usize = 2;

/// The bytes of `range` in order. A file that ends before the range does is an error.
pub(crate) fn pieces(file: File, range: Range<u64>) -> BoxStream<'static, object_store::Result<Bytes>> {
    let file = Arc::new(file);
    let starts = range.clone().step_by(usize::try_from(PIECE).expect("a piece is small"));
    futures_util::stream::iter(starts)
        .map(move |start| {
            let (file, length) = (file.clone(), PIECE.min(range.end - start));
            let piece = tokio::task::spawn_blocking(move || read(&file, start, length));
            async move { piece.await? }
        })
        .buffered(AT_ONCE)
        .boxed()
}

fn read(file: &File, offset: u64, length: u64) -> object_store::Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(length).expect("a piece is small")];
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => return Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => done += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(buffer.into())
}

fn failed(error: std::io::Error) -> object_store::Error {
    object_store::Error::Generic { store: "file", source: error.into() }
}
