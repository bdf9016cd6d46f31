//! The `feedline` binary: parses the command line and hands over to [`feedline::cli`].

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
