//! The text a user writes for "these objects", taken apart.

use super::error::SourceError;
use super::pattern::KeyPattern;
use super::secret::Secret;
use std::fmt;
use std::sync::Arc;

/// The protocol behind a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// A mounted file system.
    File,
    /// Amazon S3 and whatever speaks its protocol.
    S3,
    /// Volcengine TOS, through its S3 protocol hosts.
    Tos,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage; the first part of the URL is the container.
    Az,
    /// A web server, plain.
    Http,
    /// A web server, TLS.
    Https,
}

impl Scheme {
    /// The scheme as written before `://`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::S3 => "s3",
            Self::Tos => "tos",
            Self::Gs => "gs",
            Self::Az => "az",
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn of(text: &str) -> Option<Self> {
        [Self::File, Self::S3, Self::Tos, Self::Gs, Self::Az, Self::Http, Self::Https]
            .into_iter()
            .find(|scheme| scheme.as_str().eq_ignore_ascii_case(text))
    }

    /// Whether the protocol is S3's.
    pub fn is_s3(self) -> bool {
        matches!(self, Self::S3 | Self::Tos)
    }

    /// Whether objects are single web resources that cannot be listed.
    pub fn is_web(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// Where objects come from: one bucket (container, web host, the file system) with one set of options.
///
/// Stores are opened and pooled per origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub(crate) scheme: Scheme,
    /// Bucket or container; `host[:port]` of a web server; empty for files.
    pub(crate) host: String,
    /// The query of a web URL, which may carry a signature.
    pub(crate) query: Option<Secret>,
    /// The longest URL prefix whose settings apply; empty for the defaults alone.
    pub(crate) section: String,
}

/// A shared [`Origin`]; every [`super::Object`] carries one.
pub type OriginId = Arc<Origin>;

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)
    }
}

impl Origin {
    /// The full printable URL of a key.
    pub(crate) fn url_of(&self, key: &str) -> String {
        format!("{}://{}/{key}", self.scheme.as_str(), self.host)
    }
}

/// A parsed URL or path: origin and key pattern.
///
/// For `s3`, `tos`, `gs`, `az` and files everything after the bucket is the key, literally: no percent-decoding, and
/// `#`, spaces and `%` are ordinary characters. `*`, `?`, `[` and `{` make it a pattern unless `\` stands before them.
/// Web URLs are percent-decoded and never patterns.
#[derive(Debug, Clone)]
pub struct SourceUrl {
    scheme: Scheme,
    host: String,
    query: Option<Secret>,
    pattern: KeyPattern,
    text: String,
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl SourceUrl {
    /// Parses a URL, or a path of the file system; a relative path counts from the working directory.
    ///
    /// # Errors
    /// [`SourceError::Url`] with what is wrong and what to write instead.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let bad = |why: String| SourceError::Url { url: printable(text).to_owned(), why };
        let (scheme, rest) = split_scheme(text).map_err(bad)?;
        match scheme {
            Scheme::File => Self::parse_file(rest, text.contains("://")).map_err(bad),
            Scheme::Http | Scheme::Https => Self::parse_web(scheme, text).map_err(bad),
            _ => Self::parse_bucket(scheme, rest).map_err(bad),
        }
    }

