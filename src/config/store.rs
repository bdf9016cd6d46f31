//! `[store]`: options of object stores. What they mean is [`crate::source`]'s; here they are read, and every mistake
//! is put at its place.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::gather::Values;
use super::keys;
use super::reader::{Readers, Setting, quoted};
use super::suggest::nearest;
use super::value::Given;
use super::{Mistake, Place, ValueError};
use crate::source::{SourceSettings, StoreSettings};

/// Options whose values are never shown; a proxy URL can hold a password.
const SECRET: [&str; 4] = ["access_key", "secret_key", "session_token", "proxy"];

/// Schemes a prefix can start with.
const SCHEMES: [&str; 7] = ["file", "http", "https", "s3", "tos", "gs", "az"];

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
    /// An option that cannot be used as it is.
    #[error("cannot be used; allowed is {0}")]
    Option(String),
}

/// Reads the section and its prefixes.
pub(super) fn read(readers: &mut Readers<'_>) -> StoreSettings {
    let mut settings = StoreSettings::default();
    let given = readers.take_stores();
    for (prefix, values) in &given {
        let table = if prefix.is_empty() { "store".to_owned() } else { format!("store.{}", quoted(prefix)) };
        let scheme = prefix.split_once("://").map_or(prefix.as_str(), |(scheme, _)| scheme);
        let known = prefix.contains("://") && SCHEMES.contains(&scheme);
        if !known && !prefix.is_empty() {
            let nearest = nearest(scheme, SCHEMES);
            readers.refuse(mistake(table, None, place_in(values), StoreError::Prefix { nearest }));
            continue;
        }
        let mut typed = toml::Table::new();
        for (key, given) in values {
            let full = format!("{table}.{key}");
            match fitting(key, given) {
                Some(value) => {
                    typed.insert(key.clone(), value);
                    let value = shown(key, given).unwrap_or_else(|| Setting::HIDDEN.to_owned());
                    let (section, key) = (table.clone(), key.clone());
                    readers.push(Setting { section, key, value, place: given.place.clone() });
                }
                None => {
                    let mut wrong = mistake(full, shown(key, given), given.place.clone(), ValueError::Form);
                    wrong.allowed = keys::section("store")
                        .and_then(|section| section.keys.iter().find(|known| known.name == key))
                        .map(|known| known.allowed);
                    readers.refuse(wrong);
                }
            }
        }
        // Every option was read alone before, so all of them together can be read as well.
        let typed = SourceSettings::deserialize(typed).unwrap_or_default();
        if prefix.is_empty() {
            settings.default = typed;
        } else {
            settings.at.insert(prefix.clone(), typed);
        }
    }
    check(&settings, &given, readers);
    settings
}

/// The value in a form that the option takes. Variables and flags are text: where text does not fit, it may be a
/// number or a truth value.
fn fitting(key: &str, given: &Given) -> Option<toml::Value> {
    let fits = |value: &toml::Value| {
        SourceSettings::deserialize(toml::Table::from_iter([(key.to_owned(), value.clone())])).is_ok()
    };
    if fits(&given.value) {
        return Some(given.value.clone());
    }
    if matches!(given.place, Place::File { .. }) {
        return None;
    }
    let mut table = toml::from_str::<toml::Table>(&format!("value = {}", given.text()?)).ok()?;
    table.remove("value").filter(fits)
}

/// Puts what the store module finds wrong to where it was written.
fn check(settings: &StoreSettings, given: &BTreeMap<String, Values>, readers: &mut Readers<'_>) {
    for found in settings.mistakes() {
        let owner = given.iter().find_map(|(prefix, values)| {
            let section =
                if prefix.is_empty() { "store.default".to_owned() } else { format!("store.at.{prefix:?}") };
            Some((prefix, values, found.option.strip_prefix(&section)?.trim_start_matches('.')))
        });
        let (key, place) = match owner {
            Some((prefix, values, option)) => {
                let table = if prefix.is_empty() { String::new() } else { format!(".{}", quoted(prefix)) };
                let place = values.get(option).map_or_else(|| place_in(values), |given| given.place.clone());
                (format!("store{table}.{option}"), place)
            }
            None => (found.option, Place::Default { why: String::new() }),
        };
        readers.refuse(mistake(key, Some(found.value), place, StoreError::Option(found.allowed)));
    }
}

/// The value as a person would write it; `None` for a secret.
fn shown(key: &str, given: &Given) -> Option<String> {
    (!SECRET.contains(&key)).then(|| given.show())
}

/// Where a section stands: at the first of its options.
fn place_in(values: &Values) -> Place {
    values.values().next().map_or(Place::Default { why: String::new() }, |given| given.place.clone())
}

fn mistake(
    key: String,
    value: Option<String>,
    place: Place,
    reason: impl Into<super::SectionError>,
) -> Mistake {
    Mistake { key: Some(key), value, place, reason: reason.into(), allowed: None }
}
