//! Reads the gathered values section by section, noting mistakes and origins on the way.

use std::collections::BTreeMap;

use super::gather::{Gathered, Values};
use super::keys::{self, Key};
use super::value::{Given, Reading};
use super::{Mistake, Place, SectionError};

/// One key of the effective configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The section as its header names it: `pool`, `store."s3://bucket/"`.
    pub section: String,
    /// The key in it.
    pub key: String,
    /// The value in effect, as it would be written in the file; secrets are hidden.
    pub value: String,
    /// Where it came from.
    pub place: Place,
}

impl Setting {
    /// Stands in the place of a value that is not shown.
    pub const HIDDEN: &'static str = "(hidden)";
}

/// Hands out one reader per section.
pub(super) struct Readers<'a> {
    given: Gathered,
    mistakes: &'a mut Vec<Mistake>,
    settings: Vec<Setting>,
}

impl<'a> Readers<'a> {
    pub(super) fn new(given: Gathered, mistakes: &'a mut Vec<Mistake>) -> Self {
        Self { given, mistakes, settings: Vec::new() }
    }

    pub(super) fn section(&mut self, name: &'static str) -> Reader<'_> {
        let values = self.given.sections.remove(name).unwrap_or_default();
        self.reader(name, name.to_owned(), values)
    }

    fn reader(&mut self, table: &'static str, full: String, values: Values) -> Reader<'_> {
        let keys = keys::section(table).map_or(&[][..], |section| section.keys);
        let before = self.mistakes.len();
        Reader { full, keys, values, mistakes: self.mistakes, settings: &mut self.settings, before }
    }

    /// Calls `read` for each data set, with its name and the place of its definition.
    pub(super) fn datasets<T>(
        &mut self,
        read: impl Fn(&mut Reader<'_>, &str, &Place) -> Option<T>,
    ) -> BTreeMap<String, T> {
        let mut all = BTreeMap::new();
        for (name, (place, values)) in std::mem::take(&mut self.given.datasets) {
            let bare =
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') && !name.is_empty();
            let full = if bare { format!("dataset.{name}") } else { format!("dataset.{}", quoted(&name)) };
            let mut reader = self.reader("dataset", full, values);
            if let Some(dataset) = read(&mut reader, &name, &place) {
                all.insert(name, dataset);
            }
        }
        all
    }

    pub(super) fn take_stores(&mut self) -> BTreeMap<String, Values> {
        std::mem::take(&mut self.given.stores)
    }

    pub(super) fn push(&mut self, setting: Setting) {
        self.settings.push(setting);
    }

    pub(super) fn refuse(&mut self, mistake: Mistake) {
        self.mistakes.push(mistake);
    }

    pub(super) fn into_settings(self) -> Vec<Setting> {
        self.settings
    }
}

/// Reads one section.
pub(super) struct Reader<'a> {
    full: String,
    keys: &'static [Key],
    values: Values,
    mistakes: &'a mut Vec<Mistake>,
    settings: &'a mut Vec<Setting>,
    before: usize,
}

impl Reader<'_> {
    /// The value of a number, size or word key; `None` when it was not given or is wrong, which is noted.
    pub(super) fn reading(&mut self, key: &str) -> Option<Reading> {
        let known = self.keys.iter().find(|known| known.name == key)?;
        match self.values.get(key)?.read(&known.allowed) {
            Ok(reading) => Some(reading),
            Err(error) => {
                self.refuse(key, error);
                None
            }
        }
    }

    /// The number given for a key that is a plain number or size.
    pub(super) fn number(&mut self, key: &str) -> Option<u64> {
        match self.reading(key) {
            Some(Reading::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// The value of a key as given.
    pub(super) fn given(&self, key: &str) -> Option<&Given> {
        self.values.get(key)
    }

    /// The text given for a key; anything but text is noted as a mistake.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        let given = self.values.get(key)?;
        let text = given.text().map(str::to_owned);
        if text.is_none() {
            self.refuse(key, super::ValueError::Form);
        }
        text
    }

    /// Notes that the value of `key` is wrong. For a value that nobody gave, its default is at fault.
    pub(super) fn refuse(&mut self, key: &str, reason: impl Into<SectionError>) {
        let given = self.values.get(key);
        let place = given.map_or_else(|| Place::Default { why: String::new() }, |given| given.place.clone());
        self.refuse_at(key, place, reason);
    }

    /// Like [`Self::refuse`], for a mistake that stands elsewhere.
    pub(super) fn refuse_at(&mut self, key: &str, place: Place, reason: impl Into<SectionError>) {
        let known = self.keys.iter().find(|known| known.name == key);
        self.mistakes.push(Mistake {
            key: Some(if key.is_empty() { self.full.clone() } else { format!("{}.{key}", self.full) }),
            value: self.values.get(key).map(Given::show),
            place,
            reason: reason.into(),
            allowed: known.map(|known| known.allowed),
        });
    }

    /// Whether nothing was wrong in this section so far, so that its values may be checked against each other.
    pub(super) fn clean(&self) -> bool {
        self.mistakes.len() == self.before
    }

    /// Notes the value in effect; `why` explains a default.
    pub(super) fn note(&mut self, key: &str, value: impl std::fmt::Display, why: &str) {
        let place = match self.values.get(key) {
            Some(given) => given.place.clone(),
            None => Place::Default { why: why.to_owned() },
        };
        self.settings.push(Setting {
            section: self.full.clone(),
            key: key.to_owned(),
            value: value.to_string(),
            place,
        });
    }
}

/// Text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
