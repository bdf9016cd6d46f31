//! What a trainer asks of a stream.

use crate::{Error, Token};
use feedline_proto::v1::{self, OpenStream};
use std::time::Duration;

/// Order of the records of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Shuffle {
    /// Shards in the order of their keys, records in file order, the same in every epoch.
    #[default]
    Sequential,
    /// Shards in a new order each epoch, made from the seed; records of a shard in file order.
    Shards,
    /// Shards in a new order, and records mixed within groups of shards: see [`StreamOptions::mixing`].
    Blocks,
    /// All records in one new order each epoch. Needs the record counts of all shards, and a cache that holds the dataset.
    Full,
}

/// What becomes of the records at an epoch's end that do not fill a batch on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Remainder {
    /// They are left out.
    #[default]
    Drop,
    /// The last batch is filled up with records from the epoch's start, marked as pads.
    Pad,
    /// The last batch is smaller, divided as evenly as possible over the ranks.
    Partial,
}

/// How often the dataset is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epochs {
    /// This many times, at least once.
    Count(u64),
    /// Until the client stops.
    Forever,
}

impl From<u64> for Epochs {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// Builder of a stream request. Defaults: batch size 1, rank 0 of 1, one epoch, sequential, remainder dropped.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    dataset: Vec<String>,
    job: String,
    batch_size: u32,
    rank: u32,
    world_size: u32,
    epochs: Epochs,
    shuffle: Shuffle,
    seed: u64,
    remainder: Remainder,
    skip_corrupt: Option<u64>,
    ready: u32,
    mixing: Option<v1::Mixing>,
    resume: Option<Token>,
    resume_job: bool,
    reconnect: Duration,
    nodes: u64,
}

impl StreamOptions {
    /// A stream on a dataset that the daemon's configuration names, or on a URL or pattern.
    pub fn new(dataset: impl Into<String>) -> Self {
        Self {
            dataset: vec![dataset.into()],
            job: String::new(),
            batch_size: 1,
            rank: 0,
            world_size: 1,
            epochs: Epochs::Count(1),
            shuffle: Shuffle::Sequential,
            seed: 0,
            remainder: Remainder::Drop,
            skip_corrupt: None,
            ready: 0,
            mixing: None,
            resume: None,
            resume_job: false,
            reconnect: Duration::from_secs(60),
            nodes: 0,
        }
    }

    /// Adds another URL or pattern to the dataset.
    #[must_use]
    pub fn and(mut self, url: impl Into<String>) -> Self {
        self.dataset.push(url.into());
        self
    }

    /// Name of the job in status and logs.
    #[must_use]
    pub fn job(mut self, name: impl Into<String>) -> Self {
        self.job = name.into();
        self
    }

    /// Records per batch on this rank.
    #[must_use]
    pub fn batch_size(mut self, records: u32) -> Self {
        self.batch_size = records;
        self
    }

    /// Which rank this is, from 0, and how many there are.
    #[must_use]
    pub fn rank(mut self, rank: u32, world_size: u32) -> Self {
        (self.rank, self.world_size) = (rank, world_size);
        self
    }

    /// How often the dataset is read.
    #[must_use]
    pub fn epochs(mut self, epochs: impl Into<Epochs>) -> Self {
        self.epochs = epochs.into();
        self
    }

    /// Order of the records.
    #[must_use]
    pub fn shuffle(mut self, shuffle: Shuffle) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// Seed of the order: equal seeds give equal orders.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What becomes of the records that do not fill the last batch.
    #[must_use]
    pub fn remainder(mut self, remainder: Remainder) -> Self {
        self.remainder = remainder;
        self
    }

    /// Passes over up to `records` corrupt records per epoch before the stream fails; 0 fails at the first. Overrides
    /// what the daemon's configuration says for the dataset.
    #[must_use]
    pub fn skip_corrupt(mut self, records: u64) -> Self {
        self.skip_corrupt = Some(records);
        self
    }

    /// Batches that the daemon keeps ready; its own default if not set.
    #[must_use]
    pub fn ready(mut self, batches: u32) -> Self {
        self.ready = batches;
        self
    }

