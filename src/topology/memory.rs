//! Memory that this process may use.

use std::path::Path;

/// Used when the kernel does not say how much memory there is: small enough for any machine.
const UNKNOWN: u64 = 1 << 30;

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Memory of the machine.
    pub total: u64,
    /// What the kernel thinks can be had without swapping; 0 when it does not say.
    pub available: u64,
    /// The tightest control group limit, if there is one.
    pub limit: Option<u64>,
}

impl Memory {
    pub(super) fn read(root: &Path, limit: Option<u64>) -> Self {
        let text = std::fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let total = field(&text, "MemTotal:").unwrap_or_else(|| limit.unwrap_or(UNKNOWN));
        Self { total, available: field(&text, "MemAvailable:").unwrap_or(0), limit }
    }

    /// What we may use at most: the limit, or the machine's memory when that is less.
    pub fn allowed(&self) -> u64 {
        self.limit.map_or(self.total, |limit| limit.min(self.total))
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
