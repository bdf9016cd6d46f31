//! The little of `tf.train.Example` that is needed: an encoder that writes a record in one pass, and a reader of single
//! features.
//!
//! `Example { features = 1: Features { feature = 1: map<string, Feature> } }`, a `Feature` being one of
//! `bytes_list = 1`, `float_list = 2` (packed) and `int64_list = 3` (packed). Lengths are computed before anything is
//! written, so each payload is copied once, to its place.

/// One feature with one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A 64-bit integer.
    Int(i64),
    /// A 32-bit float.
    Float(f32),
    /// A byte string.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    const fn list_field(&self) -> u8 {
        match self {
            Self::Bytes(_) => 1,
            Self::Float(_) => 2,
            Self::Int(_) => 3,
        }
    }

    /// Length of what stands in the list's field 1: a byte string, or packed numbers. All are length-delimited.
    const fn inner_len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Float(_) => 4,
            Self::Int(value) => varint_len(value.cast_unsigned()),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let list_len = field_len(self.inner_len());
        put_header(out, self.list_field(), list_len);
        put_header(out, 1, self.inner_len());
        match self {
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
            Self::Int(value) => put_varint(out, value.cast_unsigned()),
        }
    }

    const fn feature_len(&self) -> usize {
        field_len(field_len(self.inner_len()))
    }
}

/// Appends the Example with these features, in this order.
pub fn append(out: &mut Vec<u8>, features: &[(&str, Value<'_>)]) {
    let entry_len =
        |(name, value): &(&str, Value<'_>)| field_len(name.len()) + field_len(value.feature_len());
    let features_len: usize = features.iter().map(|feature| field_len(entry_len(feature))).sum();
    out.reserve(field_len(features_len));
    put_header(out, 1, features_len);
    for feature in features {
        let (name, value) = feature;
        put_header(out, 1, entry_len(feature));
        put_header(out, 1, name.len());
        out.extend_from_slice(name.as_bytes());
        put_header(out, 2, value.feature_len());
        value.put(out);
    }
}

/// The value of the feature `name`, the first one where it holds several; `None` where the bytes are not an Example, or
/// have no such feature, or hold no value in it.
pub fn find<'a>(example: &'a [u8], name: &str) -> Option<Value<'a>> {
    let features = find_field(example, 1)?;
    let mut rest = features;
    while !rest.is_empty() {
        let (number, entry) = take_field(&mut rest)?;
        if number == 1 && find_field(entry, 1)? == name.as_bytes() {
            let feature = find_field(entry, 2)?;
            let mut feature = feature;
            let (kind, list) = take_field(&mut feature)?;
            let mut values = find_field(list, 1)?;
            return match kind {
                1 => Some(Value::Bytes(values)),
                2 => Some(Value::Float(f32::from_le_bytes(*values.first_chunk()?))),
                3 => Some(Value::Int(take_varint(&mut values)?.cast_signed())),
                _ => None,
            };
        }
    }
    None
}

const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Length of a length-delimited field of a number below 16.
const fn field_len(content: usize) -> usize {
    1 + varint_len(content as u64) + content
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn put_header(out: &mut Vec<u8>, field: u8, len: usize) {
    out.push(field << 3 | 2);
    put_varint(out, len as u64);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Takes one length-delimited field; any other wire type is not part of an Example as written here.
fn take_field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let tag = take_varint(bytes)?;
    if tag & 7 != 2 {
        return None;
    }
    let len = usize::try_from(take_varint(bytes)?).ok()?;
    let (content, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some((tag >> 3, content))
}

fn find_field(mut bytes: &[u8], number: u64) -> Option<&[u8]> {
    while !bytes.is_empty() {
        let (found, content) = take_field(&mut bytes)?;
        if found == number {
            return Some(content);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_feature_has_the_bytes_of_the_wire_format() {
        let mut out = Vec::new();
        append(&mut out, &[("id", Value::Int(300))]);
        // Example.features { map entry { key "id", value { int64_list { packed 300 } } } }
        let expected = [10, 14, 10, 12, 10, 2, b'i', b'd', 18, 6, 26, 4, 10, 2, 0xac, 2];
        assert_eq!(out, expected);
    }

    #[test]
    fn every_kind_is_found_again() {
        let payload = vec![7; 70_000];
        let features = [
            ("payload", Value::Bytes(&payload)),
            ("negative", Value::Int(-1)),
            ("zero", Value::Int(0)),
            ("half", Value::Float(0.5)),
            ("empty", Value::Bytes(&[])),
        ];
        let mut out = Vec::new();
        append(&mut out, &features);
        for (name, value) in features {
            assert_eq!(find(&out, name), Some(value), "{name}");
        }
        assert_eq!(find(&out, "other"), None);
    }

    #[test]
    fn cut_or_foreign_bytes_are_not_an_example() {
        let mut out = Vec::new();
        append(&mut out, &[("id", Value::Int(5)), ("payload", Value::Bytes(b"abc"))]);
        for len in 0..out.len() {
            assert_eq!(find(&out[..len], "payload"), None, "cut at {len}");
        }
        assert_eq!(find(&[0xff; 40], "id"), None);
    }
}
