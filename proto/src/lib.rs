//! The contract between the Feedline daemon and its clients.
//!
//! Two halves: control messages (the types in [`v1`], generated from `proto/feedline.proto`, framed by [`frame`] and
//! carried with file descriptors by [`socket`]) and the shared-memory layout through which batches travel ([`shm`]).
//! Both sides use this crate, so neither can drift from the other; the byte-exact page is `docs/shared-memory.md`.
//!
//! Limits: a control message is at most [`frame::MAX_MESSAGE_BYTES`]; a connection carries one stream; the layout is
//! little-endian and 64-bit only, since both sides run on one machine.

pub mod frame;
pub mod shm;
pub mod socket;

/// Control messages, generated from `proto/feedline.proto`.
#[allow(missing_docs, clippy::all, unreachable_pub)]
pub mod v1 {
    include!("generated.rs");
}

/// Version of the control protocol and the shared-memory layout together. A daemon refuses another version by name.
pub const PROTOCOL_VERSION: u32 = 1;

/// Environment variable that names the daemon's socket for clients.
pub const SOCKET_VARIABLE: &str = "FEEDLINE_SOCKET";

/// Where a client looks for the daemon when it is told nothing: `$FEEDLINE_SOCKET`, the system service's socket if it
/// exists, `$XDG_RUNTIME_DIR/feedline/feedline.sock`, then `/tmp/feedline-<uid>/feedline.sock`.
pub fn default_socket_path() -> std::path::PathBuf {
    use std::path::{Path, PathBuf};
    if let Some(path) = std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty()) {
        return PathBuf::from(path);
    }
    let system = Path::new("/run/feedline/feedline.sock");
    if system.exists() {
        return system.to_owned();
    }
    if let Some(dir) = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        return Path::new(&dir).join("feedline/feedline.sock");
    }
    PathBuf::from(format!("/tmp/feedline-{}/feedline.sock", rustix::process::getuid().as_raw()))
}
