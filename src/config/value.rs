//! One given value, and its reading by what the key allows.

use super::Place;
use super::keys::Allowed;
use super::units::{parse_percent, parse_size};

/// A value as given, with its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    pub(super) value: toml::Value,
    pub(super) place: Place,
}

/// Why a value does not fit its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Another type or form.
    #[error("not of the right form")]
    Form,
    /// A number outside its bounds.
    #[error("out of range")]
    Range,
    /// A size that must be a power of two and is none.
    #[error("not a power of two")]
    PowerOfTwo,
}

/// What a value can be once read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// A plain number or a number of bytes.
    Number(u64),
    /// The percentage of something.
    Percent(u64),
    /// The word of the key, or the n-th of its words.
    Word(usize),
}

impl Given {
    /// The value as a person would write it in the file.
    pub(super) fn show(&self) -> String {
        self.value.to_string()
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.value.as_str()
    }

    /// Reads the value of a key that is a number, a size or a word.
    pub(super) fn read(&self, allowed: &Allowed) -> Result<Reading, ValueError> {
        match *allowed {
            Allowed::Integer { min, max } => self.bounded(self.integer()?, min, max),
            Allowed::WordOrInteger { word, min, max } => {
                if self.text() == Some(word) {
                    return Ok(Reading::Word(0));
                }
                self.bounded(self.integer()?, min, max)
            }
            Allowed::Size { min, max } => self.bounded(self.size()?, min, max),
            Allowed::WordOrSize { word, min, max } => {
                if self.text() == Some(word) {
                    return Ok(Reading::Word(0));
                }
                self.bounded(self.size()?, min, max)
            }
            Allowed::SizeOrPercent { min, max, max_percent, .. } => {
                match self.text().and_then(parse_percent) {
                    Some(percent) if (1..=max_percent).contains(&percent) => Ok(Reading::Percent(percent)),
                    Some(_) => Err(ValueError::Range),
                    None => self.bounded(self.size()?, min, max),
                }
            }
            Allowed::PowerOfTwo { min, max } => {
                let bytes = self.size()?;
                self.bounded(bytes, min, max)?;
                if bytes.is_power_of_two() { Ok(Reading::Number(bytes)) } else { Err(ValueError::PowerOfTwo) }
            }
            Allowed::OneOf(words) => {
                let text = self.text().ok_or(ValueError::Form)?;
                words.iter().position(|&word| word == text).map(Reading::Word).ok_or(ValueError::Form)
            }
            Allowed::Other(_) => Err(ValueError::Form),
        }
    }

    fn integer(&self) -> Result<u64, ValueError> {
        match &self.value {
            toml::Value::Integer(number) => u64::try_from(*number).map_err(|_| ValueError::Range),
            // Variables and flags are text; a quoted number in the file is as clear.
            toml::Value::String(text) => text.trim().parse().map_err(|_| ValueError::Form),
            _ => Err(ValueError::Form),
        }
    }

    fn size(&self) -> Result<u64, ValueError> {
        match &self.value {
            toml::Value::String(text) => parse_size(text).ok_or(ValueError::Form),
            _ => self.integer(),
        }
    }

    fn bounded(&self, number: u64, min: u64, max: u64) -> Result<Reading, ValueError> {
        if (min..=max).contains(&number) { Ok(Reading::Number(number)) } else { Err(ValueError::Range) }
    }
}
