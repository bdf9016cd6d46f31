//! Notices to systemd; without it (no `NOTIFY_SOCKET`) every call does nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// The daemon serves now. `status` is the line that `systemctl status` shows.
pub fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Changes the line that `systemctl status` shows.
pub fn status(status: &str) {
    send(&[NotifyState::Status(status)]);
}

/// The daemon has begun to stop.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// How often the watchdog wants to hear from us: half of its time limit. `None` when it does not watch.
pub fn watchdog_period() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

/// Feeds the watchdog for as long as `alive` says so; returns at once where none watches. When `alive` fails, nothing is
/// sent any more, and systemd restarts the daemon.
pub async fn feed_watchdog(alive: impl Fn() -> bool) {
    let Some(period) = watchdog_period() else { return };
    let mut ticks = tokio::time::interval(period);
    loop {
        ticks.tick().await;
        if alive() {
            send(&[NotifyState::Watchdog]);
        } else {
            tracing::error!("a part of the daemon does not respond; the watchdog is not fed");
        }
    }
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd cannot be notified");
    }
}
