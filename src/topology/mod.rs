//! What this machine, or the share of it that we were given, looks like.
//!
//! **What.** Processors, memory, GPUs and NUMA nodes, as far as the defaults and `feedline doctor` need them. The
//! numbers are those that *this process* may use: the affinity mask and the CPU quota of every control group above
//! us count, not the number of sockets; the tightest memory limit on the way up to the root of the hierarchy
//! counts, not the size of the machine.
//!
//! **How.** Plain reads below `/proc`, `/sys` and `/dev`. Every reader takes the root directory, so the tests bring
//! a made-up machine. A file that is missing or odd means "unknown" and never an error: a container often hides
//! half of them.
//!
//! **Limits.** A snapshot: a limit that is changed later is not seen. GPUs are counted, not told apart; which GPU
//! lies on which node comes with pinning.

mod cgroup;
mod cpus;
mod gpus;
mod memory;

use std::path::Path;

pub use cgroup::Version as CgroupVersion;
pub use cpus::Cpus;
pub use gpus::Gpus;
pub use memory::Memory;

/// One look at the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Processors that we may use.
    pub cpus: Cpus,
    /// Memory that we may use.
    pub memory: Memory,
    /// GPUs seen, and by which sign.
    pub gpus: Gpus,
    /// NUMA nodes that are online; 1 when the kernel does not say.
    pub numa_nodes: usize,
    /// Which control group hierarchy limits us, if any.
    pub cgroup: Option<CgroupVersion>,
}

impl Topology {
    /// Looks at the running machine.
    pub fn detect() -> Self {
        Self::read(Path::new("/"), cpus::affinity())
    }

    /// Looks at the machine whose `/proc`, `/sys` and `/dev` lie below `root`; `affinity` is the number of
    /// processors in the affinity mask.
    pub fn read(root: &Path, affinity: usize) -> Self {
        let groups = cgroup::Groups::of_this_process(root);
        Self {
            cpus: Cpus::new(affinity, groups.cpu_quota()),
            memory: Memory::read(root, groups.memory_limit()),
            gpus: Gpus::read(root),
            numa_nodes: numa_nodes(root),
            cgroup: groups.version(),
        }
    }
}

/// NUMA nodes online below `root`; 1 when the kernel does not say.
fn numa_nodes(root: &Path) -> usize {
    let online = std::fs::read_to_string(root.join("sys/devices/system/node/online"));
    online.ok().and_then(|list| count_list(list.trim())).filter(|&nodes| nodes > 0).unwrap_or(1)
}

/// Members of a kernel list such as `0-3,8,10-11`.
fn count_list(list: &str) -> Option<usize> {
    let mut count = 0;
    for part in list.split(',') {
        count += match part.split_once('-') {
            Some((first, last)) => {
                let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                last.checked_sub(first)?.checked_add(1)?
            }
            None => part.parse::<usize>().map(|_| 1).ok()?,
        };
    }
    Some(count)
}

#[cfg(test)]
mod tests;
