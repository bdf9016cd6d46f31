//! A dataset's folder on any store: the place that `make` writes to and where `run` finds the manifest.

use anyhow::{Context as _, Result};
use feedline::source::{KeyPattern, OriginId, SourceUrl, StoreSettings, Stores, escape};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use std::sync::Arc;

pub(crate) struct Folder {
    url: String,
    path: Path,
    origin: OriginId,
    stores: Stores,
}

impl Folder {
    /// Takes a folder's URL or path; keys and end-points come from the environment.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let url = url.trim_end_matches('/');
        // The key is meant literally, whatever characters it has; the bucket has no wildcards.
        let source = SourceUrl::parse(&format!("{}/", escape(url)))?;
        let (KeyPattern::Below(key) | KeyPattern::One(key)) = source.pattern() else {
            anyhow::bail!("{url} is a pattern, a folder is needed");
        };
        let path = Path::parse(key).with_context(|| format!("{url} cannot be written to"))?;
        let stores = Stores::new(StoreSettings::default())?;
        Ok(Self { url: url.to_owned(), path, origin: stores.origin(&source), stores })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, name: &str) -> Path {
        self.path.clone().join(name)
    }

    /// A fresh store for the calling thread's runtime.
    pub(crate) fn open(&self) -> Result<Arc<dyn ObjectStore>> {
        Ok(self.stores.open_to_write(&self.origin)?)
    }

    /// Reads one small object.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        block_on(async { Ok(self.open()?.get(&self.path_of(name)).await?.bytes().await?.into()) })
    }
}

/// Runs a future on a runtime of its own, which the stores opened in it belong to.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(future)
}
