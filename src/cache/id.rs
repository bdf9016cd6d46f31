//! What names a shard: the object's identity and the short id made from it.

use std::fmt;

use sha2::{Digest, Sha256};

/// The identity of an object's content: two equal identities are taken for equal bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectIdentity {
    /// Full, printable URL of the object.
    pub url: String,
    /// ETag as the store gave it, if it did.
    pub etag: Option<String>,
    /// Version id as the store gave it, if it did. Names the content only where there is no ETag.
    pub version: Option<String>,
    /// Size of the object in the store, in bytes (before decompression).
    pub size: u64,
}

impl ObjectIdentity {
    /// The id of this content: from URL, ETag (else version, else nothing) and size.
    pub fn id(&self) -> ShardId {
        ShardId::of(&self.url, self.etag.as_deref().or(self.version.as_deref()), self.size)
    }
}

/// Sixteen bytes that name a shard's content, shown as 32 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub [u8; 16]);

impl ShardId {
    /// First 16 bytes of SHA-256 over `url`, a zero byte, `tag` (ETag or version; nothing if `None`), a zero byte
    /// and `size` as 8 little-endian bytes.
    pub fn of(url: &str, tag: Option<&str>, size: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update(url.as_bytes());
        hash.update([0]);
        hash.update(tag.unwrap_or_default().as_bytes());
        hash.update([0]);
        hash.update(size.to_le_bytes());
        let digest = hash.finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Self(id)
    }

    /// Reads exactly 32 lower-case hex digits; anything else is `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return None;
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Self(id))
    }

    /// Name of the folder an entry lies in: the first two digits.
    pub(super) fn folder(&self) -> String {
        format!("{:02x}", self.0[0])
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_reads_back_and_nothing_else_does() {
        let id = ShardId::of("s3://b/k", Some("\"e\""), 7);
        assert_eq!(ShardId::parse(&id.to_string()), Some(id));
        for bad in
            ["", "00", &id.to_string().replace(|c: char| c.is_ascii_digit(), "A"), &format!("{id}0"), "é"]
        {
            assert_eq!(ShardId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_part_of_the_identity_counts() {
        let base = ObjectIdentity {
            url: "s3://b/k".into(),
            etag: Some("e".into()),
            version: Some("v".into()),
            size: 7,
        };
        let id = base.id();
        assert_ne!(id, ObjectIdentity { url: "s3://b/l".into(), ..base.clone() }.id());
        assert_ne!(id, ObjectIdentity { etag: Some("f".into()), ..base.clone() }.id());
        assert_ne!(id, ObjectIdentity { size: 8, ..base.clone() }.id());
        assert_eq!(
            id,
            ObjectIdentity { version: None, ..base.clone() }.id(),
            "the ETag wins over the version"
        );
        assert_ne!(id, ObjectIdentity { etag: None, ..base }.id());
    }

    #[test]
    fn ids_never_change_between_releases() {
        // A changed derivation would silently lose every cache in the field: it needs a new marker version.
        assert_eq!(ShardId::of("s3://b/k", Some("e"), 7).to_string(), "dc7316329604b6b81310c67e9b0b4d0f");
    }
}
