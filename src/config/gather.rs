//! Collects what file, environment and flags say, before any value is read.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::keys::{self, SECTION_NAMES};
use super::paths::Found;
use super::place::Flag;
use super::reader::quoted;
use super::suggest::nearest;
use super::value::Given;
use super::{Mistake, Place, SectionError};

/// Why a file gives nothing at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// It is not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// The name of a section is used for something else.
    #[error("[{0}] must be a table")]
    NotATable(String),
}

/// A name that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", self.what(), self.hint())]
pub struct NameError {
    /// What kind of name: `section`, `key`, `variable`.
    pub kind: &'static str,
    /// The nearest known name, in the form in which it would be written at this place.
    pub nearest: Option<String>,
}

impl NameError {
    fn what(&self) -> String {
        format!("unknown {}", self.kind)
    }

    fn hint(&self) -> String {
        self.nearest.iter().map(|name| format!("; did you mean {name}?")).collect()
    }
}

/// The values of one section, by key.
pub(super) type Values = BTreeMap<String, Given>;

/// Everything that was given.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Sections with fixed keys.
    pub(super) sections: BTreeMap<&'static str, Values>,
    /// Data sets by name, with the place of each.
    pub(super) datasets: BTreeMap<String, (Place, Values)>,
    /// Store options by URL prefix; the empty prefix has the defaults.
    pub(super) stores: BTreeMap<String, Values>,
}

/// A file's text with its path, to turn offsets into lines.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn place(&self, offset: usize) -> Place {
        let before = self.text.as_bytes().iter().take(offset);
        Place::File { path: self.path.to_owned(), line: 1 + before.filter(|&&byte| byte == b'\n').count() }
    }

    fn given(&self, key: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) -> Given {
        Given { value: to_value(value.get_ref()), place: self.place(key.span().start) }
    }
}

impl Gathered {
    pub(super) fn read_file(&mut self, file: &Found, mistakes: &mut Vec<Mistake>) {
        let text = match std::fs::read_to_string(&file.path) {
            Ok(text) => text,
            Err(error) => {
                let reason = FileError::Unreadable(error.to_string());
                let value = Some(file.path.display().to_string());
                let key = Some("configuration file".to_owned());
                let place = match &file.named_by {
                    Place::Default { .. } => Place::File { path: file.path.clone(), line: 1 },
                    named => named.clone(),
                };
                return mistakes.push(Mistake { key, value, place, reason: reason.into(), allowed: None });
            }
        };
        let source = Source { path: &file.path, text: &text };
        let (table, errors) = DeTable::parse_recoverable(&text);
        if !errors.is_empty() {
            mistakes.extend(errors.iter().map(|error| {
                let offset = error.span().map_or(0, |span| span.start);
                let message = error.message().trim_end().replace('\n', ", ");
                mistake(None, source.place(offset), FileError::Syntax(message))
            }));
            return;
        }
        for (key, value) in table.get_ref() {
            let name = key.get_ref().as_ref();
            let place = source.place(key.span().start);
            if !SECTION_NAMES.contains(&name) {
                mistakes.push(unknown("section", name, place, nearest(name, SECTION_NAMES.iter().copied())));
                continue;
            }
            let Some(content) = value.get_ref().as_table() else {
                mistakes.push(mistake(None, place, FileError::NotATable(name.to_owned())));
                continue;
            };
            match name {
                "store" => self.read_stores(&source, content, mistakes),
                "dataset" => self.read_datasets(&source, content, mistakes),
                _ => {
                    let values = known_values(name, name, &source, content, mistakes);
                    if let Some(section) = keys::section(name) {
                        self.sections.entry(section.name).or_default().extend(values);
                    }
                }
            }
        }
    }

    /// Keys of `[store]` that are tables name URL prefixes, the others are options for every URL.
    fn read_stores(&mut self, source: &Source<'_>, content: &DeTable<'_>, mistakes: &mut Vec<Mistake>) {
        let (prefixes, options): (Vec<_>, Vec<_>) =
            content.iter().partition(|(_, value)| value.get_ref().is_table());
        let defaults = known_values("store", "store", source, options, mistakes);
        self.stores.entry(String::new()).or_default().extend(defaults);
        for (key, value) in prefixes {
            let name = key.get_ref().as_ref();
            let full = format!("store.{}", quoted(name));
            let options = value.get_ref().as_table().into_iter().flatten();
            let values = known_values("store", &full, source, options, mistakes);
            self.stores.insert(name.to_owned(), values);
        }
    }

    fn read_datasets(&mut self, source: &Source<'_>, content: &DeTable<'_>, mistakes: &mut Vec<Mistake>) {
        for (key, value) in content {
            let name = key.get_ref().as_ref();
            let full = format!("dataset.{name}");
            let place = source.place(key.span().start);
            match value.get_ref().as_table() {
                Some(content) => {
                    let values = known_values("dataset", &full, source, content, mistakes);
                    self.datasets.insert(name.to_owned(), (place, values));
                }
                None => mistakes.push(mistake(None, place, FileError::NotATable(full))),
            }
        }
    }

