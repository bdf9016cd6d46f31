//! `feedline serve`.

use anyhow::Context as _;
use tokio::signal::unix::SignalKind;

use super::daemon::{Daemon, stop_channel, watch};
use super::{OK, Output, effective};
use crate::config::Config;
use crate::telemetry::init_logging;

/// Prints the configuration in effect and runs the daemon until SIGTERM or SIGINT.
pub(super) fn run(config: Config, daemon: Daemon, output: &mut Output<'_>) -> anyhow::Result<u8> {
    if output.json() {
        output.document(&effective::Document::new(&config))?;
    } else {
        effective::write(output.text(), &config)?;
    }
    output.text().flush()?;
    init_logging(&config.telemetry)?;
    config.serve.prepare_directory()?;
    let (stop, stopped) = stop_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime can be started")?;
    let signals = {
        let _inside = runtime.enter();
        [watch(SignalKind::terminate()), watch(SignalKind::interrupt())]
    };
    let [terminate, interrupt] = signals;
    let ((_, mut terminate), (_, mut interrupt)) =
        (terminate.context("no signals")?, interrupt.context("no signals")?);
    // The thread ends with the process, or with the signal that it waits for.
    let waiter = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM: draining"),
                _ = interrupt.recv() => tracing::info!("SIGINT: draining"),
            }
        });
        drop(stop);
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(waiter)
        .context("no thread can be started")?;
    daemon(config, Box::new(|| ()), stopped)?;
    Ok(OK)
}
