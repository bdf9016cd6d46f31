//! GET and HEAD of objects: ranges and conditions.

use super::{Address, Operation, Reply, S3Error};
use crate::clock;
use crate::fault::Effects;
use crate::server::Shared;
use hyper::http::request::Parts;
use std::ops::Range;

pub(crate) fn get(
    shared: &Shared,
    address: &Address,
    parts: &Parts,
    effects: &Effects,
) -> Result<Reply, S3Error> {
    let object = shared
        .objects
        .get(&address.bucket, &address.key)
        .ok_or_else(|| S3Error::no_such_key(&address.key))?;
    let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
    let len = object.content.len();
    if !effects.ignore_conditions {
        if header("if-match").is_some_and(|wanted| !etag_in(&object.etag, wanted)) {
            return Err(S3Error::precondition("If-Match"));
        }
        if header("if-none-match").is_some_and(|known| etag_in(&object.etag, known)) {
            let mut reply = Reply::empty(304);
            reply.headers.push(("etag", object.etag.clone()));
            return Ok(reply);
        }
    }
    let mut reply = Reply::empty(200);
    reply.headers = vec![
        ("etag", object.etag.clone()),
        ("last-modified", clock::http_date(object.modified)),
        ("accept-ranges", "bytes".to_owned()),
        ("content-type", "binary/octet-stream".to_owned()),
    ];
    if let Some(encoding) = &object.encoding {
        reply.headers.push(("content-encoding", encoding.clone()));
    }
    reply.content = object.content.clone();
    reply.range = 0..len;
    let asked = header("range").filter(|_| address.operation == Operation::Get && !effects.ignore_range);
    match asked.map(|text| resolve(text, len)) {
        None | Some(Asked::Everything) => {}
        Some(Asked::Nothing) => {
            let error = S3Error::new(416, "InvalidRange", "The requested range is not satisfiable");
            return Err(error.header("content-range", format!("bytes */{len}")));
        }
        Some(Asked::Part(range)) => {
            reply.status = 206;
            let text = format!("bytes {}-{}/{len}", range.start, range.end - 1);
            reply.headers.push(("content-range", text));
            reply.range = range;
        }
    }
    Ok(reply)
}

/// Whether an ETag is in a condition's list; `*` is every ETag, quotes may be missing.
pub(crate) fn etag_in(etag: &str, list: &str) -> bool {
    let bare = etag.trim_matches('"');
    list.split(',').map(str::trim).any(|one| one == "*" || one.trim_matches('"') == bare)
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// No range that can be read; S3 then ignores the header.
    Everything,
    /// A range behind the end.
    Nothing,
    /// Cut at the object's end.
    Part(Range<u64>),
}

fn resolve(text: &str, len: u64) -> Asked {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|spec| spec.split_once('-')) else {
        return Asked::Everything;
    };
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(len),
        (Ok(first), Err(_)) if last.is_empty() => first..len,
        (Err(_), Ok(suffix)) if first.is_empty() => len.saturating_sub(suffix)..len,
        _ => return Asked::Everything,
    };
    if range.is_empty() { Asked::Nothing } else { Asked::Part(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (text, expected) in [
            ("bytes=0-9", Asked::Part(0..10)),
            ("bytes=90-200", Asked::Part(90..100)),
            ("bytes=90-", Asked::Part(90..100)),
            ("bytes=-7", Asked::Part(93..100)),
            ("bytes=-700", Asked::Part(0..100)),
            ("bytes=100-", Asked::Nothing),
            ("bytes=100-200", Asked::Nothing),
            ("bytes=-0", Asked::Nothing),
            ("bytes=9-0", Asked::Everything),
            ("bytes=0-1,5-6", Asked::Everything),
            ("lines=0-9", Asked::Everything),
            ("bytes=0-18446744073709551615", Asked::Part(0..100)),
        ] {
            assert_eq!(resolve(text, 100), expected, "{text}");
        }
        assert_eq!(resolve("bytes=0-0", 0), Asked::Nothing);
    }

    #[test]
    fn etags() {
        assert!(etag_in("\"ab\"", "\"ab\""));
        assert!(etag_in("\"ab\"", "ab"));
        assert!(etag_in("\"ab\"", "\"x\", \"ab\""));
        assert!(etag_in("\"ab\"", "*"));
        assert!(!etag_in("\"ab\"", "\"abc\""));
    }
}
