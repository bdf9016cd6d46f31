//! Errors as S3 answers them: a status, a code and an XML body.

use crate::encode;

/// One S3 error. The codes are those of the S3 API.
#[derive(Debug, Clone)]
pub(crate) struct S3Error {
    pub(crate) status: u16,
    pub(crate) code: String,
    message: String,
    detail: Vec<(&'static str, String)>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl S3Error {
    pub(crate) fn new(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into(), detail: Vec::new(), headers: Vec::new() }
    }

    /// Adds an element to the XML body.
    pub(crate) fn detail(mut self, tag: &'static str, value: impl Into<String>) -> Self {
        self.detail.push((tag, value.into()));
        self
    }

    /// Adds a response header.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn no_such_key(key: &str) -> Self {
        Self::new(404, "NoSuchKey", "The specified key does not exist.").detail("Key", key)
    }

    pub(crate) fn no_such_bucket(bucket: &str) -> Self {
        Self::new(404, "NoSuchBucket", "The specified bucket does not exist.").detail("BucketName", bucket)
    }

    pub(crate) fn precondition(condition: &str) -> Self {
        Self::new(412, "PreconditionFailed", "At least one of the preconditions you specified did not hold.")
            .detail("Condition", condition)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "InvalidArgument", message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    /// The body of the reply.
    pub(crate) fn to_xml(&self, request_id: u64) -> String {
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{}</Code><Message>{}</Message>",
            encode::xml(&self.code),
            encode::xml(&self.message)
        );
        for (tag, value) in &self.detail {
            out.push_str(&format!("<{tag}>{}</{tag}>", encode::xml(value)));
        }
        out.push_str(&format!("<RequestId>{request_id:016X}</RequestId></Error>"));
        out
    }
}
