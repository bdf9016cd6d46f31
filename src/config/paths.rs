//! Where the configuration file is looked for.

use std::path::{Path, PathBuf};

use super::{Place, Surroundings};

/// The file of a machine-wide service.
const SYSTEM: &str = "/etc/feedline/feedline.toml";

/// A file to read, and who named it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) named_by: Place,
}

/// The file that was named, or the first of the usual ones that exists. A file that was named must exist.
pub(super) fn find(flag: Option<&Path>, around: &Surroundings) -> Option<Found> {
    if let Some(path) = flag {
        return Some(Found { path: path.to_owned(), named_by: Place::Flag("--config".to_owned()) });
    }
    if let Some(path) = around.var("FEEDLINE_CONFIG") {
        return Some(Found { path: path.into(), named_by: Place::Environment("FEEDLINE_CONFIG".to_owned()) });
    }
    let own = around.base_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("feedline/feedline.toml"));
    // Root's daemon is the machine's: a file left in root's home must not change it.
    let own = own.filter(|_| around.uid != 0);
    let usual = own.into_iter().chain([around.root.join(SYSTEM.trim_start_matches('/'))]);
    let path = usual.into_iter().find(|path| path.exists())?;
    Some(Found { path, named_by: Place::Default { why: String::new() } })
}
