//! Processors that this process may use.

/// Processors by mask and by quota.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpus {
    /// Processors in the affinity mask.
    pub affinity: usize,
    /// The control group's quota in processors, if there is one.
    pub quota: Option<f64>,
    /// What both leave, rounded up, at least 1.
    pub usable: usize,
}

impl Cpus {
    pub(super) fn new(affinity: usize, quota: Option<f64>) -> Self {
        let affinity = affinity.max(1);
        // Counting up avoids a cast from float to integer; masks are at most some thousand wide.
        let usable =
            quota.and_then(|quota| (1..affinity).find(|&cpus| cpus as f64 >= quota)).unwrap_or(affinity);
        Self { affinity, quota, usable }
    }
}

/// Processors in this process's affinity mask.
pub(super) fn affinity() -> usize {
    match rustix::thread::sched_getaffinity(None) {
        Ok(mask) => usize::try_from(mask.count()).unwrap_or(1),
        // More processors than the fixed mask holds: the standard library knows how to ask for a larger one.
        Err(_) => std::thread::available_parallelism().map_or(1, usize::from),
    }
}
