//! A thin layer around the HTTP client that counts requests and notes what each was answered.
//!
//! The store layer reports a failed request as text. Status and `Retry-After` are needed as values, so every request
//! carries a [`Note`] in its extensions and this layer fills it in. The layer's own retries are switched off, hence one
//! note sees one answer.

use super::stats::SourceStats;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

/// What one request was answered; cheap to clone, clones share the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Note(Arc<Answer>);

#[derive(Debug, Default)]
struct Answer {
    status: AtomicU16,
    retry_after_seconds: AtomicU32,
}

impl Note {
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
        let response = self.inner.execute(request).await?;
        if let Some(Note(answer)) = note {
            answer.status.store(response.status().as_u16(), Ordering::Relaxed);
            let wish =
                response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
            answer.retry_after_seconds.store(wish.unwrap_or(0), Ordering::Relaxed);
        }
        Ok(response)
    }
}