    /// Takes `FEEDLINE_SECTION_KEY`. Other variables with our prefix are left alone (clients have some of their
    /// own), unless they look like a misspelt section.
    pub(super) fn read_environment(&mut self, vars: &BTreeMap<String, String>, mistakes: &mut Vec<Mistake>) {
        for (variable, value) in vars {
            let Some(rest) = variable.strip_prefix("FEEDLINE_") else { continue };
            let lower = rest.to_ascii_lowercase();
            if lower == "config" || lower == "socket" {
                continue;
            }
            let place = Place::Environment(variable.clone());
            let value = toml::Value::String(value.clone());
            let (word, key) = lower.split_once('_').unwrap_or((&lower, ""));
            match SECTION_NAMES.iter().find(|&&name| name == word) {
                Some(&"dataset") => mistakes.push(unknown("variable", variable, place, None)),
                Some(&section) => {
                    self.set(section, key, Given { value, place }, mistakes, |section, key| {
                        format!("FEEDLINE_{}_{}", section.to_ascii_uppercase(), key.to_ascii_uppercase())
                    });
                }
                None => {
                    if let Some(near) =
                        nearest(word, SECTION_NAMES.iter().copied()).filter(|_| !key.is_empty())
                    {
                        let near =
                            format!("FEEDLINE_{}_{}", near.to_ascii_uppercase(), key.to_ascii_uppercase());
                        mistakes.push(named("variable", variable, place, Some(near)));
                    }
                }
            }
        }
    }

    pub(super) fn read_flags(&mut self, flags: &[Flag], mistakes: &mut Vec<Mistake>) {
        for flag in flags {
            let place = Place::Flag(flag.name.clone());
            let value = toml::Value::String(flag.value.clone());
            let (section, key) = flag.key.split_once('.').unwrap_or((&flag.key, ""));
            match SECTION_NAMES.iter().find(|&&name| name == section && name != "dataset") {
                Some(&section) => self.set(section, key, Given { value, place }, mistakes, |section, key| {
                    format!("{section}.{key}")
                }),
                None => {
                    let near = nearest(section, SECTION_NAMES.iter().copied());
                    mistakes.push(unknown("section", section, place, near));
                }
            }
        }
    }

    fn set(
        &mut self,
        section: &'static str,
        key: &str,
        given: Given,
        mistakes: &mut Vec<Mistake>,
        spell: impl Fn(&str, &str) -> String,
    ) {
        match keys::section(section) {
            None => {}
            Some(table) if table.keys.iter().any(|known| known.name == key) => {
                let values = match section {
                    "store" => self.stores.entry(String::new()).or_default(),
                    _ => self.sections.entry(section).or_default(),
                };
                values.insert(key.to_owned(), given);
            }
            Some(table) => {
                let near = nearest(key, table.keys.iter().map(|key| key.name));
                let full = format!("{section}.{key}");
                mistakes.push(named("key", &full, given.place, near.map(|near| spell(section, near))));
            }
        }
    }
}

/// The values of a section whose keys are known; the others become mistakes.
fn known_values<'s>(
    section: &str,
    full: &str,
    source: &Source<'_>,
    content: impl IntoIterator<Item = (&'s Spanned<DeString<'s>>, &'s Spanned<DeValue<'s>>)>,
    mistakes: &mut Vec<Mistake>,
) -> Values {
    let known = keys::section(section).map_or(&[][..], |section| section.keys);
    let mut values = Values::new();
    for (key, value) in content {
        let name = key.get_ref().as_ref();
        if known.iter().any(|key| key.name == name) {
            values.insert(name.to_owned(), source.given(key, value));
        } else {
            let near = nearest(name, known.iter().map(|key| key.name));
            let place = source.place(key.span().start);
            mistakes.push(unknown("key", &format!("{full}.{name}"), place, near));
        }
    }
    values
}

fn unknown(kind: &'static str, name: &str, place: Place, near: Option<&str>) -> Mistake {
    named(kind, name, place, near.map(str::to_owned))
}

fn named(kind: &'static str, name: &str, place: Place, nearest: Option<String>) -> Mistake {
    mistake(Some(name.to_owned()), place, NameError { kind, nearest })
}

fn mistake(key: Option<String>, place: Place, reason: impl Into<SectionError>) -> Mistake {
    Mistake { key, value: None, place, reason: reason.into(), allowed: None }
}

/// The parsed value without its spans. Numbers that no type holds stay text, so that they are shown as written.
fn to_value(value: &DeValue<'_>) -> toml::Value {
    match value {
        DeValue::String(text) => toml::Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| toml::Value::String(number.as_str().to_owned()), toml::Value::Integer),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or_else(|_| toml::Value::String(number.as_str().to_owned()), toml::Value::Float),
        DeValue::Boolean(flag) => toml::Value::Boolean(*flag),
        DeValue::Datetime(time) => toml::Value::Datetime(*time),
        DeValue::Array(items) => {
            toml::Value::Array(items.iter().map(|item| to_value(item.get_ref())).collect())
        }
        DeValue::Table(entries) => toml::Value::Table(
            entries
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), to_value(value.get_ref())))
                .collect(),
        ),
    }
}
