//! A dataset's folder on any store: the place that `make` writes to and where `run` finds the manifest.

use anyhow::{Context as _, Result};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use std::sync::Arc;

pub(crate) struct Folder {
    url: String,
}

impl Folder {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        Ok(Self { url: url.trim_end_matches('/').to_owned() })
    }

    pub(crate) fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Reads one small object.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?;
        runtime.block_on(async {
            let (store, path) = self.open()?;
            Ok(store.get(&path.join(name)).await?.bytes().await?.into())
        })
    }

    pub(crate) fn open(&self) -> Result<(Arc<dyn ObjectStore>, Path)> {
        if let Some((_, _)) = self.url.split_once("://").filter(|(scheme, _)| *scheme != "file") {
            let url = self.url.parse().with_context(|| format!("{} is not a URL", self.url))?;
            let mut vars: Vec<(String, String)> =
                std::env::vars().map(|(k, v)| (k.to_lowercase(), v)).collect();
            vars.push(("allow_http".into(), "true".into()));
            let (store, path) = object_store::parse_url_opts(&url, vars)?;
            return Ok((store.into(), path));
        }
        let dir = self.url.strip_prefix("file://").unwrap_or(&self.url);
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create directory {dir}"))?;
        Ok((Arc::new(LocalFileSystem::new_with_prefix(dir)?), Path::default()))
    }
}
