//! Checks AWS Signature Version 4 the way S3 does: every byte that the client signed is rebuilt here.
//!
//! Only the `Authorization` header form is known, not presigned URLs. The path is encoded once (S3 differs from
//! the other services in this), the host is taken as sent, with its port.

use crate::clock;
use crate::encode;
use crate::s3::S3Error;
use hmac::{Hmac, KeyInit, Mac};
use hyper::http::request::Parts;
use sha2::Sha256;

/// How far the clocks of client and stub may differ, in seconds.
const MAX_SKEW: i64 = 15 * 60;

/// One key pair that the stub accepts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Credentials {
    /// The access key id.
    pub access_key: String,
    /// The secret the signature is made with.
    pub secret_key: String,
    /// The token that must come with the key, for temporary credentials.
    #[serde(default)]
    pub session_token: Option<String>,
}

impl Credentials {
    /// A permanent key pair.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self { access_key: access_key.into(), secret_key: secret_key.into(), session_token: None }
    }

    /// Makes it a temporary one.
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.session_token = Some(token.into());
        self
    }
}

/// The keys accepted now, and earlier ones.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    /// Empty: everybody may do everything and no signature is looked at.
    pub(crate) valid: Vec<Credentials>,
    /// Temporary ones, which are answered "expired" from then on.
    retired: Vec<Credentials>,
}

impl KeyRing {
    pub(crate) fn new(valid: Vec<Credentials>) -> Self {
        Self { valid, retired: Vec::new() }
    }

    pub(crate) fn replace(&mut self, valid: Vec<Credentials>) {
        let old = std::mem::replace(&mut self.valid, valid);
        self.retired.extend(old.into_iter().filter(|c| c.session_token.is_some()));
    }

    fn find(&self, access_key: &str) -> Result<&Credentials, S3Error> {
        if let Some(found) = self.valid.iter().find(|c| c.access_key == access_key) {
            return Ok(found);
        }
        if self.retired.iter().any(|c| c.access_key == access_key) {
            return Err(S3Error::new(400, "ExpiredToken", "The provided token has expired."));
        }
        let text = "The AWS Access Key Id you provided does not exist in our records.";
        Err(S3Error::new(403, "InvalidAccessKeyId", text).detail("AWSAccessKeyId", access_key))
    }
}

struct Authorization<'a> {
    access_key: &'a str,
    date: &'a str,
    region: &'a str,
    service: &'a str,
    signed_headers: &'a str,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    fn parse(value: &'a str) -> Option<Self> {
        let rest = value.strip_prefix("AWS4-HMAC-SHA256")?;
        let field = |name: &str| {
            rest.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')).map(str::trim)
        };
        let mut scope = field("Credential")?.rsplitn(5, '/');
        let _terminator = scope.next().filter(|t| *t == "aws4_request")?;
        let (service, region, date) = (scope.next()?, scope.next()?, scope.next()?);
        let access_key = scope.next()?;
        let (signed_headers, signature) = (field("SignedHeaders")?, field("Signature")?);
        Some(Self { access_key, date, region, service, signed_headers, signature })
    }
}

