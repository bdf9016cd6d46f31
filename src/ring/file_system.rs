//! Names of file systems by the number that `statfs` gives.

use std::path::Path;

const NAMES: &[(u32, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (TMPFS, "tmpfs"),
    (RAMFS, "ramfs"),
    (0x794c_7630, "overlayfs"),
    (0x6573_5546, "fuse"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x0102_1997, "9p"),
    (0xf15f, "ecryptfs"),
];
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;

/// The file system of a directory.
pub(super) struct FileSystem {
    pub(super) name: String,
    /// Its files live in memory: some kernels accept O_DIRECT there and ignore it.
    pub(super) in_memory: bool,
}

impl FileSystem {
    /// An unknown or unreadable one has a name that says so.
    pub(super) fn of(dir: &Path) -> FileSystem {
        match rustix::fs::statfs(dir) {
            // The number is 32 bits wide; some systems give it sign-extended.
            Ok(stat) => {
                Self::from_magic(u32::try_from(stat.f_type.cast_unsigned() & 0xffff_ffff).unwrap_or(0))
            }
            Err(_) => FileSystem { name: "an unknown file system".to_owned(), in_memory: false },
        }
    }

    fn from_magic(magic: u32) -> FileSystem {
        let name = match NAMES.iter().find(|(number, _)| *number == magic) {
            Some((_, name)) => (*name).to_owned(),
            None => format!("file system {magic:#x}"),
        };
        FileSystem { name, in_memory: matches!(magic, TMPFS | RAMFS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_numbers_have_names() {
        assert_eq!(FileSystem::from_magic(0xef53).name, "ext4");
        assert!(FileSystem::from_magic(TMPFS).in_memory);
        assert_eq!(FileSystem::from_magic(0xabc).name, "file system 0xabc");
    }
}
