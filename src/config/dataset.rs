//! `[dataset.NAME]`: data sets that clients open by name.

use std::collections::BTreeMap;

use super::ValueError;
use super::reader::{Reader, Readers, quoted};
use crate::record::CorruptPolicy;

/// A named data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// URLs or patterns, at least one.
    pub urls: Vec<String>,
    /// What a record with a bad checksum does.
    pub corrupt: CorruptPolicy,
}

/// What is wrong with `[dataset.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatasetError {
    /// The name cannot be a label.
    #[error("a name has 1 to 63 letters, digits, '-', '_' or '.', and \"adhoc\" is taken")]
    Name,
    /// No URL at all.
    #[error("one of url and urls must be given")]
    NoUrl,
    /// Both forms at once.
    #[error("url and urls exclude each other")]
    BothUrls,
    /// An empty list or an empty text.
    #[error("empty")]
    Empty,
}

impl Dataset {
    pub(super) fn read_all(readers: &mut Readers<'_>) -> BTreeMap<String, Self> {
        readers.datasets(|reader, name, place| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if !(1..=63).contains(&name.len()) || !name.chars().all(fits) || name == "adhoc" {
                reader.refuse_at("", place.clone(), DatasetError::Name);
            }
            let urls = match (reader.given("url").is_some(), reader.given("urls").is_some()) {
                (false, false) => {
                    reader.refuse_at("url", place.clone(), DatasetError::NoUrl);
                    None
                }
                (true, true) => {
                    reader.refuse("url", DatasetError::BothUrls);
                    None
                }
                (true, false) => reader.text("url").map(|url| vec![url]),
                (false, true) => list(reader),
            };
            let corrupt = corrupt(reader);
            let urls = urls?;
            if urls.is_empty() || urls.iter().any(String::is_empty) {
                let key = if reader.given("url").is_some() { "url" } else { "urls" };
                reader.refuse(key, DatasetError::Empty);
            }
            match urls.as_slice() {
                [one] if reader.given("url").is_some() => reader.note("url", quoted(one), ""),
                _ => {
                    let list: Vec<String> = urls.iter().map(|url| quoted(url)).collect();
                    reader.note("urls", format!("[{}]", list.join(", ")), "");
                }
            }
            match corrupt {
                CorruptPolicy::Fail => reader.note("corrupt", "\"fail\"", ""),
                CorruptPolicy::Skip { max } => reader.note("corrupt", format!("{{ skip = {max} }}"), ""),
            }
            Some(Self { urls, corrupt })
        })
    }
}

fn list(reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let items = reader.given("urls")?.value.as_array().map(|items| {
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    });
    let urls = items.flatten();
    if urls.is_none() {
        reader.refuse("urls", ValueError::Form);
    }
    urls
}

fn corrupt(reader: &mut Reader<'_>) -> CorruptPolicy {
    let Some(given) = reader.given("corrupt") else { return CorruptPolicy::Fail };
    let read = match &given.value {
        toml::Value::String(word) if word == "fail" => Ok(CorruptPolicy::Fail),
        toml::Value::Table(table) if table.len() == 1 => match table.get("skip") {
            Some(toml::Value::Integer(max)) => match u64::try_from(*max) {
                Ok(max) if max > 0 => Ok(CorruptPolicy::Skip { max }),
                _ => Err(ValueError::Range),
            },
            _ => Err(ValueError::Form),
        },
        _ => Err(ValueError::Form),
    };
    read.unwrap_or_else(|error| {
        reader.refuse("corrupt", error);
        CorruptPolicy::Fail
    })
}
