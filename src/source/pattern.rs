//! Which keys a URL names: one, everything below a prefix, or a glob.

use globset::{GlobBuilder, GlobMatcher};

/// The characters that make a key a pattern when they are not escaped by `\`.
const MAGIC: &[char] = &['*', '?', '[', '{'];

/// The key part of a [`super::SourceUrl`].
#[derive(Debug, Clone)]
pub enum KeyPattern {
    /// Exactly this key.
    One(String),
    /// Every key that starts with this prefix, which is empty or ends in `/`.
    Below(String),
    /// Every key that the glob matches; `prefix` is the literal text before its first wildcard.
    Glob {
        /// Longest literal beginning, escapes removed. It may end inside a path segment.
        prefix: String,
        /// Matches whole keys; `*` and `?` never match `/`, `**` does.
        matcher: GlobMatcher,
    },
}

impl KeyPattern {
    /// Parses `text`. `\` makes the next character literal, so a key with `[` in its name is written `\[`.
    ///
    /// `*` matches within one path segment, `**` any number of segments, `?` one byte, `[a-z]` and `[!a-z]` one ASCII
    /// character, `{a,b}` either. Text that is empty or ends in `/` means everything below.
    ///
    /// # Errors
    /// Says what is wrong with the glob, without naming the URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (prefix, magic) = literal_prefix(text)?;
        if !magic {
            let below = prefix.is_empty() || prefix.ends_with('/');
            return Ok(if below { Self::Below(prefix) } else { Self::One(prefix) });
        }
        check_classes(text)?;
        let glob = if text.ends_with('/') { format!("{text}**") } else { text.to_owned() };
        let matcher = GlobBuilder::new(&glob)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| error.kind().to_string())?
            .compile_matcher();
        Ok(Self::Glob { prefix, matcher })
    }

    /// A pattern that names exactly `key`, whatever characters it holds.
    pub fn exactly(key: &str) -> Self {
        Self::One(key.to_owned())
    }

    /// Whether `key` is named.
    pub fn matches(&self, key: &str) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Below(prefix) => key.len() > prefix.len() && key.starts_with(prefix.as_str()),
            Self::Glob { matcher, .. } => matcher.is_match(key),
        }
    }

    /// The text that every matching key starts with.
    pub fn prefix(&self) -> &str {
        match self {
            Self::One(text) | Self::Below(text) | Self::Glob { prefix: text, .. } => text,
        }
    }
}

/// Writes `key` so that [`KeyPattern::parse`] reads it as that one key.
pub fn escape(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for c in key.chars() {
        if MAGIC.contains(&c) || c == '\\' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The literal beginning with its escapes removed, and whether a wildcard follows.
fn literal_prefix(text: &str) -> Result<(String, bool), String> {
    let mut prefix = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => prefix
                .push(chars.next().ok_or("a \\ at the end escapes nothing; write \\\\ for a backslash")?),
            c if MAGIC.contains(&c) => return Ok((prefix, true)),
            c => prefix.push(c),
        }
    }
    Ok((prefix, false))
}

/// The matcher works on bytes: a class with other than ASCII characters would never match, silently.
fn check_classes(text: &str) -> Result<(), String> {
    let (mut inside, mut escaped) = (false, false);
    for c in text.chars() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' if !inside => escaped = true,
            '[' => inside = true,
            ']' => inside = false,
            c if inside && !c.is_ascii() => {
                return Err(format!("'{c}' inside [...]: only ASCII is supported there; use {{a,b}}"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn table() {
        for (pattern, key, want) in [
            ("a/b.tfrecord", "a/b.tfrecord", true),
            ("a/b.tfrecord", "a/b.tfrecord2", false),
            ("a/*.tfrecord", "a/b.tfrecord", true),
            ("a/*.tfrecord", "a/c/b.tfrecord", false),
            ("a/**/*.tfrecord", "a/c/d/b.tfrecord", true),
            ("a/**/*.tfrecord", "a/b.tfrecord", true),
            ("a/**", "a/b/c", true),
            ("a/**", "a", false),
            ("**", "anything/at/all", true),
            ("*", "a/b", false),
            ("a/", "a/b/c", true),
            ("a/", "ab", false),
            ("a/", "a/", false),
            ("run-*/", "run-1/x/y", true),
            ("run-*/", "run-1", false),
            ("", "x", true),
            ("t-?????-of-[0-9]*", "t-00001-of-8", true),
            ("t-[!0]*", "t-0", false),
            ("{train,val}/x", "val/x", true),
            ("{train,val}/x", "test/x", false),
            (r"a\[1\].rec", "a[1].rec", true),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            (r"a\[1\]-*", "a[1]-7", true),
            ("a?b", "a/b", false),
            ("a#b?c%20", "a#bxc%20", true),
            ("日本/*", "日本/é.rec", true),
        ] {
            assert_eq!(KeyPattern::parse(pattern).unwrap().matches(key), want, "{pattern} against {key}");
        }
    }

    #[test]
    fn prefixes() {
        for (pattern, prefix) in
            [("a/b-*.x", "a/b-"), ("*", ""), (r"a\*b*", "a*b"), ("a/", "a/"), ("x{a,b}", "x"), ("k", "k")]
        {
            assert_eq!(KeyPattern::parse(pattern).unwrap().prefix(), prefix, "{pattern}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (pattern, word) in
            [("a[", "class"), ("a{b", "altern"), ("a\\", "backslash"), ("[é]", "ASCII"), ("a]*[b", "class")]
        {
            let error = KeyPattern::parse(pattern).unwrap_err();
            assert!(error.contains(word), "{pattern}: {error}");
        }
    }

    proptest! {
        #[test]
        fn an_escaped_key_names_itself(key in "[ -~é日]{1,20}[a-z]") {
            let pattern = KeyPattern::parse(&escape(&key)).unwrap();
            prop_assert!(matches!(&pattern, KeyPattern::One(one) if *one == key));
        }

        #[test]
        fn whatever_matches_starts_with_the_prefix(pattern in "[a-c*?/]{0,8}", key in "[a-c/]{0,8}") {
            let pattern = KeyPattern::parse(&pattern).unwrap();
            prop_assert!(!pattern.matches(&key) || key.starts_with(pattern.prefix()));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = KeyPattern::parse(&text);
        }
    }
}
