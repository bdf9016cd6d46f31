//! A thin layer around the HTTP client that counts requests and notes what each was answered.
//!
//! The store layer reports a failed request as text. Status and `Retry-After` are needed as values, so every request
//! carries a [`Note`] in its extensions and this layer fills it in. The layer's own retries are switched off, hence one
//! note sees one answer.
//!
//! Some answers are put right on the way, because the store layer would misread them: it takes a listing's page that is an
//! error text under status 200 for an empty last page, and refuses a range whose length is only in `Content-Range`.

use super::stats::SourceStats;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

/// What one request was answered; cheap to clone, clones share the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Note(Arc<Answer>);

#[derive(Debug, Default)]
struct Answer {
    status: AtomicU16,
    retry_after_seconds: AtomicU32,
    /// The request is for a page of a listing.
    listing: bool,
    /// The page says that more follow, and not how to ask for them.
    without_token: AtomicBool,
}

impl Note {
    /// For a page of a listing.
    pub(crate) fn of_listing() -> Self {
        Self(Arc::new(Answer { listing: true, ..Answer::default() }))
    }

    /// Whether the page says that more follow, but not how to ask for them.
    pub(crate) fn lacks_token(&self) -> bool {
        self.0.without_token.load(Ordering::Relaxed)
    }

    /// The HTTP status, if there was an answer over HTTP at all.
    pub(crate) fn status(&self) -> Option<u16> {
        Some(self.0.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    /// The store's wish for a pause, if it gave one in seconds.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.0.retry_after_seconds.load(Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Extensions that carry this note along a request.
    pub(crate) fn extensions(&self) -> object_store::Extensions {
        let mut extensions = object_store::Extensions::new();
        extensions.insert(self.clone());
        extensions
    }
}

/// Makes [`HttpClient`]s that count and note.
#[derive(Debug)]
pub(crate) struct NotingConnector(pub(crate) Arc<SourceStats>);

impl HttpConnector for NotingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Noting { inner, stats: self.0.clone() }))
    }
}

#[derive(Debug)]
struct Noting {
    inner: HttpClient,
    stats: Arc<SourceStats>,
}

#[async_trait::async_trait]
impl HttpService for Noting {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        SourceStats::add(&self.stats.requests, 1);
        let note = request.extensions().get::<Note>().cloned();
        let mut response = self.inner.execute(request).await?;
        if !response.headers().contains_key("content-length")
            && let Some(length) = ranged_length(&response)
        {
            response.headers_mut().insert("content-length", length.into());
        }
        if let Some(Note(answer)) = note {
            answer.status.store(response.status().as_u16(), Ordering::Relaxed);
            let wish =
                response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
            answer.retry_after_seconds.store(wish.unwrap_or(0), Ordering::Relaxed);
            if answer.listing && response.status().is_success() {
                response = checked_page(response, &answer).await?;
            }
        }
        Ok(response)
    }
}

/// Bytes in the body of a reply to a ranged request.
fn ranged_length(response: &HttpResponse) -> Option<u64> {
    let range = response.headers().get("content-range")?.to_str().ok()?;
    let (first, last) = range.strip_prefix("bytes ")?.split('/').next()?.split_once('-')?;
    last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
}

/// Looks at a page before the store layer does: an error gets the status that it should have had.
async fn checked_page(response: HttpResponse, answer: &Answer) -> Result<HttpResponse, HttpError> {
    let (mut parts, body) = response.into_parts();
    let body = body.bytes().await?;
    let text = String::from_utf8_lossy(&body);
    let root = text
        .trim_start_matches('\u{feff}')
        .split('<')
        .map(str::trim)
        .find(|tag| !tag.is_empty() && !tag.starts_with(['?', '!']));
    if root.is_some_and(|tag| tag.starts_with("Error>") || tag.starts_with("Error ")) {
        parts.status = 503_u16.try_into().expect("a status code");
        answer.status.store(503, Ordering::Relaxed);
    }
    let lacks = text.contains("<IsTruncated>true</IsTruncated>") && !text.contains("<NextContinuationToken>");
    answer.without_token.store(lacks, Ordering::Relaxed);
    Ok(HttpResponse::from_parts(parts, body.into()))
}
