use std::fs;

use super::*;

/// A made-up machine: pairs of path and content.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

const MEMINFO: (&str, &str) =
    ("proc/meminfo", "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\n");

#[test]
fn a_bare_machine_has_no_limits() {
    let root = machine(&[MEMINFO, ("sys/devices/system/node/online", "0-1\n")]);
    let found = Topology::read(root.path(), 96);
    assert_eq!(found.cpus, Cpus { affinity: 96, quota: None, usable: 96 });
    assert_eq!(found.memory, Memory { total: 16 << 20, available: 8 << 20, limit: None });
    assert_eq!((found.numa_nodes, found.cgroup, found.gpus.count()), (2, None, 0));
}

#[test]
fn the_tightest_group_of_the_unified_hierarchy_counts() {
    let root = machine(&[
        MEMINFO,
        ("proc/self/cgroup", "0::/a.slice/b.scope\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ("sys/fs/cgroup/a.slice/memory.max", "4194304\n"),
        ("sys/fs/cgroup/a.slice/cpu.max", "350000 100000\n"),
        ("sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n"),
        ("sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n"),
    ]);
    let found = Topology::read(root.path(), 8);
    assert_eq!(found.cgroup, Some(CgroupVersion::V2));
    assert_eq!(found.memory.allowed(), 4 << 20);
    assert_eq!(found.cpus, Cpus { affinity: 8, quota: Some(3.5), usable: 4 });
}

#[test]
fn the_limits_of_version_1_are_found_through_a_hidden_path() {
    let root = machine(&[
        MEMINFO,
        ("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
    ]);
    let found = Topology::read(root.path(), 8);
    assert_eq!(found.cgroup, Some(CgroupVersion::V1));
    assert_eq!(found.memory.limit, Some(2 << 20));
    assert_eq!(found.cpus.usable, 1);
}

#[test]
fn version_1_without_limits_says_so_with_huge_and_negative_numbers() {
    let root = machine(&[
        MEMINFO,
        ("proc/self/cgroup", "4:memory:/\n3:cpu:/\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
    ]);
    let found = Topology::read(root.path(), 2);
    assert_eq!((found.memory.limit, found.cpus.quota), (None, None));
}

#[test]
fn gpus_are_counted_by_device_nodes_first() {
    let root = machine(&[
        ("dev/nvidia0", ""),
        ("dev/nvidia1", ""),
        ("dev/nvidiactl", ""),
        ("dev/nvidia-uvm", ""),
        ("proc/driver/nvidia/gpus/0000:07:00.0/information", ""),
        ("sys/class/drm/card0/device/vendor", "0x10de\n"),
        ("sys/class/drm/card1/device/vendor", "0x1a03\n"),
        ("sys/class/drm/card0-DP-1/device/vendor", "0x10de\n"),
    ]);
    let gpus = Topology::read(root.path(), 1).gpus;
    assert_eq!(gpus, Gpus { device_nodes: 2, driver: 1, display: 1 });
    assert_eq!(gpus.count(), 2);
}

#[test]
fn an_empty_root_is_survived() {
    let root = machine(&[]);
    let found = Topology::read(root.path(), 0);
    assert_eq!((found.cpus.usable, found.numa_nodes), (1, 1));
    assert!(found.memory.allowed() > 0);
}

#[test]
fn kernel_lists_are_counted() {
    assert_eq!(count_list("0-3,8,10-11"), Some(7));
    assert_eq!(count_list("3-1"), None);
    assert_eq!(count_list(""), None);
}

#[test]
fn the_real_machine_can_be_read() {
    let found = Topology::detect();
    assert!(found.cpus.usable >= 1 && found.memory.total > 0);
}