    fn parse_bucket(scheme: Scheme, rest: &str) -> Result<Self, String> {
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(format!("the bucket is missing; write {}://bucket/key", scheme.as_str()));
        }
        if let Some(c) = bucket.chars().find(|c| !(c.is_ascii_alphanumeric() || ".-_".contains(*c))) {
            return Err(format!("'{c}' cannot be part of a bucket name; patterns go into the key only"));
        }
        let pattern = KeyPattern::parse(key)?;
        check_key(&pattern)?;
        let text = format!("{}://{bucket}/{key}", scheme.as_str());
        Ok(Self { scheme, host: bucket.to_owned(), query: None, pattern, text })
    }

    fn parse_file(rest: &str, is_url: bool) -> Result<Self, String> {
        let path = match rest.strip_prefix("localhost/") {
            Some(path) if is_url => format!("/{path}"),
            _ if is_url && !rest.starts_with('/') => {
                return Err("a file URL needs an absolute path; write file:///dir/name".to_owned());
            }
            _ if rest.is_empty() => return Err("the path is empty".to_owned()),
            _ if rest.starts_with('/') => rest.to_owned(),
            _ => {
                let here =
                    std::env::current_dir().map_err(|error| format!("no working directory: {error}"))?;
                let here = here.to_str().ok_or("the working directory is not valid UTF-8")?;
                format!("{}/{rest}", super::pattern::escape(here))
            }
        };
        let key = normal_path(&path);
        let pattern = KeyPattern::parse(&key)?;
        check_key(&pattern)?;
        Ok(Self {
            scheme: Scheme::File,
            host: String::new(),
            query: None,
            pattern,
            text: format!("file:///{key}"),
        })
    }

    fn parse_web(scheme: Scheme, text: &str) -> Result<Self, String> {
        let bare = text.split(['?', '#']).next().unwrap_or(text);
        if bare.splitn(4, '/').nth(3).is_some_and(|path| path.contains(['*', '[', '{'])) {
            return Err(
                "web servers cannot be listed, so patterns need s3://, tos://, gs://, az:// or file://; \
                        name each object (a literal * is written %2A)"
                    .to_owned(),
            );
        }
        let url = url::Url::parse(text).map_err(|error| error.to_string())?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("user and password in a URL are not supported".to_owned());
        }
        let host = url.host_str().ok_or("the host is missing")?;
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let key = object_store::path::Path::from_url_path(url.path()).map_err(|error| error.to_string())?;
        if url.path().ends_with('/') {
            return Err("web servers cannot be listed; name one object".to_owned());
        }
        let query = url.query().filter(|query| !query.is_empty()).map(Secret::new);
        let text = format!("{}://{host}{}", scheme.as_str(), url.path());
        Ok(Self { scheme, host, query, pattern: KeyPattern::exactly(key.as_ref()), text })
    }

    /// The protocol.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Bucket, container or `host[:port]`; empty for files.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Which keys are meant.
    pub fn pattern(&self) -> &KeyPattern {
        &self.pattern
    }

    /// The origin with the settings section `section`.
    pub(crate) fn origin(&self, section: String) -> Origin {
        Origin { scheme: self.scheme, host: self.host.clone(), query: self.query.clone(), section }
    }

    /// The literal beginning of all URLs that are meant: what settings are selected by.
    pub fn literal_prefix(&self) -> String {
        format!("{}://{}/{}", self.scheme.as_str(), self.host, self.pattern.prefix())
    }
}

/// A URL without the query, which may hold a signature.
fn printable(text: &str) -> &str {
    let web = text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("http"));
    if !web {
        return text;
    }
    let text = text.split('?').next().unwrap_or(text);
    if text.contains('@') { "the URL" } else { text }
}

fn split_scheme(text: &str) -> Result<(Scheme, &str), String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok((Scheme::File, text));
    };
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        return Ok((Scheme::File, text));
    }
    if let Some(known) = Scheme::of(scheme) {
        return Ok((known, rest));
    }
    let instead = match scheme.to_ascii_lowercase().as_str() {
        "s3a" | "s3n" => "s3://",
        "gcs" => "gs://",
        "abfs" | "abfss" | "wasb" | "wasbs" | "azure" => "az://CONTAINER/",
        _ => "file://, s3://, tos://, gs://, az://, http:// or https://",
    };
    Err(format!("the scheme {scheme}:// is not known; write {instead}"))
}

/// Removes empty and `.` segments and resolves `..` by text, as a shell's `cd -L` does; the leading `/` goes too.
fn normal_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut key = parts.join("/");
    if !key.is_empty() && (path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..")) {
        key.push('/');
    }
    key
}

