//! The `feedline-loadgen` binary: parses the command line, prints one chain of causes on failure.

use std::process::ExitCode;

fn main() -> ExitCode {
    feedline_loadgen::cli::main()
}
