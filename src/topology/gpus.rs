//! GPUs, by the signs that their drivers leave.

use std::path::Path;

/// The PCI vendor number of NVIDIA as sysfs prints it.
const NVIDIA: &str = "0x10de";

/// How many GPUs each sign shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gpus {
    /// Device nodes `/dev/nvidia0`, `/dev/nvidia1`, ...: what a container was given.
    pub device_nodes: usize,
    /// Entries of the driver's `/proc/driver/nvidia/gpus`.
    pub driver: usize,
    /// Display devices of the vendor in `/sys/class/drm`.
    pub display: usize,
}

impl Gpus {
    pub(super) fn read(root: &Path) -> Self {
        Self {
            device_nodes: count(&root.join("dev"), |name, _| {
                name.strip_prefix("nvidia").is_some_and(|number| number.parse::<u32>().is_ok())
            }),
            driver: count(&root.join("proc/driver/nvidia/gpus"), |_, _| true),
            display: count(&root.join("sys/class/drm"), |name, path| {
                let card = name.strip_prefix("card").is_some_and(|number| number.parse::<u32>().is_ok());
                let vendor = || std::fs::read_to_string(path.join("device/vendor"));
                card && vendor().is_ok_and(|vendor| vendor.trim() == NVIDIA)
            }),
        }
    }

    /// GPUs to plan for: what the device nodes show, else the driver, else the bus.
    pub fn count(&self) -> usize {
        [self.device_nodes, self.driver, self.display].into_iter().find(|&count| count > 0).unwrap_or(0)
    }
}

fn count(dir: &Path, wanted: impl Fn(&str, &Path) -> bool) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let matches = |entry: &std::fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| wanted(name, &entry.path()))
    };
    entries.flatten().filter(matches).count()
}