/// Checks a request's signature against the key ring, at stub time `now`. `region`: the only one accepted, if set.
pub(crate) fn verify(parts: &Parts, keys: &KeyRing, region: Option<&str>, now: i64) -> Result<(), S3Error> {
    if keys.valid.is_empty() {
        return Ok(());
    }
    let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
    let denied = |text: &str| S3Error::new(403, "AccessDenied", text);
    let malformed = |text: String| S3Error::new(400, "AuthorizationHeaderMalformed", text);

    let value = header("authorization").ok_or_else(|| denied("Access Denied: the request is not signed."))?;
    let auth = Authorization::parse(value)
        .ok_or_else(|| malformed("The authorization header is malformed.".to_owned()))?;
    if auth.service != "s3" || auth.region.is_empty() {
        return Err(malformed(format!("The credential scope '{}/{}' is wrong.", auth.region, auth.service)));
    }
    if let Some(expected) = region.filter(|r| *r != auth.region) {
        let text = format!("The region '{}' is wrong; expecting '{expected}'", auth.region);
        return Err(malformed(text).detail("Region", expected));
    }
    let amz_date =
        header("x-amz-date").ok_or_else(|| denied("A valid Date or x-amz-date header is required."))?;
    let sent = clock::parse_amz_date(amz_date)
        .filter(|_| amz_date.starts_with(auth.date))
        .ok_or_else(|| denied("The x-amz-date header is invalid or differs from the credential scope."))?;
    let credentials = keys.find(auth.access_key)?;
    if (sent - now).abs() > MAX_SKEW {
        let text = "The difference between the request time and the current time is too large.";
        let error = S3Error::new(403, "RequestTimeTooSkewed", text);
        return Err(error.detail("RequestTime", amz_date).detail("ServerTime", clock::iso_date(now)));
    }
    if credentials.session_token.as_deref() != header("x-amz-security-token") {
        return Err(S3Error::new(
            400,
            "InvalidToken",
            "The provided token is malformed or otherwise invalid.",
        ));
    }
    let payload = header("x-amz-content-sha256").ok_or_else(|| {
        S3Error::new(400, "InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    })?;
    let canonical = canonical_request(parts, auth.signed_headers, payload)?;
    let scope = format!("{}/{}/{}/aws4_request", auth.date, auth.region, auth.service);
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{amz_date}\n{scope}\n{}", encode::sha256_hex(canonical.as_bytes()));
    let mut key = hmac(format!("AWS4{}", credentials.secret_key).as_bytes(), auth.date);
    for part in [auth.region, auth.service, "aws4_request"] {
        key = hmac(&key, part);
    }
    if encode::hex(&hmac(&key, &to_sign)) != auth.signature {
        let text = "The request signature we calculated does not match the signature you provided.";
        let error =
            S3Error::new(403, "SignatureDoesNotMatch", text).detail("AWSAccessKeyId", auth.access_key);
        return Err(error.detail("StringToSign", to_sign).detail("CanonicalRequest", canonical));
    }
    Ok(())
}

fn canonical_request(parts: &Parts, signed: &str, payload: &str) -> Result<String, S3Error> {
    let invalid = || S3Error::new(400, "InvalidURI", "Couldn't parse the specified URI.");
    let path = encode::path(&encode::decode(parts.uri.path()).ok_or_else(invalid)?);
    let mut query: Vec<_> = encode::query_pairs(parts.uri.query().unwrap_or(""))
        .ok_or_else(invalid)?
        .iter()
        .map(|(name, value)| format!("{}={}", encode::query(name), encode::query(value)))
        .collect();
    query.sort_unstable();

    let names: Vec<_> = signed.split(';').collect();
    let must_be_signed = |name: &str| name == "host" || name.starts_with("x-amz-");
    if let Some(name) =
        parts.headers.keys().map(|n| n.as_str()).find(|n| must_be_signed(n) && !names.contains(n))
    {
        let text = "There were headers present in the request which were not signed";
        return Err(S3Error::new(403, "AccessDenied", text).detail("HeadersNotSigned", name));
    }
    let mut headers = String::new();
    for name in &names {
        let values: Vec<_> = parts
            .headers
            .get_all(*name)
            .iter()
            .map(|v| v.to_str().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        headers.push_str(&format!("{name}:{}\n", values.join(",")));
    }
    Ok(format!("{}\n{path}\n{}\n{headers}\n{signed}\n{payload}", parts.method, query.join("&")))
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    /// 2013-05-24T00:00:00Z, the time of the examples in the S3 API reference.
    const THEN: i64 = 1_369_353_600;

    /// "GET Object" of the S3 API reference, "Signature Calculations: Examples".
    fn documented_request(signature: &str) -> Parts {
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature={signature}"
        );
        let request = Request::get("/test.txt")
            .header("host", "examplebucket.s3.amazonaws.com")
            .header("range", "bytes=0-9")
            .header("x-amz-content-sha256", EMPTY)
            .header("x-amz-date", "20130524T000000Z")
            .header("authorization", authorization);
        request.body(()).unwrap().into_parts().0
    }

    fn keys() -> KeyRing {
        let key = Credentials::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        KeyRing::new(vec![key])
    }

    const SIGNATURE: &str = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

    #[test]
    fn accepts_the_documented_example() {
        verify(&documented_request(SIGNATURE), &keys(), Some("us-east-1"), THEN + 899).unwrap();
    }

    #[test]
    fn refuses_with_the_code_that_s3_uses() {
        let code =
            |parts: &Parts, keys: &KeyRing, region, now| verify(parts, keys, region, now).unwrap_err().code;
        let good = documented_request(SIGNATURE);
        assert_eq!(code(&documented_request("00"), &keys(), None, THEN), "SignatureDoesNotMatch");
        assert_eq!(code(&good, &keys(), None, THEN + 901), "RequestTimeTooSkewed");
        assert_eq!(code(&good, &keys(), Some("cn-beijing"), THEN), "AuthorizationHeaderMalformed");
        let mut rotated = keys();
        rotated.replace(vec![Credentials::new("new", "secret")]);
        assert_eq!(code(&good, &rotated, None, THEN), "InvalidAccessKeyId");
        let mut unsigned_extra = documented_request(SIGNATURE);
        unsigned_extra.headers.insert("x-amz-acl", "private".parse().unwrap());
        assert_eq!(code(&unsigned_extra, &keys(), None, THEN), "AccessDenied");
        let mut moved = documented_request(SIGNATURE);
        moved.headers.insert("host", "examplebucket.s3.amazonaws.com:30030".parse().unwrap());
        assert_eq!(code(&moved, &keys(), None, THEN), "SignatureDoesNotMatch");
    }

    #[test]
    fn retired_temporary_keys_are_expired() {
        let mut ring = KeyRing::default();
        ring.replace(vec![Credentials::new("AKIAIOSFODNN7EXAMPLE", "x").with_token("t")]);
        ring.replace(vec![Credentials::new("other", "y")]);
        let error = verify(&documented_request(SIGNATURE), &ring, None, THEN).unwrap_err();
        assert_eq!((error.status, error.code.as_str()), (400, "ExpiredToken"));
    }
}