/// A key the store layer would silently change must be refused, not read as another key.
fn check_key(pattern: &KeyPattern) -> Result<(), String> {
    let key = pattern.prefix();
    let body = key.strip_suffix('/').unwrap_or(key);
    if body.is_empty() && key.is_empty() {
        return Ok(());
    }
    // The last part of a glob's prefix is not a whole segment: ".*" is a fair pattern.
    let whole = match pattern {
        KeyPattern::Glob { .. } => key.rsplit_once('/').map_or("", |(dirs, _)| dirs),
        _ => body,
    };
    if !whole.is_empty() || key.starts_with('/') {
        for part in whole.split('/') {
            if part.is_empty() || part == "." || part == ".." {
                return Err(format!("keys with an empty, \".\" or \"..\" part cannot be addressed: {key:?}"));
            }
        }
    }
    match key.chars().find(char::is_ascii_control) {
        Some(c) => Err(format!("keys with control characters cannot be addressed: {c:?} in {key:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn table() {
        for (text, scheme, host, prefix, matching) in [
            ("s3://b/p/x.tfrecord", Scheme::S3, "b", "p/x.tfrecord", "p/x.tfrecord"),
            ("S3://b/p/*.rec", Scheme::S3, "b", "p/", "p/a.rec"),
            ("tos://my-bucket/a b%20#c", Scheme::Tos, "my-bucket", "a b%20#c", "a b%20#c"),
            (r"s3://b/a\?b", Scheme::S3, "b", "a?b", "a?b"),
            ("s3://b", Scheme::S3, "b", "", "any/thing"),
            ("s3://b/", Scheme::S3, "b", "", "any"),
            ("s3://b/日本/", Scheme::S3, "b", "日本/", "日本/x"),
            ("gs://b/{a,b}", Scheme::Gs, "b", "", "a"),
            ("az://c/k", Scheme::Az, "c", "k", "k"),
            ("file:///data/x y.rec", Scheme::File, "", "data/x y.rec", "data/x y.rec"),
            ("file://localhost/data/x", Scheme::File, "", "data/x", "data/x"),
            ("/data//./a/../b/*", Scheme::File, "", "data/b/", "data/b/c"),
            ("/data/dir/", Scheme::File, "", "data/dir/", "data/dir/a/b"),
            ("https://h.example:8443/a%20b.rec", Scheme::Https, "h.example:8443", "a b.rec", "a b.rec"),
            ("http://[::1]:80/x", Scheme::Http, "[::1]", "x", "x"),
        ] {
            let url = SourceUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((url.scheme(), url.host()), (scheme, host), "{text}");
            assert_eq!(url.pattern().prefix(), prefix, "{text}");
            assert!(url.pattern().matches(matching), "{text}");
        }
    }

    #[test]
    fn a_relative_path_counts_from_the_working_directory() {
        let here = std::env::current_dir().unwrap();
        let url = SourceUrl::parse("./rel/*.x").unwrap();
        assert_eq!(url.to_string(), format!("file://{}/rel/*.x", here.display()));
    }

    #[test]
    fn mistakes_say_what_to_do() {
        for (text, word) in [
            ("s3:///key", "bucket is missing"),
            ("s3://buck*t/key", "patterns go into the key"),
            ("s3a://b/k", "write s3://"),
            ("ftp://b/k", "file://"),
            ("s3://b//k", "cannot be addressed"),
            ("s3://b/a//k", "cannot be addressed"),
            ("s3://b/a/../k", "cannot be addressed"),
            ("s3://b/a\nk", "control"),
            ("s3://b/a[", "unclosed"),
            ("file://rel/x", "absolute"),
            ("", "empty"),
            ("http://h/*.rec", "cannot be listed"),
            ("http://h/dir/", "cannot be listed"),
            ("http://u:pw@h/x", "not supported"),
        ] {
            let error = SourceUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
            assert!(!error.contains("pw"), "{error}");
        }
    }

    #[test]
    fn a_signature_in_a_web_url_is_never_shown() {
        let url = SourceUrl::parse("https://h/x.rec?X-Amz-Signature=abcdef").unwrap();
        assert_eq!(url.to_string(), "https://h/x.rec");
        assert!(!format!("{url:?} {:?}", url.origin(String::new())).contains("abcdef"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(s3|tos|http|file|gs|az|x)?(://)?\\PC{0,30}") {
            let _ = SourceUrl::parse(&text);
        }

        #[test]
        fn a_key_is_taken_literally(key in "[a-zA-Z0-9 %#é日@+=&;:,'~-]{1,30}") {
            let url = SourceUrl::parse(&format!("s3://b/{key}")).unwrap();
            prop_assert!(matches!(url.pattern(), KeyPattern::One(one) if *one == key));
            prop_assert_eq!(url.to_string(), format!("s3://b/{key}"));
        }
    }
}
