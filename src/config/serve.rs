//! `[serve]`: the control socket.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode};

use super::reader::{Reader, quoted};
use super::surroundings::Surroundings;

/// The longest path that fits a Unix socket address, with its closing zero.
const LONGEST: usize = 107;

/// Where clients connect, and who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serve {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// Threads that answer.
    pub threads: usize,
    private: bool,
}

/// What is wrong with `[serve]`, or with the socket's directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// The path is relative.
    #[error("the path is relative")]
    Relative,
    /// The path does not fit a socket address.
    #[error("the path has {0} bytes, a socket address holds {LONGEST}")]
    TooLong(usize),
    /// The directory cannot be made or looked at.
    #[error("socket directory {} cannot be used: {error}", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the kernel said.
        error: String,
    },
    /// The directory is open to others.
    #[error(
        "socket directory {} is not a directory of mode 0700 that belongs to user {uid}; remove it or set serve.socket",
        dir.display()
    )]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// Whom it should belong to.
        uid: u32,
    },
}

impl Serve {
    pub(super) fn read(reader: &mut Reader<'_>, around: &Surroundings) -> Self {
        let (fallback, why, private) = default_socket(around);
        let mut socket = None;
        if let Some(text) = reader.text("socket") {
            socket = around.absolute(&text);
            if socket.is_none() {
                reader.refuse("socket", ServeError::Relative);
            }
        }
        let private = private && socket.is_none();
        let socket = socket.unwrap_or(fallback);
        let length = socket.as_os_str().as_bytes().len();
        if length > LONGEST {
            reader.refuse("socket", ServeError::TooLong(length));
        }
        reader.note("socket", quoted(&socket.to_string_lossy()), why);
        let threads = reader.number("threads").unwrap_or(2);
        reader.note("threads", threads, "");
        Self { socket, threads: usize::try_from(threads).unwrap_or(usize::MAX), private }
    }

    /// Makes the socket's directory, closed to others, and checks the one in `/tmp`, where anybody could have put
    /// something in its place.
    ///
    /// # Errors
    /// [`ServeError::Directory`] when it cannot be made, [`ServeError::Foreign`] when somebody else has his hands
    /// in it.
    pub fn prepare_directory(&self) -> Result<(), ServeError> {
        let dir = self.socket.parent().unwrap_or(Path::new("/"));
        let failed =
            |error: std::io::Error| ServeError::Directory { dir: dir.to_owned(), error: error.to_string() };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        if self.private {
            // No following of links: a link is somebody else's choice of a directory.
            let stat = rustix::fs::statat(rustix::fs::CWD, dir, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|error| failed(error.into()))?;
            let uid = rustix::process::geteuid().as_raw();
            let closed = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXG | Mode::RWXO) == Mode::empty();
            let ours = stat.st_uid == uid && FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if !(ours && closed) {
                return Err(ServeError::Foreign { dir: dir.to_owned(), uid });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Serve {
    pub(super) fn redirect(&mut self, socket: PathBuf, private: bool) {
        (self.socket, self.private) = (socket, private);
    }
}

/// The socket that nobody named, why, and whether its directory lies where anybody can write.
pub(crate) fn default_socket(around: &Surroundings) -> (PathBuf, &'static str, bool) {
    let var = |name| around.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // systemd lists several directories with colons; the first is as good as any.
    let runtime = var("RUNTIME_DIRECTORY")
        .map(|dirs| PathBuf::from(dirs.to_string_lossy().split(':').next().unwrap_or_default()));
    if let Some(dir) = runtime {
        return (dir.join("feedline.sock"), "from RUNTIME_DIRECTORY", false);
    }
    if let Some(dir) = var("XDG_RUNTIME_DIR") {
        return (dir.join("feedline/feedline.sock"), "from XDG_RUNTIME_DIR", false);
    }
    let dir = PathBuf::from(format!("/tmp/feedline-{}", around.uid));
    (dir.join("feedline.sock"), "no XDG_RUNTIME_DIR", true)
}
