//! Limits of the control groups that this process lives in, versions 1 and 2.

use std::path::{Path, PathBuf};

/// Which control group interface was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// Version 1 writes "no limit" as a number near 2^63, rounded down to pages.
const V1_UNLIMITED: u64 = 1 << 60;

/// The directories to ask: our own group first, then each one above it.
pub(super) struct Groups {
    version: Option<Version>,
    cpu: Vec<PathBuf>,
    memory: Vec<PathBuf>,
}

impl Groups {
    pub(super) fn of_this_process(root: &Path) -> Self {
        let mount = root.join("sys/fs/cgroup");
        let text = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let unified = mount.join("cgroup.controllers").exists();
        let mut groups = Self { version: None, cpu: Vec::new(), memory: Vec::new() };
        for line in text.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            if controllers.is_empty() {
                if unified {
                    groups.version = Some(Version::V2);
                    groups.cpu = upwards(&mount, path);
                    groups.memory = groups.cpu.clone();
                }
                continue;
            }
            for controller in controllers.split(',') {
                let list = match controller {
                    "cpu" => &mut groups.cpu,
                    "memory" => &mut groups.memory,
                    _ => continue,
                };
                // The directory is named for one controller or for all that are mounted together.
                let named = [controller, controllers].map(|name| mount.join(name));
                if let Some(base) = named.iter().find(|base| base.is_dir()) {
                    *list = upwards(base, path);
                    groups.version = Some(Version::V1);
                }
            }
        }
        groups
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.version
    }

    /// The tightest memory limit in bytes.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        let limit = |group: &PathBuf| {
            number(&group.join("memory.max")).or_else(|| {
                number(&group.join("memory.limit_in_bytes")).filter(|&limit| limit < V1_UNLIMITED)
            })
        };
        self.memory.iter().filter_map(limit).min()
    }

    /// The tightest CPU quota in processors, which may be a fraction.
    pub(super) fn cpu_quota(&self) -> Option<f64> {
        self.cpu.iter().filter_map(|group| quota_v2(group).or_else(|| quota_v1(group))).reduce(f64::min)
    }
}

fn quota_v2(group: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    ratio(words.next()?.parse().ok()?, words.next()?.parse().ok()?)
}

fn quota_v1(group: &Path) -> Option<f64> {
    // -1 means no quota and does not parse as an unsigned number.
    ratio(number(&group.join("cpu.cfs_quota_us"))?, number(&group.join("cpu.cfs_period_us"))?)
}

fn ratio(quota: u64, period: u64) -> Option<f64> {
    let (quota, period) = (u32::try_from(quota).ok()?, u32::try_from(period).ok()?);
    (period > 0).then(|| f64::from(quota) / f64::from(period))
}

fn number(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// `base/path` and every directory between it and `base`. A path that the namespace hides (`/..`) leaves `base`.
fn upwards(base: &Path, path: &str) -> Vec<PathBuf> {
    let inside = Path::new(path.trim_start_matches('/'));
    if inside.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
        return vec![base.to_owned()];
    }
    inside.ancestors().map(|part| base.join(part)).collect()
}
