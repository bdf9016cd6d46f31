//! From the store layer's errors to [`SourceError`].

use super::error::SourceError;
use super::http::Note;
use object_store::Error as StoreError;
use std::error::Error;

/// Where in an object a request was, for the error text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) url: &'a str,
    /// ETag the object had when it was listed.
    pub(crate) etag: Option<&'a str>,
    /// First byte still missing.
    pub(crate) at: u64,
    /// End of the range, exclusive.
    pub(crate) end: u64,
}

impl<'a> Place<'a> {
    /// A request about a whole object or a listing.
    pub(crate) fn whole(url: &'a str) -> Self {
        Self { url, etag: None, at: 0, end: 0 }
    }

    /// A body that broke.
    pub(crate) fn cut(&self, source: Option<StoreError>) -> SourceError {
        SourceError::Cut {
            url: self.url.to_owned(),
            offset: self.at,
            end: self.end,
            source: source.map(Into::into),
        }
    }

    /// A request that failed before its body.
    pub(crate) fn refused(&self, error: StoreError, note: &Note) -> SourceError {
        let url = self.url.to_owned();
        let text = chain(&error);
        let code = between(&text, "<Code>", "</Code>").unwrap_or_default();
        if let StoreError::InvalidPath { source } = &error {
            return SourceError::Unsupported { url, why: format!("a key cannot be addressed: {source}") };
        }
        match note.status().or_else(|| status_of(&error)) {
            Some(404 | 410) => SourceError::NotFound { url, hint: hint(code).to_owned() },
            Some(status @ (401 | 403)) => SourceError::Denied { url, hint: denied(status, code) },
            Some(status @ 400) if !hint(code).is_empty() => {
                SourceError::Denied { url, hint: denied(status, code) }
            }
            Some(412 | 416) => SourceError::Changed {
                url,
                expected: self.etag.unwrap_or("the listed size").to_owned(),
                found: "another version".to_owned(),
            },
            Some(status @ (429 | 503)) => {
                SourceError::Throttled { url, status, attempts: 1, retry_after: note.retry_after() }
            }
            // A success that the store layer cannot use: an error in its body, or a header missing.
            Some(status @ (200..=299 | 408 | 500 | 502 | 504)) => {
                SourceError::Server { url, status, attempts: 1, source: error.into() }
            }
            Some(status) if (300..400).contains(&status) => {
                let why = format!("the store redirects (status {status}); check region and endpoint");
                SourceError::Unsupported { url, why }
            }
            _ if text.contains("invalid peer certificate") => SourceError::Unsupported {
                url,
                why: "the TLS certificate is not trusted; name its authority in ca_bundle".to_owned(),
            },
            None if is_transport(&error) => SourceError::Unreachable { url, source: error.into() },
            _ => SourceError::Other { url, source: error.into() },
        }
    }
}

/// The status an error stands for when no HTTP answer was noted: files, and stores in memory.
fn status_of(error: &StoreError) -> Option<u16> {
    match error {
        StoreError::NotFound { .. } => Some(404),
        StoreError::PermissionDenied { .. } => Some(403),
        StoreError::Unauthenticated { .. } => Some(401),
        StoreError::Precondition { .. } => Some(412),
        _ => match causes(error).find_map(|cause| cause.downcast_ref::<std::io::Error>())?.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Some(404),
            std::io::ErrorKind::PermissionDenied => Some(403),
            _ => None,
        },
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

fn is_transport(error: &StoreError) -> bool {
    causes(error).any(|cause| cause.is::<object_store::client::HttpError>())
}

fn chain(error: &StoreError) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let rest = &text[text.find(start)? + start.len()..];
    rest.find(end).map(|length| &rest[..length])
}

fn denied(status: u16, code: &str) -> String {
    let known = hint(code);
    let shown = if code.is_empty() { format!("status {status}") } else { format!("status {status}, {code}") };
    if known.is_empty() {
        format!("the keys may not read it ({shown})")
    } else {
        format!("{known} ({shown})")
    }
}

/// What to do about an error code of S3 or TOS; empty for codes that explain themselves.
fn hint(code: &str) -> &'static str {
    match code {
        "InvalidPathAccess" | "SecondLevelDomainForbidden" => {
            "the store wants the bucket in the host name; set addressing = \"virtual\""
        }
        "NoSuchBucket" => {
            "the bucket is unknown at this endpoint; check bucket, region, endpoint and addressing"
        }
        "SignatureDoesNotMatch" => "the signature is wrong; check secret_key, and region if it is right",
        "InvalidAccessKeyId" => "the access key is unknown; check access_key and endpoint",
        "ExpiredToken" | "TokenRefreshRequired" => "the temporary keys have expired; provide new ones",
        "InvalidToken" | "InvalidSecurityToken" => "the session token does not belong to the access key",
        "RequestTimeTooSkewed" => "the clock of this machine is wrong",
        "AuthorizationHeaderMalformed" | "InvalidRegion" | "IllegalLocationConstraintException" => {
            "the signature is for another region; check region"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> StoreError {
        StoreError::Generic { store: "test", source: text.to_owned().into() }
    }

    #[test]
    fn codes_become_hints() {
        let place = Place::whole("s3://b/k");
        let denied = StoreError::PermissionDenied {
            path: "k".to_owned(),
            source: "x <Error><Code>InvalidPathAccess</Code></Error>".into(),
        };
        let error = place.refused(denied, &Note::default());
        assert!(matches!(error, SourceError::Denied { .. }), "{error}");
        assert!(error.to_string().contains("addressing = \"virtual\""), "{error}");
        let missing =
            StoreError::NotFound { path: "k".to_owned(), source: "<Code>NoSuchBucket</Code>".into() };
        let error = place.refused(missing, &Note::default());
        assert!(error.to_string().contains("check bucket, region, endpoint and addressing"), "{error}");
        assert!(!error.is_transient());
    }

    #[test]
    fn unknown_errors_are_permanent_and_keep_their_cause() {
        let error = Place::whole("s3://b/k").refused(generic("strange"), &Note::default());
        assert!(!error.is_transient());
        assert!(error.source().unwrap().to_string().contains("strange"));
        assert!(!error.to_string().contains("strange"), "the chain prints the cause, once");
    }
}
