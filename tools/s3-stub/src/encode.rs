//! Percent-encoding, hex and XML escapes as S3 does them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// What SigV4 leaves as it is: letters, digits and `-._~`.
const STRICT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PATH: AsciiSet = STRICT.remove(b'/');

/// Encodes a query name or value.
pub(crate) fn query(text: &str) -> String {
    utf8_percent_encode(text, &STRICT).to_string()
}

/// Encodes a path or key; slashes stay.
pub(crate) fn path(text: &str) -> String {
    utf8_percent_encode(text, &PATH).to_string()
}

/// Decodes a path. `None` if the bytes are not UTF-8: S3 keys are.
pub(crate) fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

/// Splits and decodes a query string. A plus is a space, as HTML forms send it.
pub(crate) fn query_pairs(raw: &str) -> Option<Vec<(String, String)>> {
    raw.split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Some((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
        })
        .collect()
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// Lower-case hex back to bytes.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: &u8| char::from(*b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks(2).map(|pair| Some(digit(&pair[0])? << 4 | digit(&pair[1])?)).collect()
}

/// SHA-256 in hex.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// An ETag (with its quotes) for some bytes: it looks like S3's MD5 but is a cut SHA-256.
pub(crate) fn etag_of(bytes: &[u8]) -> String {
    format!("\"{}\"", &sha256_hex(bytes)[..32])
}

/// Escapes text for XML. Control characters become references, as S3 writes them without `encoding-type`.
pub(crate) fn xml(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => {
                let _ = write!(out, "&#x{:x};", u32::from(c));
            }
            c => out.push(c),
        }
        out
    })
}

/// The text of every `<tag>` in a request body, in order. Enough for the flat documents that S3 clients send.
pub(crate) fn xml_values(document: &str, tag: &str) -> Vec<String> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    document
        .split(&open)
        .skip(1)
        .filter_map(|rest| rest.split_once(&close))
        .map(|(value, _)| unescape(value))
        .collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let (entity, tail) = after.split_once(';').unwrap_or((after, ""));
        match entity {
            "amp" => out.push('&'),
            "lt" => out.push('<'),
            "gt" => out.push('>'),
            "quot" => out.push('"'),
            "apos" => out.push('\''),
            other => out.extend(numeric(other)),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

fn numeric(entity: &str) -> Option<char> {
    let digits = entity.strip_prefix('#')?;
    let code = match digits.strip_prefix('x') {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_survives_a_round_trip() {
        let key = "a&b <c> \"d\" 'e' \u{1}\u{e9}";
        assert_eq!(xml_values(&format!("<x><Key>{}</Key></x>", xml(key)), "Key"), [key]);
    }

    #[test]
    fn hex_and_queries() {
        assert_eq!(unhex(&hex(b"\x00\xff~")).unwrap(), b"\x00\xff~");
        assert_eq!(unhex("0g"), None);
        let pairs = query_pairs("list-type=2&prefix=a%2Fb+c&flag").unwrap();
        assert_eq!(pairs[1], ("prefix".to_owned(), "a/b c".to_owned()));
        assert_eq!(pairs[2], ("flag".to_owned(), String::new()));
        assert_eq!(path("a b/~c+"), "a%20b/~c%2B");
    }
}
