//! The configuration in effect, as a file that could be used as it is.

use std::io::{self, Write};

use serde::Serialize;

use crate::config::{Config, Setting};

/// Writes every value with its origin behind it.
pub(super) fn write(out: &mut dyn Write, config: &Config) -> io::Result<()> {
    match &config.file {
        Some(file) => writeln!(out, "# configuration in effect; file {}", file.display())?,
        None => writeln!(out, "# configuration in effect; no file")?,
    }
    let assignment = |setting: &Setting| format!("{} = {}", setting.key, setting.value);
    let widest = config.settings().iter().map(|setting| assignment(setting).len()).max();
    // Long paths and lists stand out; everything else lines up.
    let width = widest.unwrap_or(0).min(56);
    let mut section = "";
    for setting in config.settings() {
        if setting.section != section {
            section = &setting.section;
            writeln!(out, "\n[{section}]")?;
        }
        if setting.value == Setting::HIDDEN {
            writeln!(out, "# {} is set and not shown  # {}", setting.key, setting.place)?;
        } else {
            writeln!(out, "{:width$}  # {}", assignment(setting), setting.place)?;
        }
    }
    Ok(())
}

/// The same for programs.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    file: Option<String>,
    settings: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    key: String,
    value: &'a str,
    origin: &'static str,
    place: String,
}

impl<'a> Document<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        let entry = |setting: &'a Setting| Entry {
            key: format!("{}.{}", setting.section, setting.key),
            value: &setting.value,
            origin: setting.place.kind(),
            place: setting.place.to_string(),
        };
        Self {
            file: config.file.as_ref().map(|file| file.display().to_string()),
            settings: config.settings().iter().map(entry).collect(),
        }
    }
}
