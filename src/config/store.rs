//! `[store]`: options of object stores, carried as written; the module that talks to stores knows their meaning.

use std::collections::BTreeMap;

use super::reader::{Readers, Setting, quoted};
use super::suggest::nearest;

/// Options whose values are never shown.
const SECRET: [&str; 3] = ["access_key", "secret_key", "session_token"];

/// Schemes a prefix can start with.
const SCHEMES: [&str; 7] = ["file", "http", "https", "s3", "tos", "gs", "az"];

/// Store options, as written.
#[derive(Clone, Default, PartialEq)]
pub struct Store {
    /// Options for every URL: `[store]`.
    pub default: toml::Table,
    /// Options by URL prefix: `[store."s3://bucket/"]`.
    pub at: BTreeMap<String, toml::Table>,
}

impl std::fmt::Debug for Store {
    /// Names only: values can be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = |table: &toml::Table| table.keys().cloned().collect::<Vec<_>>();
        let at: BTreeMap<_, _> = self.at.iter().map(|(prefix, table)| (prefix, keys(table))).collect();
        f.debug_struct("Store").field("default", &keys(&self.default)).field("at", &at).finish()
    }
}

/// What is wrong with `[store]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A table that is not named for a URL prefix.
    #[error(
        "not a URL prefix such as \"s3://bucket/\"; known schemes are {}{}",
        SCHEMES.join(", "),
        .nearest.iter().map(|name| format!("; did you mean {name}://?")).collect::<String>()
    )]
    Prefix {
        /// The nearest known scheme.
        nearest: Option<&'static str>,
    },
}

impl Store {
    pub(super) fn read(readers: &mut Readers<'_>) -> Self {
        let mut store = Self::default();
        for (prefix, values) in readers.take_stores() {
            let full =
                if prefix.is_empty() { "store".to_owned() } else { format!("store.{}", quoted(&prefix)) };
            let scheme = prefix.split_once("://").map_or(prefix.as_str(), |(scheme, _)| scheme);
            let known = prefix.contains("://") && SCHEMES.contains(&scheme);
            if !prefix.is_empty() && !known {
                let place = values.values().next().map(|given| given.place.clone());
                let place = place.unwrap_or(super::Place::Default { why: String::new() });
                let nearest = nearest(scheme, SCHEMES);
                readers.refuse(full, None, place, StoreError::Prefix { nearest }.into());
                continue;
            }
            let mut table = toml::Table::new();
            for (key, given) in values {
                let secret = SECRET.contains(&key.as_str());
                let value = if secret { "(hidden)".to_owned() } else { given.show() };
                readers.push(Setting { key: format!("{full}.{key}"), value, place: given.place });
                table.insert(key, given.value);
            }
            if prefix.is_empty() {
                store.default = table;
            } else {
                store.at.insert(prefix, table);
            }
        }
        store
    }

    /// Both parts as one table with the keys `default` and `at`, ready to be read as typed options.
    pub fn to_table(&self) -> toml::Table {
        let at = self.at.iter().map(|(prefix, table)| (prefix.clone(), toml::Value::Table(table.clone())));
        toml::Table::from_iter([
            ("default".to_owned(), toml::Value::Table(self.default.clone())),
            ("at".to_owned(), toml::Value::Table(at.collect())),
        ])
    }
}
