//! Feeding a stream whose records are mixed: several batches are put together at the same time, and sent in order.

use super::{RETURN_ENTRIES, Stream, woken};
use crate::budget::Permit;
use crate::loader::Loader;
use crate::serve::batch;
use crate::serve::failure::StreamFailure;
use crate::serve::gather::{Gather, Gathered, Reading};
use crate::serve::lookahead::GroupAhead;
use crate::serve::registry::Waits;
use crate::serve::walk::Next;
use feedline_proto::shm::layout::KIND_BATCH;
use futures_util::FutureExt;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use tokio::task::JoinHandle;

/// A batch being put together. What it has reserved goes with it, also if the stream ends first.
struct Coming {
    task: JoinHandle<Result<(Gathered, Permit), StreamFailure>>,
}

impl Coming {
    fn start(loader: &Loader, gather: Gather, permit: Permit) -> Self {
        let runtime = loader.parts().runtime.clone();
        let loader = loader.clone();
        let helpers = permit.bytes() - gather.slots(loader.block_bytes());
        Self { task: runtime.spawn(async move { Ok((gather.run(loader, helpers).await?, permit)) }) }
    }

    async fn done(&mut self) -> Result<(Gathered, Permit), StreamFailure> {
        (&mut self.task).await.unwrap_or_else(|error| {
            let what = "cannot put a batch together";
            Err(StreamFailure::System { what, cause: io::Error::other(error) })
        })
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Batches on their way, and what comes behind them.
#[derive(Default)]
struct Line {
    coming: VecDeque<Coming>,
    /// The next one, while there is no room for it.
    next: Option<Gather>,
    end: Option<Result<(), StreamFailure>>,
    /// What the next one lacks is room that the trainer holds.
    lacks_leases: bool,
}

impl Stream {
    pub(super) async fn feed_mixed(&mut self) -> Result<(), StreamFailure> {
        let reading = Reading::of(self.walk.plan.shuffle, u64::from(self.loader.parts().pool.slots()));
        let (mut line, mut ahead) = (Line::default(), GroupAhead::default());
        loop {
            self.returns.borrow_and_update();
            self.take_returns()?;
            ahead.advance(&mut self.walk, &self.loader);
            self.fill(&mut line, reading).await?;
            if let Some(front) = line.coming.front_mut() {
                self.entry.info.set_waits(Waits::Blocks);
                let armed = self.producer.arm(1)?;
                let done = tokio::select! {
                    biased;
                    done = front.done() => Some(done?),
                    () = woken(&self.wake), if armed => None,
                    // The sender lives in the lease.
                    _ = self.returns.changed(), if line.lacks_leases => None,
                };
                self.producer.disarm();
                if let Some((gathered, permit)) = done {
                    line.coming.pop_front();
                    self.emit_gathered(gathered, permit).await?;
                }
            } else if let Some(end) = line.end.take() {
                return end;
            } else if line.lacks_leases {
                self.wait_for_returns().await?;
            } else {
                self.wait_for_room().await?;
            }
        }
    }

    /// Starts batches for as long as fewer than wanted are ready or on their way.
    async fn fill(&mut self, line: &mut Line, reading: Reading) -> Result<(), StreamFailure> {
        line.lacks_leases = false;
        let block_bytes = self.loader.block_bytes();
        while line.end.is_none() {
            let coming = line.coming.len() as u64;
            let ready = self.sent - self.producer.taken()?.min(self.sent);
            if ready + coming >= self.ready || self.held.batches() as u64 + coming >= RETURN_ENTRIES {
                break;
            }
            let gather = match line.next.take() {
                Some(gather) => gather,
                None => {
                    self.entry.info.set_waits(Waits::Store);
                    // What is on its way must not wait for what is not known yet.
                    let next = match coming {
                        0 => Some(self.walk.next().await),
                        _ => self.walk.next().now_or_never(),
                    };
                    self.entry.info.skipped.store(self.walk.skipped, Relaxed);
                    match next {
                        None => break,
                        Some(Ok(Next::Batch(picked))) => Gather::of(picked, block_bytes, reading),
                        Some(Ok(Next::End)) => {
                            line.end = Some(Ok(()));
                            break;
                        }
                        Some(Err(failure)) => {
                            line.end = Some(Err(failure));
                            break;
                        }
                    }
                }
            };
            match self.held.reserve(&gather, block_bytes) {
                Ok(Some(permit)) => line.coming.push_back(Coming::start(&self.loader, gather, permit)),
                Ok(None) => {
                    line.next = Some(gather);
                    line.lacks_leases = true;
                    break;
                }
                Err(failure) => line.end = Some(Err(failure)),
            }
        }
        Ok(())
    }

    async fn emit_gathered(&mut self, gathered: Gathered, permit: Permit) -> Result<(), StreamFailure> {
        self.entry.info.set_waits(Waits::Nothing);
        let mut payload = std::mem::take(&mut self.payload);
        self.writer.clear();
        gathered.describe(self.loader.block_shift(), &mut self.writer);
        self.writer.encode(&batch::header(&gathered.picked, self.sent), &mut payload);
        let (next, records, bytes) = (gathered.picked.next, gathered.picked.records, gathered.bytes);
        self.held.keep(self.sent, permit, gathered.blocks);
        self.send(KIND_BATCH, &payload).await?;
        self.payload = payload;
        self.count_sent(next, records, bytes);
        Ok(())
    }
}