    /// How far [`Shuffle::Blocks`] mixes: groups of `shards` shards are cut into runs of `run` records, the runs are
    /// permuted, and the records of each `window` that follow each other are permuted. 0 leaves a number at its default: 32,
    /// 32 and 4,096. The numbers are part of the order: a job goes on only with those that it began with.
    #[must_use]
    pub fn mixing(mut self, shards: u64, run: u64, window: u64) -> Self {
        self.mixing = Some(v1::Mixing { shards, run, window });
        self
    }

    /// Divides the dataset into as many parts as there are nodes, the same in every epoch, so that each node reads and caches
    /// its own: ranks `0..world_size / nodes` are the first node's, and so on. Needs the record counts of all shards, and a
    /// global batch that can be divided by `nodes`. 0 spreads the records over all nodes, as if not set. What it costs in
    /// mixing: `docs/order.md`.
    #[must_use]
    pub fn sticky(mut self, nodes: u64) -> Self {
        self.nodes = nodes;
        self
    }

    /// Goes on where the token was taken. The stream must be the same in content, order and seed; ranks and batch size may
    /// differ, and then the rest of the epoch is dealt out anew, each record once.
    #[must_use]
    pub fn resume(mut self, token: Token) -> Self {
        self.resume = Some(token);
        self
    }

    /// Goes on where the job of this name and dataset was when it was last seen by this daemon, or starts if there was
    /// none. Without a token of the trainer's own: see `docs/order.md` for what the daemon can know.
    #[must_use]
    pub fn resume_job(mut self) -> Self {
        self.resume_job = true;
        self
    }

    /// How long the stream looks for a daemon that has gone away before it gives up; 60 s if not set. With
    /// [`Duration::ZERO`] it fails at once.
    #[must_use]
    pub fn reconnect(mut self, limit: Duration) -> Self {
        self.reconnect = limit;
        self
    }

    pub(crate) fn reconnect_limit(&self) -> Duration {
        self.reconnect
    }

    pub(crate) fn request(&self) -> Result<OpenStream, Error> {
        let refuse = |option, problem: String| Err(Error::Option { option, problem });
        if self.batch_size == 0 {
            return refuse("batch_size", "is 0 and must be at least 1".to_owned());
        }
        if self.world_size == 0 || self.rank >= self.world_size {
            let problem = format!("is {} of {} and must be below the world size", self.rank, self.world_size);
            return refuse("rank", problem);
        }
        let epochs = match self.epochs {
            Epochs::Count(0) => {
                return refuse("epochs", "is 0; say Epochs::Forever to repeat without end".to_owned());
            }
            Epochs::Count(count) => count,
            Epochs::Forever => 0,
        };
        let shuffle = match self.shuffle {
            Shuffle::Sequential => v1::Shuffle::Sequential,
            Shuffle::Shards => v1::Shuffle::Shards,
            Shuffle::Blocks => v1::Shuffle::Blocks,
            Shuffle::Full => v1::Shuffle::Full,
        };
        let remainder = match self.remainder {
            Remainder::Drop => v1::Remainder::Drop,
            Remainder::Pad => v1::Remainder::Pad,
            Remainder::Partial => v1::Remainder::Partial,
        };
        Ok(OpenStream {
            dataset: self.dataset.clone(),
            job: self.job.clone(),
            batch_size: self.batch_size,
            rank: self.rank,
            world_size: self.world_size,
            epochs,
            shuffle: shuffle.into(),
            seed: self.seed,
            remainder: remainder.into(),
            corrupt: self.skip_corrupt.map(|skip| v1::CorruptPolicy { skip }),
            ready: self.ready,
            mixing: self.mixing,
            resume: self.resume.as_ref().map(|token| token.0.clone()),
            resume_job: self.resume_job,
            parts: self.nodes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_options_are_named() {
        let text = |options: StreamOptions| options.request().unwrap_err().to_string();
        assert!(text(StreamOptions::new("d").batch_size(0)).contains("batch_size"));
        assert!(text(StreamOptions::new("d").rank(8, 8)).contains("rank: is 8 of 8"));
        assert!(text(StreamOptions::new("d").epochs(0)).contains("epochs"));
        assert_eq!(StreamOptions::new("d").epochs(Epochs::Forever).request().unwrap().epochs, 0);
    }
}
