//! `feedline run -- COMMAND`: a private daemon for one command.
//!
//! The daemon runs in this process, on a socket in a directory of its own, so it cannot outlive us. The command gets the
//! socket's path in `FEEDLINE_SOCKET`. Signals that reach us are passed on; we end when the command ends, with its
//! code. A signal that the terminal sends (Ctrl-C) reaches the whole group by itself and is not sent twice.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::SignalKind;
use tokio::sync::{mpsc, oneshot};

use super::Output;
use super::daemon::{Daemon, Ready, stop_channel, watch};
use crate::config::Config;
use crate::telemetry::init_logging;

/// Exit codes of shells for a command that is there but cannot be run, and for one that is not there.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs the command and gives its exit code.
pub(super) fn run(
    command: &[OsString],
    mut config: Config,
    daemon: Daemon,
    output: &mut Output<'_>,
) -> anyhow::Result<u8> {
    init_logging(&config.telemetry)?;
    // Several of these may run on one node: none of them may take the port that nobody asked for.
    if !config.is_given("telemetry", "listen") {
        config.telemetry.listen = None;
    }
    let dir = PrivateDir::create()?;
    config.serve.socket = dir.0.join("feedline.sock");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime can be started")?;
    runtime.block_on(async {
        let signals = forwarded().context("signals cannot be received")?;
        supervise(command, config, daemon, signals, output).await
    })
}

/// The daemon's thread and the ways to talk to it.
struct Private {
    stop: oneshot::Sender<()>,
    done: oneshot::Receiver<anyhow::Result<()>>,
}

async fn supervise(
    command: &[OsString],
    config: Config,
    daemon: Daemon,
    mut signals: mpsc::Receiver<i32>,
    output: &mut Output<'_>,
) -> anyhow::Result<u8> {
    let socket = config.serve.socket.clone();
    let (ready, mut is_ready) = oneshot::channel();
    let (stop, stopped) = stop_channel();
    let (end, done) = oneshot::channel();
    let body = move || {
        // Neither message has a receiver any more when we are already on our way out.
        let ready: Ready = Box::new(|| {
            let _ = ready.send(());
        });
        let _ = end.send(daemon(config, ready, stopped));
    };
    std::thread::Builder::new().name("daemon".to_owned()).spawn(body).context("no thread can be started")?;
    let mut private = Private { stop, done };

    tokio::select! {
        result = &mut private.done => {
            result.context("the daemon died while it started")??;
            anyhow::bail!("the daemon ended before it was ready");
        }
        // A daemon that fails drops its side of this channel; its error then comes above.
        Ok(()) = &mut is_ready => {}
        Some(signal) = signals.recv() => {
            private.end().await?;
            return Ok(signal_code(signal));
        }
    }
    let code = match start(command, &socket) {
        Ok(mut child) => exit_code(wait(&mut child, &mut signals).await?),
        Err(error) => {
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
            let name = command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            writeln!(output.notes(), "error: {name} cannot be run: {error}")?;
            code
        }
    };
    // The command's code is what the caller asked for; a daemon that failed meanwhile is only a note.
    if let Err(error) = private.end().await {
        super::write_chain(output.notes(), &*error)?;
    }
    Ok(code)
}

impl Private {
    /// Stops the daemon and waits until it is gone.
    async fn end(self) -> anyhow::Result<()> {
        // It may have ended already; then `done` has the reason.
        let _ = self.stop.send(());
        self.done.await.context("the daemon died")?
    }
}

fn start(command: &[OsString], socket: &Path) -> io::Result<Child> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program).args(args).env(feedline_proto::SOCKET_VARIABLE, socket).spawn()
}

/// Waits for the child and passes signals on. Only this task reaps it, so its number cannot be somebody else's.
async fn wait(child: &mut Child, signals: &mut mpsc::Receiver<i32>) -> anyhow::Result<ExitStatus> {
    let mut changed =
        tokio::signal::unix::signal(SignalKind::child()).context("SIGCHLD cannot be received")?;
    let mut open = true;
    loop {
        if let Some(status) = child.try_wait().context("the command cannot be waited for")? {
            return Ok(status);
        }
        tokio::select! {
            _ = changed.recv() => {}
            signal = signals.recv(), if open => match signal {
                Some(signal) => pass_on(child, signal),
                None => open = false,
            },
        }
    }
}

fn pass_on(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // It may have ended in this moment; then the wait will tell.
        let _ = kill_process(pid, signal);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(super::FAILED),
        (None, Some(signal)) => signal_code(signal),
        (None, None) => super::FAILED,
    }
}

fn signal_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(super::FAILED)
}

