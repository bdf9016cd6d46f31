//! One object as it was when it was listed.

use super::error::SourceError;
use super::url::{OriginId, Scheme};
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta};

/// Marks a version that is made of the modification time, for stores that give no ETag.
const MODIFIED: &str = "modified:";

/// A listed object: its name, and what identifies its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Full printable URL, characters as they are in the key.
    pub url: String,
    /// The key inside its origin.
    pub path: Path,
    /// Bytes.
    pub size: u64,
    /// As the store wrote it, quotes included.
    pub etag: Option<String>,
    /// What tells versions apart where there is no ETag.
    pub version: Option<String>,
    /// Where it is.
    pub origin: OriginId,
}

impl Object {
    pub(crate) fn new(url: String, meta: ObjectMeta, origin: OriginId) -> Self {
        let etag = meta.e_tag.filter(|etag| !etag.is_empty()).map(|etag| match origin.scheme {
            // Azure lists ETags bare and wants them quoted in requests.
            Scheme::Az if !etag.contains('"') => format!("\"{etag}\""),
            _ => etag,
        });
        let version = match etag {
            Some(_) => None,
            None => Some(format!("{MODIFIED}{}", meta.last_modified.timestamp_millis())),
        };
        Self { url, path: meta.location, size: meta.size, etag, version, origin }
    }

    /// Options for a read of this content only. A weak ETag never satisfies `If-Match`; the reply is compared instead.
    pub(crate) fn conditional(&self) -> GetOptions {
        let strong = self.etag.clone().filter(|etag| !etag.starts_with("W/"));
        GetOptions::new().with_if_match(strong)
    }

    /// Compares a reply with what was listed; some servers ignore `If-Match`.
    pub(crate) fn same_content(&self, reply: &ObjectMeta) -> Result<(), SourceError> {
        let changed = |expected: String, found: String| {
            Err(SourceError::Changed { url: self.url.clone(), expected, found })
        };
        if let (Some(listed), Some(found)) = (&self.etag, &reply.e_tag)
            && bare(listed) != bare(found)
        {
            return changed(listed.clone(), found.clone());
        }
        if self.size != reply.size {
            return changed(format!("{} bytes", self.size), format!("{} bytes", reply.size));
        }
        let modified = self.version.as_deref().and_then(|version| version.strip_prefix(MODIFIED));
        let found = reply.last_modified.timestamp_millis().to_string();
        match modified {
            Some(listed) if listed != found => changed(format!("time {listed}"), format!("time {found}")),
            _ => Ok(()),
        }
    }
}

/// An ETag without weakness mark and quotes, in which listings and replies of one store may differ.
fn bare(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}
