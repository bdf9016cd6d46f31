//! Listings, version 2 and version 1.

use super::{Address, Reply, S3Error};
use crate::clock;
use crate::encode;
use crate::server::Shared;
use std::ops::ControlFlow;

/// One page: objects and common prefixes in byte order, and where the next page starts.
#[derive(Debug, Default)]
struct Page {
    entries: Vec<Entry>,
    /// The last key or common prefix of this page, if there are more.
    next: Option<String>,
}

#[derive(Debug)]
enum Entry {
    Object { key: String, size: u64, etag: String, modified: i64 },
    Prefix(String),
}

impl Entry {
    fn name(&self) -> &str {
        match self {
            Self::Object { key, .. } | Self::Prefix(key) => key,
        }
    }
}

pub(crate) fn list(shared: &Shared, address: &Address, repeat_page: bool) -> Result<Reply, S3Error> {
    let v2 = address.param("list-type") == Some("2") && !shared.config.list_v1_only;
    let prefix = address.param("prefix").unwrap_or("");
    let delimiter = address.param("delimiter").filter(|d| !d.is_empty());
    let asked: usize = match address.param("max-keys") {
        Some(n) => n.parse().map_err(|_| S3Error::invalid("Provided max-keys not an integer."))?,
        None => 1_000,
    };
    let max = asked.min(shared.config.page_size);
    let token = address.param("continuation-token").filter(|_| v2);
    let from_token = match token {
        Some(token) => {
            let key = encode::unhex(token).and_then(|bytes| String::from_utf8(bytes).ok());
            Some(key.ok_or_else(|| S3Error::invalid("The continuation token provided is incorrect."))?)
        }
        None => None,
    };
    let start = address.param(if v2 { "start-after" } else { "marker" }).unwrap_or("");
    let start = from_token.as_deref().unwrap_or(start);
    let page = collect(shared, &address.bucket, prefix, delimiter, if repeat_page { "" } else { start }, max)
        .ok_or_else(|| S3Error::no_such_bucket(&address.bucket))?;

    let url = address.param("encoding-type") == Some("url");
    let text = |s: &str| if url { encode::path(s) } else { encode::xml(s) };
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>{}</Name><Prefix>{}</Prefix>\
         <MaxKeys>{asked}</MaxKeys><IsTruncated>{}</IsTruncated>",
        encode::xml(&address.bucket),
        text(prefix),
        page.next.is_some()
    );
    let mut element = |name: &str, value: &str| xml.push_str(&format!("<{name}>{value}</{name}>"));
    if let Some(delimiter) = delimiter {
        element("Delimiter", &text(delimiter));
    }
    if url {
        element("EncodingType", "url");
    }
    if v2 {
        element("KeyCount", &page.entries.len().to_string());
        if let Some(token) = token {
            element("ContinuationToken", token);
        }
        if let Some(next) = &page.next {
            element("NextContinuationToken", &encode::hex(next.as_bytes()));
        }
    } else {
        element("Marker", &text(start));
        if let Some(next) = &page.next {
            element("NextMarker", &text(next));
        }
    }
    for entry in &page.entries {
        xml.push_str(&match entry {
            Entry::Prefix(prefix) => {
                format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", text(prefix))
            }
            Entry::Object { key, size, etag, modified } => format!(
                "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{size}</Size>\
                 <StorageClass>STANDARD</StorageClass></Contents>",
                text(key),
                clock::iso_date(*modified),
                encode::xml(etag)
            ),
        });
    }
    xml.push_str("</ListBucketResult>");
    Ok(Reply::xml(200, xml))
}

/// The page of at most `max` entries behind `start`. `None` if there is no such bucket.
fn collect(
    shared: &Shared,
    bucket: &str,
    prefix: &str,
    delimiter: Option<&str>,
    start: &str,
    max: usize,
) -> Option<Page> {
    let mut page = Page::default();
    if max == 0 {
        return Some(page);
    }
    let found = shared.objects.visit(bucket, start, prefix, |key, object| {
        let Some(rest) = key.strip_prefix(prefix) else {
            return ControlFlow::Break(());
        };
        let common = delimiter.and_then(|d| rest.find(d).map(|at| &key[..prefix.len() + at + d.len()]));
        if let Some(common) = common {
            // Reported on this page or, when the page starts at the prefix itself, on the one before.
            let reported = page.entries.last().map_or(start, Entry::name);
            if reported == common {
                return ControlFlow::Continue(());
            }
        }
        if page.entries.len() == max {
            page.next = page.entries.last().map(|entry| entry.name().to_owned());
            return ControlFlow::Break(());
        }
        page.entries.push(match common {
            Some(common) => Entry::Prefix(common.to_owned()),
            None => Entry::Object {
                key: key.to_owned(),
                size: object.content.len(),
                etag: object.etag.clone(),
                modified: object.modified,
            },
        });
        ControlFlow::Continue(())
    });
    found.then_some(page)
}
