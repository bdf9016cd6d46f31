//! The commands of `feedline`.
//!
//! **Shape.** [`args`] says what can be typed; each command has a file with a `run` that takes its arguments and an
//! [`Output`], and never prints by itself: tests give it a buffer. With `--json` a command writes exactly one JSON
//! document to standard output; everything for people goes to standard error then.
//!
//! **Exit codes.** 0: done. 1: failed, or found something bad (`doctor`, `dataset inspect`). 2: the command line or
//! the configuration is wrong. `run` gives the code of the command it ran, 128 + n when signal n ended it, and 126
//! or 127 when it could not be started, as shells do.
//!
//! **Errors** are printed once, at this edge: the error, then each cause below it that says something new.

mod args;
mod chain;
mod check;
mod daemon;
mod docs;
mod doctor;
mod effective;
mod index;
mod inspect;
mod output;
mod run;
mod serve;
mod status;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;

use crate::config::{Config, ConfigError, Surroundings};
use args::{Cli, Command, DatasetCommand};

pub use args::ConfigArgs;
pub use chain::write_chain;
pub use daemon::{Daemon, Ready, Stop};
pub use output::Output;

/// Done.
pub const OK: u8 = 0;
/// Failed, or found something bad.
pub const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
pub const USAGE: u8 = 2;

/// Runs the command in `args` (the program's name first) and gives its exit code. `daemon` is what `serve` and `run`
/// start.
pub fn main(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
    daemon: Daemon,
) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come as errors as well. A write that fails is not reported: nobody is left to tell.
            if error.use_stderr() {
                let _ = write!(err, "{error}");
                return USAGE;
            }
            let _ = write!(out, "{error}");
            return OK;
        }
    };
    let mut output = Output::new(out, err, cli.json);
    let code = dispatch(cli, daemon, &mut output).unwrap_or_else(|error| {
        if is_broken_pipe(&error) {
            // The reader of our output, such as `head`, has seen enough.
            return OK;
        }
        let code = if error.is::<ConfigError>() { USAGE } else { FAILED };
        let _ = write_chain(output.notes(), &*error);
        code
    });
    output.finish(code)
}

fn dispatch(cli: Cli, daemon: Daemon, output: &mut Output<'_>) -> anyhow::Result<u8> {
    let around = Surroundings::detect();
    match cli.command {
        Command::Serve { config } => serve::run(Config::load(&config.request(), &around)?, daemon, output),
        Command::Run { config, command } => {
            run::run(&command, Config::load(&config.request(), &around)?, daemon, output)
        }
        Command::CheckConfig { file, config } => check::run(file, &config, &around, output),
        Command::Status { socket } => status::run(socket.as_deref(), status::View::All, output),
        Command::Jobs { socket } => status::run(socket.as_deref(), status::View::Jobs, output),
        Command::Doctor { url, no_disk, config } => {
            doctor::run(&doctor::Options { url, disk: !no_disk }, &config, &around, output)
        }
        Command::Dataset { command: DatasetCommand::Inspect { urls, no_scan, threads, config } } => {
            let config = Config::load(&config.request(), &around)?;
            let options = inspect::Options { urls, scan: !no_scan, threads };
            inspect::run(&options, &config, output)
        }
        Command::Dataset { command: DatasetCommand::Index { urls, publish, socket } } => {
            index::run(&urls, publish, socket.as_deref(), output)
        }
        Command::Docs { page } => docs::run(page, output),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests;
