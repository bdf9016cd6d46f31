//! `/metrics`, `/healthz` and `/readyz`.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use super::{Exporter, Health};

/// Called before each rendering, to bring gauges and counters that live elsewhere up to date.
pub type Refresh = Arc<dyn Fn() + Send + Sync>;

/// The content type that Prometheus expects.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes, without a listener.
pub fn router(exporter: Exporter, health: Health, refresh: Refresh) -> Router {
    let metrics = move || async move {
        refresh();
        ([(header::CONTENT_TYPE, TEXT)], exporter.render())
    };
    let ready = move || async move {
        let report = health.report();
        let (status, body) = match report.is_empty() {
            true => (StatusCode::OK, "ready\n".to_owned()),
            false => (StatusCode::SERVICE_UNAVAILABLE, report.join("\n") + "\n"),
        };
        (status, body).into_response()
    };
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
}

/// Answers on `listener` until `stop` is done; then no new connection is taken, and those that are open end with
/// their current answer.
///
/// # Errors
/// Whatever the listener reports.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}
