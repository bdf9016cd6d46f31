//! Access to an object store.

use std::time::Instant;

use super::Finding;
use crate::config::Config;
use crate::config::units::{MIB, Size};
use crate::source::{SourceError, SourceUrl, Stores, read_range};
use crate::telemetry::one_line;

/// What access gave.
struct Access {
    objects: usize,
    bytes: u64,
    list_millis: u128,
    read: u64,
    read_millis: u128,
}

pub(super) fn check(url: &str, config: &Config) -> Finding {
    match access(url, config) {
        Ok(Access { objects, bytes, list_millis, read, read_millis }) => {
            let (bytes, read) = (Size(bytes), Size(read));
            Finding::ok(
                "store",
                format!(
                    "{url}: {objects} objects, {bytes}, listed in {list_millis} ms; first {read} read in {read_millis} ms"
                ),
            )
        }
        Err(error) => Finding::fail("store", one_line(&error), "see the message; options are in [store]"),
    }
}

fn access(url: &str, config: &Config) -> Result<Access, SourceError> {
    let url = SourceUrl::parse(url)?;
    let stores = Stores::new(config.store.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| SourceError::Unsupported { url: "runtime".to_owned(), why: error.to_string() })?;
    runtime.block_on(async {
        let start = Instant::now();
        let objects = stores.list(&[url]).await?;
        let list_millis = start.elapsed().as_millis();
        let start = Instant::now();
        let mut read = 0;
        // Empty objects say nothing about reading.
        if let Some(object) = objects.iter().find(|object| object.size > 0) {
            read = object.size.min(MIB);
            read_range(&stores.open(&object.origin)?, object, 0..read, |_| ()).await?;
        }
        Ok(Access {
            objects: objects.len(),
            bytes: objects.iter().map(|object| object.size).sum(),
            list_millis,
            read,
            read_millis: start.elapsed().as_millis(),
        })
    })
}
