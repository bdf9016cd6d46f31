//! One range of an object into one buffer, by the prefetch threads.

use super::error::LoadError;
use crate::fetch::{FetchThreads, Job, Lane};
use crate::pool::SlotMut;
use crate::source::{Cancel, Object};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Where fetched bytes go.
pub(super) trait Target: Send + 'static {
    /// The memory, at least as long as the range.
    fn memory(&mut self) -> &mut [u8];
}

impl Target for SlotMut {
    fn memory(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

impl Target for Vec<u8> {
    fn memory(&mut self) -> &mut [u8] {
        self
    }
}

/// A transfer under way. Dropping it cancels the transfer; the buffer is freed when the thread has let go of it.
#[derive(Debug)]
pub(super) struct Transfer<T> {
    done: oneshot::Receiver<Result<T, LoadError>>,
    cancel: Cancel,
}

impl<T: Target> Transfer<T> {
    /// Queues the transfer of `range` to the start of `target`.
    pub(super) fn start(
        threads: &FetchThreads,
        object: &Arc<Object>,
        range: Range<u64>,
        lane: Lane,
        target: T,
    ) -> Self {
        let (sender, done) = oneshot::channel();
        let cancel = Cancel::new();
        // The sink and the end of the job both need the buffer; they run on one thread, one after the other.
        let buffer = Arc::new(Mutex::new(Some(target)));
        let (sink_buffer, object) = (Arc::clone(&buffer), Arc::clone(object));
        let job = Job {
            object,
            range,
            lane,
            cancel: cancel.clone(),
            sink: Box::new(move |offset, piece| {
                let mut buffer = sink_buffer.lock().unwrap_or_else(PoisonError::into_inner);
                if let (Some(target), Ok(offset)) = (buffer.as_mut(), usize::try_from(offset)) {
                    target.memory()[offset..offset + piece.len()].copy_from_slice(piece);
                }
            }),
            done: Box::new(move |result| {
                let target = buffer.lock().unwrap_or_else(PoisonError::into_inner).take();
                let outcome = match (result, target) {
                    (Ok(()), Some(target)) => Ok(target),
                    (Ok(()), None) => Err(LoadError::Stopping),
                    (Err(error), _) => Err(error.into()),
                };
                // The receiver may be gone: then nobody wants the bytes.
                let _ = sender.send(outcome);
            }),
        };
        threads.submit(job);
        Self { done, cancel }
    }

    /// Waits for the bytes. Can be dropped and called again.
    pub(super) async fn finish(&mut self) -> Result<T, LoadError> {
        (&mut self.done).await.unwrap_or(Err(LoadError::Stopping))
    }
}

impl<T> Drop for Transfer<T> {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
