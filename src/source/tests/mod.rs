//! Stores end to end: a scripted web server for what goes wrong, and real files.

mod files;
mod listing;
mod reading;
pub(crate) mod server;

use super::{StoreSettings, Stores};
use std::sync::Arc;

/// Stores with settings from TOML and an empty environment.
pub(crate) fn stores(toml: &str) -> Stores {
    let settings: StoreSettings = toml::from_str(toml).unwrap();
    Stores::with_environment(settings, Arc::new(|_| None)).unwrap()
}

/// Bytes that differ at every offset a test is likely to mix up.
pub(crate) fn content(length: usize) -> Vec<u8> {
    (0..length).map(|i| u8::try_from((i * 31 + i / 251) % 256).unwrap()).collect()
}
