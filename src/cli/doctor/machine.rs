//! Processors, memory, limits, NUMA nodes, GPUs.

use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::config::Config;
use crate::config::units::Size;
use crate::topology::{CgroupVersion, Topology};

/// Open files that a busy node needs: sockets, shards, streams.
const FILES: u64 = 4096;

pub(super) fn check(topology: &Topology, config: &Config) -> Vec<Finding> {
    let memlock = getrlimit(Resource::Memlock).current;
    let files = getrlimit(Resource::Nofile);
    vec![
        cpus(topology, config),
        memory(topology, config),
        locked(memlock, config.pool.bytes),
        open_files(files.current, files.maximum),
        numa(topology),
        gpus(topology),
    ]
}

pub(super) fn cpus(topology: &Topology, config: &Config) -> Finding {
    let cpus = topology.cpus;
    let group = match topology.cgroup {
        Some(CgroupVersion::V1) => "cgroup v1",
        Some(CgroupVersion::V2) => "cgroup v2",
        None => "no cgroup",
    };
    let quota = cpus.quota.map_or_else(|| "no quota".to_owned(), |quota| format!("quota {quota:.1}"));
    let found = format!("{} usable ({} in the affinity mask, {quota}, {group})", cpus.usable, cpus.affinity);
    if config.prefetch.threads > cpus.usable.max(2) {
        let threads = config.prefetch.threads;
        let cost = format!(
            "{threads} prefetch threads share them and get in each other's way when data is compressed"
        );
        return Finding::warn("CPUs", found, cost, "lower prefetch.threads, or allow more CPUs");
    }
    if cpus.quota.is_some_and(|quota| quota < cpus.affinity as f64) {
        let cost = "threads are stopped for up to 100 ms when the quota of a period is used up";
        return Finding::warn("CPUs", found, cost, "pin CPUs (cpuset) in place of a quota");
    }
    Finding::ok("CPUs", found)
}

pub(super) fn memory(topology: &Topology, config: &Config) -> Finding {
    let memory = topology.memory;
    let limit = memory
        .limit
        .map_or_else(|| "no cgroup limit".to_owned(), |limit| format!("cgroup limit {}", Size(limit)));
    let (pool, inflight) = (config.pool.bytes, config.prefetch.inflight_bytes);
    let found = format!(
        "{} of {} available, {limit}; pool {}, in flight {}",
        Size(memory.available),
        Size(memory.total),
        Size(pool),
        Size(inflight)
    );
    let need = pool.saturating_add(inflight);
    if memory.limit.is_some_and(|limit| need > limit) {
        return Finding::fail(
            "memory",
            found,
            "lower pool.bytes or raise the cgroup's limit: the daemon would be killed",
        );
    }
    if memory.available > 0 && need > memory.available {
        return Finding::warn(
            "memory",
            found,
            "the machine swaps or kills something when the pool fills",
            "lower pool.bytes",
        );
    }
    Finding::ok("memory", found)
}

pub(super) fn locked(limit: Option<u64>, pool: u64) -> Finding {
    match limit {
        None => Finding::ok("locked memory", "unlimited"),
        Some(limit) if limit >= pool => Finding::ok("locked memory", format!("up to {}", Size(limit))),
        Some(limit) => Finding::warn(
            "locked memory",
            format!("up to {}, less than the pool", Size(limit)),
            "the pool cannot be registered with io_uring: more CPU per disk read",
            "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited",
        ),
    }
}

pub(super) fn open_files(soft: Option<u64>, hard: Option<u64>) -> Finding {
    let show = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
    let found = format!("{} (hard limit {})", show(soft), show(hard));
    match soft {
        Some(limit) if limit < FILES => Finding::warn(
            "open files",
            found,
            "many streams or connections at once may fail",
            format!("LimitNOFILE={FILES} or more in the unit, or ulimit -n"),
        ),
        _ => Finding::ok("open files", found),
    }
}

fn numa(topology: &Topology) -> Finding {
    match topology.numa_nodes {
        1 => Finding::ok("NUMA", "1 node"),
        nodes => Finding::ok("NUMA", format!("{nodes} nodes; the pool is not bound to one of them yet")),
    }
}

fn gpus(topology: &Topology) -> Finding {
    let gpus = topology.gpus;
    let found = match gpus.count() {
        0 => "none seen".to_owned(),
        count => format!(
            "{count} (device nodes {}, driver {}, display {})",
            gpus.device_nodes, gpus.driver, gpus.display
        ),
    };
    if gpus.device_nodes == 0 && gpus.driver.max(gpus.display) > 0 {
        let cost = "none for the daemon; trainers started here would not find a GPU";
        return Finding::warn(
            "GPUs",
            format!("{found}; no device node"),
            cost,
            "give the container its GPUs",
        );
    }
    Finding::ok("GPUs", found)
}
