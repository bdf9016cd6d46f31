//! The Prometheus recorder, and the page that documents what it records.

use std::fmt::Write as _;
use std::sync::OnceLock;

use metrics::Unit;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::handles::{Bound, Kind, Metric};
use super::table::{BUILD_INFO, METRICS};

/// Why metrics cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The program already records metrics elsewhere.
    #[error("another recorder of metrics is installed in this process")]
    Taken,
}

/// The process's metrics, ready to be rendered.
#[derive(Debug, Clone)]
pub struct Exporter(PrometheusHandle);

static INSTALLED: OnceLock<Option<Exporter>> = OnceLock::new();

impl Exporter {
    /// Records all metrics of the process from now on; a second call returns the same exporter.
    ///
    /// # Errors
    /// [`ExporterError::Taken`] when some other recorder is already installed.
    pub fn install() -> Result<Self, ExporterError> {
        let install = || {
            let recorder = recorder();
            let exporter = Self(recorder.handle());
            metrics::set_global_recorder(recorder).ok()?;
            describe();
            Some(exporter)
        };
        INSTALLED.get_or_init(install).clone().ok_or(ExporterError::Taken)
    }

    /// The text of `/metrics`.
    pub fn render(&self) -> String {
        // Folds what histograms have collected since the last time; without it they would grow between scrapes.
        self.0.run_upkeep();
        self.0.render()
    }
}

pub(super) fn recorder() -> PrometheusRecorder {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if let Kind::Histogram(bounds) = metric.kind {
            let bounds: Vec<f64> = bounds.iter().copied().map(in_unit).collect();
            builder = builder
                .set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), &bounds)
                .expect("the table gives every histogram at least one bound");
        }
    }
    builder.build_recorder()
}

/// Tells the current recorder about all metrics, and sets the build information.
pub(super) fn describe() {
    for Metric { name, kind, unit, help, .. } in METRICS {
        let unit = match *unit {
            "bytes" => Unit::Bytes,
            "seconds" => Unit::Seconds,
            _ => Unit::Count,
        };
        match kind {
            Kind::Counter => metrics::describe_counter!(*name, unit, *help),
            Kind::Gauge => metrics::describe_gauge!(*name, unit, *help),
            Kind::Histogram(_) => metrics::describe_histogram!(*name, unit, *help),
        }
    }
    BUILD_INFO.with([env!("CARGO_PKG_VERSION")]).set(1.0);
}

/// A bound of the table in the metric's unit. A minute in billionths is far inside what a float holds exactly.
fn in_unit(bound: Bound) -> f64 {
    bound as f64 / 1e9
}

/// `docs/metrics.md`.
pub fn metrics_page() -> String {
    let mut page = String::from(
        "# Metrics\n\nThis page is made by `feedline docs metrics` from the table the daemon itself uses.\n\n\
         `GET /metrics` at `telemetry.listen` (default `127.0.0.1:9464`) answers in the Prometheus text format. The \
         label `job` is the name of a\ndata set in the configuration, or `adhoc` for streams opened by URL.\n\n\
         | name | kind | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, unit, help) = (metric.name, metric.unit, metric.help);
        let _ = writeln!(page, "| `{name}` | {kind} | {unit} | {} | {help} |", labels.join(", "));
    }
    page
}
