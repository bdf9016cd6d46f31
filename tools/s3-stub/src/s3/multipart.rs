//! Multipart uploads.

use super::{Address, Reply, S3Error};
use crate::encode;
use crate::objects::{Content, Object};
use crate::server::Shared;
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Uploads that were started and neither completed nor given up.
#[derive(Debug, Default)]
pub(crate) struct Uploads(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: HashMap<String, Upload>,
}

#[derive(Debug)]
struct Upload {
    bucket: String,
    key: String,
    parts: BTreeMap<u32, (String, Bytes)>,
}

impl Uploads {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(&self) -> usize {
        self.lock().open.len()
    }
}

fn no_such_upload() -> S3Error {
    S3Error::new(404, "NoSuchUpload", "The specified multipart upload does not exist.")
}

impl State {
    fn find(&mut self, address: &Address) -> Result<&mut Upload, S3Error> {
        address
            .param("uploadId")
            .and_then(|id| self.open.get_mut(id))
            .filter(|upload| upload.bucket == address.bucket && upload.key == address.key)
            .ok_or_else(no_such_upload)
    }
}

pub(crate) fn initiate(shared: &Shared, address: &Address) -> Reply {
    let mut state = shared.uploads.lock();
    state.next += 1;
    let id = format!("upload-{}", state.next);
    let xml = format!(
        "<InitiateMultipartUploadResult><Bucket>{}</Bucket><Key>{}</Key><UploadId>{id}</UploadId>\
         </InitiateMultipartUploadResult>",
        encode::xml(&address.bucket),
        encode::xml(&address.key)
    );
    let upload = Upload { bucket: address.bucket.clone(), key: address.key.clone(), parts: BTreeMap::new() };
    state.open.insert(id, upload);
    Reply::xml(200, xml)
}

pub(crate) fn part(shared: &Shared, address: &Address, body: Bytes) -> Result<Reply, S3Error> {
    let number =
        address.param("partNumber").and_then(|n| n.parse().ok()).filter(|n| (1..=10_000).contains(n));
    let number = number.ok_or_else(|| S3Error::invalid("Part number must be between 1 and 10000."))?;
    let etag = encode::etag_of(&body);
    shared.uploads.lock().find(address)?.parts.insert(number, (etag.clone(), body));
    let mut reply = Reply::empty(200);
    reply.headers.push(("etag", etag));
    Ok(reply)
}

pub(crate) fn complete(shared: &Shared, address: &Address, body: &Bytes) -> Result<Reply, S3Error> {
    let document = String::from_utf8_lossy(body);
    let numbers = encode::xml_values(&document, "PartNumber");
    let etags = encode::xml_values(&document, "ETag");
    let invalid =
        || S3Error::new(400, "InvalidPart", "One or more of the specified parts could not be found.");
    if numbers.is_empty() || numbers.len() != etags.len() {
        return Err(S3Error::new(400, "MalformedXML", "The XML you provided was not well-formed."));
    }
    let mut state = shared.uploads.lock();
    let upload = state.find(address)?;
    let mut whole = BytesMut::new();
    let mut last = 0;
    for (number, etag) in numbers.iter().zip(&etags) {
        let number: u32 = number.parse().map_err(|_| invalid())?;
        let (own, bytes) = upload.parts.get(&number).ok_or_else(invalid)?;
        if own.trim_matches('"') != etag.trim_matches('"') {
            return Err(invalid());
        }
        if number <= last {
            let text = "The list of parts was not in ascending order.";
            return Err(S3Error::new(400, "InvalidPartOrder", text));
        }
        last = number;
        whole.extend_from_slice(bytes);
    }
    let mut object = Object::new(Content::Memory(whole.freeze()), shared.clock.now());
    object.etag = format!("\"{}-{}\"", object.etag.trim_matches('"'), numbers.len());
    let xml = format!(
        "<CompleteMultipartUploadResult><Bucket>{}</Bucket><Key>{}</Key><ETag>{}</ETag>\
         </CompleteMultipartUploadResult>",
        encode::xml(&address.bucket),
        encode::xml(&address.key),
        encode::xml(&object.etag)
    );
    shared.objects.put(&address.bucket, &address.key, object);
    state.open.remove(address.param("uploadId").unwrap_or(""));
    Ok(Reply::xml(200, xml))
}

pub(crate) fn abort(shared: &Shared, address: &Address) -> Result<Reply, S3Error> {
    let mut state = shared.uploads.lock();
    state.find(address)?;
    state.open.remove(address.param("uploadId").unwrap_or(""));
    Ok(Reply::empty(204))
}
