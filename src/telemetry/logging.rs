//! Logs on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{LogFormat, Telemetry};

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not one. A checked configuration never has such a filter.
    #[error("telemetry.log has no valid filter")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// The program already logs elsewhere.
    #[error("logging is already set up in this process")]
    Taken,
}

/// Sends the process's logs to standard error, filtered and formatted as configured.
///
/// # Errors
/// [`LogError::Filter`] for a bad filter, [`LogError::Taken`] when logging was set up before.
pub fn init_logging(settings: &Telemetry) -> Result<(), LogError> {
    let filter = EnvFilter::builder().parse(&settings.log).map_err(LogError::Filter)?;
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let done = match settings.log_format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    done.map_err(|_| LogError::Taken)
}
