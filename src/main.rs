//! The `feedline` binary: parses the command line and hands over to [`feedline::cli`].

use std::io::{stderr, stdout};
use std::process::ExitCode;

use feedline::cli::{self, Ready, Stop};
use feedline::config::Config;
use feedline::serve::daemon::{Started, run};

fn main() -> ExitCode {
    ExitCode::from(cli::main(std::env::args_os(), &mut stdout(), &mut stderr(), daemon))
}

fn daemon(config: Config, ready: Ready, stop: Stop) -> anyhow::Result<()> {
    let started = |started: &Started| {
        tracing::info!(
            socket = %started.socket.display(),
            metrics = started.http.map(|address| format!("http://{address}/metrics")),
            cached_shards = started.cached_shards,
            cached_bytes = started.cached_bytes,
            "serving"
        );
        ready();
    };
    Ok(run(&config, started, stop)?)
}
