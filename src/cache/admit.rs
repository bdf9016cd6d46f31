//! From a name to an open shard, and from finished files to a name.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use super::error::CacheError;
use super::files::{self, Kind};
use super::id::ShardId;
use super::ledger::Charge;
use super::meta::{self, ShardMeta};
use super::recover::check_data;
use super::reserve::Reservation;
use super::shard::CachedShard;
use super::stats::{add, one};
use super::store::Cache;
use super::table::Pin;
use super::writer::NewFiles;
use crate::telemetry::one_line;

/// Why a shard in the table cannot be opened.
enum Unreadable {
    /// The files are not what was committed; the shard is gone for good.
    Damaged(String),
    /// The disk or the process (descriptors) has a problem; the shard may be fine.
    Disk(io::Error),
}

impl Cache {
    pub(super) fn find(&self, id: &ShardId) -> Option<Arc<CachedShard>> {
        let Pin { charge, open, touch } = self.table().pin(id)?;
        if touch {
            files::touch(&self.layout.file(id, Kind::Meta));
        }
        if open.is_some() {
            return open;
        }
        match self.open_shard(id, &charge) {
            Ok(shard) => Some(shard),
            Err(Unreadable::Damaged(reason)) => {
                tracing::warn!(%id, reason, "cached shard dropped, it will be fetched again");
                one(&self.stats.bad_metas);
                let _files = self.files();
                let taken = self.table().take_same(id, &charge);
                drop(charge);
                if let Some(charge) = taken {
                    self.remove_files(id, charge);
                }
                None
            }
            Err(Unreadable::Disk(error)) => {
                tracing::warn!(%id, error = one_line(&error), "cached shard cannot be opened, taken for a miss");
                one(&self.stats.io_errors);
                None
            }
        }
    }

    fn open_shard(&self, id: &ShardId, charge: &Arc<Charge>) -> Result<Arc<CachedShard>, Unreadable> {
        let path = self.layout.file(id, Kind::Meta);
        let (bytes, _) = files::read_small(&path, meta::MAX_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::InvalidData => Unreadable::Damaged(error.to_string()),
            _ => Unreadable::Disk(error),
        })?;
        let meta = ShardMeta::of_file(id, &bytes).map_err(|error| Unreadable::Damaged(error.to_string()))?;
        check_data(&self.layout.file(id, Kind::Data), meta.content_len).map_err(Unreadable::Damaged)?;
        self.open_data(id, meta, charge).map_err(Unreadable::Disk)
    }

    fn open_data(&self, id: &ShardId, meta: ShardMeta, charge: &Arc<Charge>) -> io::Result<Arc<CachedShard>> {
        let path = self.layout.file(id, Kind::Data);
        let file = self.ring.open_read(&path)?;
        let (ring, stats) = (self.ring.clone(), Arc::clone(&self.stats));
        let shard = Arc::new(CachedShard::new(meta, path, file, ring, stats, Arc::clone(charge)));
        Ok(self.table().share(id, charge, shard))
    }

    /// Puts a finished shard in its place. If the same content is there already, that one is kept and returned.
    pub(super) fn admit(
        &self,
        id: &ShardId,
        meta: ShardMeta,
        new: NewFiles,
        reservation: Reservation,
        charge: u64,
    ) -> Result<Arc<CachedShard>, CacheError> {
        let _files = self.files();
        let pinned = self.table().pin(id);
        if let Some(Pin { charge, open, .. }) = pinned {
            if let Some(shard) = open.or_else(|| self.open_shard(id, &charge).ok()) {
                return Ok(shard);
            }
            let taken = self.table().take_same(id, &charge);
            drop(charge);
            if let Some(charge) = taken {
                self.remove_files(id, charge);
            }
        }
        new.publish(&self.layout, id)?;
        let charge = reservation.settle(charge);
        one(&self.stats.commits);
        add(&self.stats.committed_bytes, charge.bytes());
        self.table().insert(*id, Arc::clone(&charge), SystemTime::now());
        self.open_data(id, meta, &charge)
            .map_err(|error| CacheError::io("open", &self.layout.file(id, Kind::Data), error))
    }
}
