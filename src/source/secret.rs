//! A string that never shows itself.

use serde::{Deserialize, Deserializer};

/// A key, token or password.
///
/// `Debug` and `Display` print `<secret>` only, so a value cannot reach a log line or an error text by accident; it has no
/// `Serialize`, so an effective configuration cannot be printed with it either. [`Secret::expose`] is the one way to
/// the text, which makes every use easy to find.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text` with surrounding white space (a newline at the end of a mounted secret file) removed.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The text itself, for building a request.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the text can stand in an HTTP header: visible ASCII, not empty.
    pub(crate) fn is_header_safe(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|b| b.is_ascii_graphic())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_shows_itself() {
        let secret = Secret::new(" hunter2\n");
        assert_eq!(format!("{secret} {secret:?} {secret:#?}"), "<secret> <secret> <secret>");
        assert_eq!(secret.expose(), "hunter2");
        assert!(secret.is_header_safe());
        assert!(!Secret::new("a\u{7}b").is_header_safe());
        assert!(!Secret::new("").is_header_safe());
    }
}
