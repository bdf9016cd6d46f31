//! The `aws-chunked` payload form: `SIZE[;chunk-signature=...]`, data, and so on, then optional trailers.
//!
//! The chunks' own signatures and the trailing checksum are not checked; the signature over the headers is.

use super::S3Error;
use bytes::Bytes;

/// The payload without its framing.
pub(crate) fn decode(body: &[u8]) -> Result<Bytes, S3Error> {
    let broken = || S3Error::new(400, "IncompleteBody", "The chunked payload is malformed or cut.");
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    loop {
        let line_end = rest.windows(2).position(|pair| pair == b"\r\n").ok_or_else(broken)?;
        let line = std::str::from_utf8(&rest[..line_end]).map_err(|_| broken())?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or(""), 16).map_err(|_| broken())?;
        rest = &rest[line_end + 2..];
        if size == 0 {
            return Ok(out.into());
        }
        let (data, after) = rest.split_at_checked(size).ok_or_else(broken)?;
        out.extend_from_slice(data);
        rest = after.strip_prefix(b"\r\n").ok_or_else(broken)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_chunks_apart() {
        let body = b"5;chunk-signature=ab\r\nhello\r\n1\r\n!\r\n0\r\nx-amz-checksum-crc32c:AAAA\r\n\r\n";
        assert_eq!(decode(body).unwrap(), "hello!");
        let trailers = b"x-amz-checksum-crc32c:AAAA\r\n\r\n".len();
        for cut in 0..body.len() - trailers {
            assert!(decode(&body[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(b"ffffffffffffffff\r\nx").is_err());
    }
}
