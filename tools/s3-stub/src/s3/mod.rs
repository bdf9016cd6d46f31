//! The S3 protocol: what a request means and how it is answered when nothing goes wrong.
//!
//! Known: objects (GET, HEAD, PUT, DELETE, copy), ranges and conditions, listings version 1 and 2, multipart
//! uploads, bulk delete, buckets. Not known: versions, ACLs, tags, listing of parts and uploads; these answer
//! 501. Unknown headers are ignored.

mod address;
mod chunked;
mod error;
mod get;
mod list;
mod multipart;
mod put;

pub(crate) use address::Address;
pub use address::Operation;
pub(crate) use error::S3Error;
pub(crate) use multipart::Uploads;

use crate::fault::Effects;
use crate::objects::Content;
use crate::server::Shared;
use bytes::Bytes;
use hyper::http::request::Parts;
use std::ops::Range;

/// A reply before faults touch it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content: Content,
    /// What of the content is sent.
    pub(crate) range: Range<u64>,
}

impl Reply {
    pub(crate) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), content: Content::Memory(Bytes::new()), range: 0..0 }
    }

    pub(crate) fn xml(status: u16, body: String) -> Self {
        let range = 0..body.len() as u64;
        let headers = vec![("content-type", "application/xml".to_owned())];
        Self { status, headers, content: Content::Memory(body.into()), range }
    }

    pub(crate) fn of_error(error: &S3Error, status: u16, request_id: u64) -> Self {
        let mut reply = Self::xml(status, error.to_xml(request_id));
        reply.headers.extend(error.headers.iter().cloned());
        reply
    }
}

/// Answers a request whose signature has been checked.
pub(crate) fn answer(
    shared: &Shared,
    address: &Address,
    parts: &Parts,
    body: Bytes,
    effects: &Effects,
) -> Result<Reply, S3Error> {
    let body = put::check_payload(shared, parts, body)?;
    let (bucket, key) = (address.bucket.as_str(), address.key.as_str());
    let creates = matches!(address.operation, Operation::Bucket) && parts.method == hyper::Method::PUT;
    if !creates && !shared.objects.has_bucket(bucket) {
        return Err(S3Error::no_such_bucket(bucket));
    }
    match address.operation {
        Operation::Get | Operation::Head => get::get(shared, address, parts, effects),
        Operation::List => list::list(shared, address, effects.repeat_page),
        Operation::Put => put::put(shared, address, parts, body),
        Operation::Part => multipart::part(shared, address, body),
        Operation::Initiate => Ok(multipart::initiate(shared, address)),
        Operation::Complete => multipart::complete(shared, address, &body),
        Operation::Abort => multipart::abort(shared, address),
        Operation::Delete => {
            shared.objects.remove(bucket, key);
            Ok(Reply::empty(204))
        }
        Operation::DeleteMany => Ok(put::delete_many(shared, bucket, &body)),
        Operation::Bucket => {
            shared.objects.create_bucket(bucket);
            let region = shared.config.region.as_deref().unwrap_or("us-east-1");
            Ok(match parts.method.as_str() {
                "GET" => Reply::xml(200, format!("<LocationConstraint>{region}</LocationConstraint>")),
                _ => Reply::empty(200),
            })
        }
    }
}
