//! The `feedline` binary: parses the command line and hands over to [`feedline::cli`].

use std::io::{stderr, stdout};
use std::process::ExitCode;

use feedline::cli::{self, Ready, Stop};
use feedline::config::Config;

fn main() -> ExitCode {
    ExitCode::from(cli::main(std::env::args_os(), &mut stdout(), &mut stderr(), daemon))
}

fn daemon(_: Config, _: Ready, _: Stop) -> anyhow::Result<()> {
    anyhow::bail!("this build has no daemon")
}
