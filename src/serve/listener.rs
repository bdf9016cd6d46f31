//! The socket: made safely, accepted from, removed at the end.

use super::failure::{OUT_OF_FILES, is_out_of_files};
use super::session::{Session, Shared};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::task::JoinSet;

/// A listening socket. Its file is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Binds the socket; a socket file that nobody listens on is replaced.
    ///
    /// # Errors
    /// `AddrInUse` if another daemon listens there; what the system says otherwise.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            // Only what is missing is made, and it is private.
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        if is_socket {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)?;
        }
        let socket = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// Accepts clients for ever; dropping the future ends all sessions.
    pub(super) async fn serve(&self, shared: Arc<Shared>) {
        let mut sessions = JoinSet::new();
        let mut refusing = false;
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((socket, _)) => {
                        refusing = false;
                        let session = Session::new(socket, Arc::clone(&shared));
                        sessions.spawn(async move {
                            if let Err(error) = session.run().await {
                                tracing::debug!(%error, "session ended");
                            }
                        });
                    }
                    Err(error) => {
                        // Those who are connected are served on, and it is tried again later. Said once for each time.
                        if !std::mem::replace(&mut refusing, true) {
                            let hint = if is_out_of_files(&error) { OUT_OF_FILES } else { "" };
                            tracing::error!(%error, hint, "cannot accept clients");
                        }
                        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                    }
                },
                Some(ended) = sessions.join_next() => if let Err(error) = ended {
                    tracing::error!(%error, "session failed");
                },
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
