//! From a request to bucket, key and operation: both addressing styles.

use super::error::S3Error;
use crate::encode;
use hyper::Method;
use hyper::http::request::Parts;
use std::fmt;

/// What a request asks for. The selectors of fault rules use these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reads an object or a range of it.
    Get,
    /// Asks for an object's headers.
    Head,
    /// Lists a bucket.
    List,
    /// Writes a whole object.
    Put,
    /// Writes one part of a multipart upload.
    Part,
    /// Starts a multipart upload.
    Initiate,
    /// Completes a multipart upload.
    Complete,
    /// Gives up a multipart upload.
    Abort,
    /// Removes an object.
    Delete,
    /// Removes many objects by one POST.
    DeleteMany,
    /// Creates or asks about a bucket.
    Bucket,
}

impl Operation {
    const NAMES: [(&str, Self); 11] = [
        ("get", Self::Get),
        ("head", Self::Head),
        ("list", Self::List),
        ("put", Self::Put),
        ("part", Self::Part),
        ("initiate", Self::Initiate),
        ("complete", Self::Complete),
        ("abort", Self::Abort),
        ("delete", Self::Delete),
        ("delete_many", Self::DeleteMany),
        ("bucket", Self::Bucket),
    ];

    /// Reads a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, op)| *op)
    }

    /// Whether a rule for `self` covers a request of kind `other`: a part counts as a put.
    pub(crate) fn covers(self, other: Self) -> bool {
        self == other || (self == Self::Put && other == Self::Part)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, op)| op == self).map_or("", |(name, _)| name))
    }
}

/// A request's target.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) bucket: String,
    /// Empty when the request is about the bucket.
    pub(crate) key: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) operation: Operation,
    pub(crate) virtual_hosted: bool,
}

impl Address {
    /// Reads a request line and its `Host`. `domain` is the suffix of virtual-hosted names, without a port.
    pub(crate) fn of(parts: &Parts, domain: &str) -> Result<Self, S3Error> {
        let bad = || S3Error::new(400, "InvalidURI", "Couldn't parse the specified URI.");
        let path = encode::decode(parts.uri.path()).ok_or_else(bad)?;
        let query = encode::query_pairs(parts.uri.query().unwrap_or("")).ok_or_else(bad)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key, virtual_hosted) = match virtual_bucket(parts, domain) {
            Some(bucket) => (bucket, path.to_owned(), true),
            None => {
                let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
                (bucket.to_owned(), key.to_owned(), false)
            }
        };
        if bucket.is_empty() {
            return Err(S3Error::unsupported("Listing all buckets is not implemented here."));
        }
        let mut address = Self { bucket, key, query, operation: Operation::Bucket, virtual_hosted };
        address.operation = address.classify(&parts.method)?;
        Ok(address)
    }

    /// The value of a query parameter.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    fn classify(&self, method: &Method) -> Result<Operation, S3Error> {
        let upload = self.param("uploadId").is_some();
        Ok(match (method.as_str(), self.key.is_empty()) {
            ("GET", true) if self.param("location").is_some() => Operation::Bucket,
            ("GET", true) => Operation::List,
            ("HEAD" | "PUT", true) => Operation::Bucket,
            ("POST", true) if self.param("delete").is_some() => Operation::DeleteMany,
            ("GET", false) if !upload => Operation::Get,
            ("HEAD", false) => Operation::Head,
            ("PUT", false) if upload => Operation::Part,
            ("PUT", false) => Operation::Put,
            ("POST", false) if upload => Operation::Complete,
            ("POST", false) if self.param("uploads").is_some() => Operation::Initiate,
            ("DELETE", false) if upload => Operation::Abort,
            ("DELETE", false) => Operation::Delete,
            _ => {
                let text = format!("{method} with this query is not implemented here.");
                return Err(S3Error::unsupported(text));
            }
        })
    }
}

fn virtual_bucket(parts: &Parts, domain: &str) -> Option<String> {
    let host = parts.headers.get("host").and_then(|h| h.to_str().ok()).or(parts.uri.host())?;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bucket = name.strip_suffix(domain)?.strip_suffix('.')?;
    (!bucket.is_empty()).then(|| bucket.to_owned())
}
