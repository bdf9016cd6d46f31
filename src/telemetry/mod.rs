//! What the daemon tells about itself: metrics, health, logs, and notices to systemd.
//!
//! **Metrics.** [`table`] lists every metric once: name, unit, labels, help. A metric can only be recorded through
//! its constant there, so what is exported, what is documented (`docs/metrics.md`) and what is recorded cannot
//! differ. Names follow Prometheus: base units (`_bytes`, `_seconds`), counters end in `_total`. Label values come
//! from small closed sets; a job is labelled with its data set's name in the configuration or `adhoc`, never with a
//! URL, so the number of series stays bounded whatever clients ask for.
//!
//! **HTTP.** [`http`] answers `/metrics`, `/healthz` (the process answers) and `/readyz` (nothing is
//! missing; the body names what is).
//!
//! **Logs** go to standard error as text or JSON. **systemd** hears READY, STOPPING and the watchdog.
//!
//! **Limits.** Nothing is pushed anywhere. Counters start at zero with the process.

mod chain;
mod exporter;
mod handles;
mod health;
pub mod http;
mod logging;
pub mod systemd;
pub mod table;

pub use chain::{one_line, parts};
pub use exporter::{Exporter, ExporterError, metrics_page};
pub use handles::{Bound, Counter, Gauge, Histogram, Kind, Metric};
pub use health::Health;
pub use logging::{LogError, init_logging};

/// The label of a job whose data set has no name in the configuration.
pub const ADHOC: &str = "adhoc";

#[cfg(test)]
mod tests;
