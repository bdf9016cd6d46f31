//! `[telemetry]`: metrics and logs.

use std::net::SocketAddr;

use tracing_subscriber::EnvFilter;

use super::reader::{Reader, quoted};
use super::value::Reading;

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Metrics and logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// Address of the HTTP endpoint; `None` turns it off.
    pub listen: Option<SocketAddr>,
    /// Log filter, checked.
    pub log: String,
    /// How a log line looks.
    pub log_format: LogFormat,
}

/// What is wrong with `[telemetry]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TelemetryError {
    /// Not an address.
    #[error("not an IP address with a port")]
    Address,
    /// Not a filter.
    #[error("not a log filter: {0}")]
    Filter(String),
}

impl Telemetry {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut listen = Some(SocketAddr::from(([127, 0, 0, 1], 9464)));
        match reader.text("listen").as_deref() {
            None => {}
            Some("off") => listen = None,
            Some(text) => match text.parse() {
                Ok(address) => listen = Some(address),
                Err(_) => reader.refuse("listen", TelemetryError::Address),
            },
        }
        let shown = listen.map_or_else(|| "off".to_owned(), |address| address.to_string());
        reader.note("listen", quoted(&shown), "");
        let log = reader.text("log").unwrap_or_else(|| "info".to_owned());
        if let Err(error) = EnvFilter::builder().parse(&log) {
            reader.refuse("log", TelemetryError::Filter(error.to_string()));
        }
        reader.note("log", quoted(&log), "");
        // In the order of the words in the table.
        let log_format = match reader.reading("log_format") {
            Some(Reading::Word(1)) => LogFormat::Json,
            _ => LogFormat::Text,
        };
        let word = if log_format == LogFormat::Json { "json" } else { "text" };
        reader.note("log_format", quoted(word), "");
        Self { listen, log, log_format }
    }
}
