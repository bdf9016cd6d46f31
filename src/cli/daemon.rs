//! How the commands and the daemon hold on to each other.

use std::pin::Pin;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::config::Config;

/// The daemon: works until `Stop` is done, then drains and returns. Returns early only with an error.
pub type Daemon = fn(Config, Ready, Stop) -> anyhow::Result<()>;

/// To be called once clients can connect.
pub type Ready = Box<dyn FnOnce() + Send>;

/// Done when the daemon is to end.
pub type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A stop that follows a channel; a dropped sender stops as well, so a caller that fails takes its daemon along.
pub(super) fn stop_channel() -> (oneshot::Sender<()>, Stop) {
    let (sender, receiver) = oneshot::channel();
    (sender, Box::pin(async move { drop(receiver.await) }))
}

/// One kind of signal with its number.
pub(super) fn watch(kind: SignalKind) -> std::io::Result<(i32, Signal)> {
    Ok((kind.as_raw_value(), signal(kind)?))
}
