//! `feedline check-config`.

use std::path::PathBuf;

use serde::Serialize;

use super::{ConfigArgs, OK, Output, USAGE, effective};
use crate::config::{Config, Mistake, Surroundings};

#[derive(Serialize)]
struct Wrong {
    valid: bool,
    mistakes: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    key: Option<String>,
    value: Option<String>,
    place: String,
    reason: String,
    allowed: Option<String>,
}

impl From<&Mistake> for Entry {
    fn from(mistake: &Mistake) -> Self {
        Self {
            key: mistake.key.clone(),
            value: mistake.value.clone(),
            place: mistake.place.to_string(),
            reason: mistake.reason.to_string(),
            allowed: mistake.allowed.map(|allowed| allowed.to_string()),
        }
    }
}

#[derive(Serialize)]
struct Right<'a> {
    valid: bool,
    #[serde(flatten)]
    effective: effective::Document<'a>,
}

pub(super) fn run(
    file: Option<PathBuf>,
    args: &ConfigArgs,
    around: &Surroundings,
    output: &mut Output<'_>,
) -> anyhow::Result<u8> {
    let mut request = args.request();
    request.file = file.or(request.file);
    match Config::load(&request, around) {
        Ok(config) if output.json() => {
            output.document(&Right { valid: true, effective: effective::Document::new(&config) })?;
            Ok(OK)
        }
        Ok(config) => {
            effective::write(output.text(), &config)?;
            Ok(OK)
        }
        Err(error) if output.json() => {
            output.document(&Wrong {
                valid: false,
                mistakes: error.mistakes.iter().map(Entry::from).collect(),
            })?;
            Ok(USAGE)
        }
        Err(error) => Err(error.into()),
    }
}