/// Signals that are passed on, as they come.
fn forwarded() -> io::Result<mpsc::Receiver<i32>> {
    let (sender, receiver) = mpsc::channel(16);
    let from_terminal = [SignalKind::interrupt(), SignalKind::quit()];
    let kinds = [
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    for kind in from_terminal.into_iter().chain(kinds) {
        let (number, mut signal) = watch(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                if from_terminal.contains(&kind) && in_foreground() {
                    continue;
                }
                if sender.send(number).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(receiver)
}

/// Whether we are in the foreground of a terminal, which then sends its signals to the command as well.
fn in_foreground() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// A directory that only we can enter; removed with what is in it.
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn create() -> anyhow::Result<Self> {
        let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
        let base = base.unwrap_or_else(std::env::temp_dir);
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let dir = base.join(format!("feedline-run-{}-{:x}", std::process::id(), nanos.subsec_nanos()));
        // mkdir fails when something is there, so nobody can have put it there for us.
        rustix::fs::mkdir(&dir, rustix::fs::Mode::RWXU)
            .with_context(|| format!("{} cannot be made", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // At worst an empty directory stays behind in a place that is cleaned at the next start.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Stop;
    use super::*;
    use crate::config::{Flag, Request, Surroundings};

    fn config(dir: &Path) -> Config {
        let flag = |key: &str, value: String| Flag { name: "--set".into(), key: key.into(), value };
        let mut around = Surroundings::detect();
        around.vars.retain(|name, _| name == "HOME");
        around.root = dir.to_owned();
        let flags = vec![flag("cache.dir", dir.display().to_string()), flag("cache.bytes", "1 GiB".into())];
        let mut config = Config::load(&Request { file: None, flags }, &around).unwrap();
        config.serve.socket = dir.join("feedline.sock");
        config
    }

    /// Marks its beginning and its orderly end in the directory of its socket.
    fn good(config: Config, ready: Ready, stop: Stop) -> anyhow::Result<()> {
        std::fs::write(&config.serve.socket, "listening")?;
        ready();
        tokio::runtime::Builder::new_current_thread().build()?.block_on(stop);
        std::fs::write(config.serve.socket.with_extension("end"), "drained")?;
        Ok(())
    }

    fn run_command(
        script: &str,
        daemon: Daemon,
        signals: impl FnOnce(mpsc::Sender<i32>, PathBuf),
    ) -> (anyhow::Result<u8>, String, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let command: Vec<OsString> = match script {
            "" => vec!["/nonexistent/program".into()],
            _ => vec!["sh".into(), "-c".into(), script.into()],
        };
        let (sender, receiver) = mpsc::channel(4);
        signals(sender, dir.path().to_owned());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut output = Output::new(&mut out, &mut err, false);
        let code = runtime.block_on(supervise(&command, config(dir.path()), daemon, receiver, &mut output));
        (code, String::from_utf8(err).unwrap(), dir)
    }

    #[test]
    fn the_command_finds_the_daemon_and_its_code_is_ours() {
        let (code, _, dir) = run_command("test -f \"$FEEDLINE_SOCKET\" && exit 7", good, |_, _| ());
        assert_eq!(code.unwrap(), 7);
        assert!(dir.path().join("feedline.end").exists(), "the daemon was stopped, not dropped");
    }

    #[test]
    fn a_command_that_a_signal_ended_gives_128_and_the_number() {
        assert_eq!(run_command("kill -9 $$", good, |_, _| ()).0.unwrap(), 137);
    }

    #[test]
    fn signals_are_passed_on() {
        // The command tells through a fifo that its trap is set, so that no time has to be guessed.
        let script = "trap 'exit 3' TERM; cd \"$(dirname \"$FEEDLINE_SOCKET\")\"; echo set > fifo; while :; do sleep 1; done";
        let (code, _, _dir) = run_command(script, good, |sender, dir| {
            let fifo = dir.join("fifo");
            assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
            std::thread::spawn(move || {
                assert_eq!(std::fs::read_to_string(fifo).unwrap(), "set\n");
                sender.blocking_send(SignalKind::terminate().as_raw_value()).unwrap();
            });
        });
        assert_eq!(code.unwrap(), 3);
    }

    #[test]
    fn a_missing_command_gives_127_and_stops_the_daemon() {
        let (code, notes, dir) = run_command("", good, |_, _| ());
        assert_eq!(code.unwrap(), 127);
        assert!(notes.contains("/nonexistent/program cannot be run"), "{notes}");
        assert!(dir.path().join("feedline.end").exists());
    }

    #[test]
    fn a_daemon_that_does_not_start_is_the_error() {
        fn bad(_: Config, _: Ready, _: Stop) -> anyhow::Result<()> {
            anyhow::bail!("the cache directory is in use")
        }
        let (code, _, _dir) = run_command("exit 0", bad, |_, _| ());
        assert!(code.unwrap_err().to_string().contains("in use"));
    }

    #[test]
    fn the_private_directory_is_closed_and_removed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = PrivateDir::create().unwrap();
        let path = dir.0.clone();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(path.join("feedline.sock"), "").unwrap();
        drop(dir);
        assert!(!path.exists());
    }
}
