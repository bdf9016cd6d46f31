//! Writes of whole objects, copies and deletes.

use super::get::etag_in;
use super::{Address, Reply, S3Error, chunked};
use crate::clock;
use crate::encode;
use crate::objects::{Content, Object};
use crate::server::Shared;
use bytes::Bytes;
use hyper::http::request::Parts;

/// Checks the declared hash of a request's payload and takes a chunked one apart.
pub(crate) fn check_payload(shared: &Shared, parts: &Parts, body: Bytes) -> Result<Bytes, S3Error> {
    let declared = parts.headers.get("x-amz-content-sha256").and_then(|v| v.to_str().ok());
    match declared {
        None | Some("UNSIGNED-PAYLOAD") => Ok(body),
        Some(kind) if kind.starts_with("STREAMING-") => {
            if shared.config.refuse_trailers && kind.ends_with("-TRAILER") {
                let text = "A header you provided implies functionality that is not implemented";
                return Err(S3Error::unsupported(text).detail("Header", "x-amz-content-sha256"));
            }
            chunked::decode(&body)
        }
        Some(hash) if shared.anonymous() || encode::sha256_hex(&body) == hash => Ok(body),
        Some(_) => {
            let text = "The provided 'x-amz-content-sha256' header does not match what was computed.";
            Err(S3Error::new(400, "XAmzContentSHA256Mismatch", text))
        }
    }
}

pub(crate) fn put(shared: &Shared, address: &Address, parts: &Parts, body: Bytes) -> Result<Reply, S3Error> {
    let (bucket, key) = (address.bucket.as_str(), address.key.as_str());
    let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
    let existing = shared.objects.get(bucket, key);
    if let (Some(_), Some(known)) = (&existing, header("if-none-match"))
        && known == "*"
    {
        return Err(S3Error::precondition("If-None-Match"));
    }
    if let Some(wanted) = header("if-match")
        && !existing.is_some_and(|object| etag_in(&object.etag, wanted))
    {
        return Err(S3Error::precondition("If-Match"));
    }
    let now = shared.clock.now();
    if let Some(source) = header("x-amz-copy-source") {
        let mut object = copy_source(shared, source)?;
        object.modified = now;
        let etag = encode::xml(&object.etag);
        shared.objects.put(bucket, key, object);
        let date = clock::iso_date(now);
        let xml = format!(
            "<CopyObjectResult><LastModified>{date}</LastModified><ETag>{etag}</ETag></CopyObjectResult>"
        );
        return Ok(Reply::xml(200, xml));
    }
    let mut object = Object::new(Content::Memory(body), now);
    // "aws-chunked" describes the transfer, not the object.
    object.encoding = header("content-encoding").filter(|e| *e != "aws-chunked").map(str::to_owned);
    let mut reply = Reply::empty(200);
    reply.headers.push(("etag", object.etag.clone()));
    shared.objects.put(bucket, key, object);
    Ok(reply)
}

fn copy_source(shared: &Shared, source: &str) -> Result<Object, S3Error> {
    let source = encode::decode(source).ok_or_else(|| S3Error::invalid("The copy source is not UTF-8."))?;
    let (bucket, key) = source
        .trim_start_matches('/')
        .split_once('/')
        .ok_or_else(|| S3Error::invalid("The copy source names no key."))?;
    let object = shared.objects.get(bucket, key).ok_or_else(|| S3Error::no_such_key(key))?;
    Ok(Object::clone(&object))
}

pub(crate) fn delete_many(shared: &Shared, bucket: &str, body: &Bytes) -> Reply {
    let mut xml = "<DeleteResult>".to_owned();
    for key in encode::xml_values(&String::from_utf8_lossy(body), "Key") {
        shared.objects.remove(bucket, &key);
        xml.push_str(&format!("<Deleted><Key>{}</Key></Deleted>", encode::xml(&key)));
    }
    xml.push_str("</DeleteResult>");
    Reply::xml(200, xml)
}
