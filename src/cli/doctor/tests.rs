use super::*;
use crate::config::units::{GIB, MIB};
use crate::config::{Flag, Request};
use crate::topology::{Cpus, Gpus, Memory};

fn args(dir: &Path) -> ConfigArgs {
    ConfigArgs {
        cache_dir: Some(dir.join("new/cache").display().to_string()),
        cache_bytes: Some("1 GiB".into()),
        pool_bytes: Some("64 MiB".into()),
        ..ConfigArgs::default()
    }
}

fn around(dir: &Path) -> Surroundings {
    let mut around = Surroundings::detect();
    around.vars.retain(|name, _| name == "HOME");
    around.root = dir.to_owned();
    around
}

fn config(dir: &Path, extra: &[(&str, &str)]) -> Config {
    let mut request: Request = args(dir).request();
    request.flags.extend(extra.iter().map(|(key, value)| Flag {
        name: "--set".into(),
        key: (*key).into(),
        value: (*value).into(),
    }));
    Config::load(&request, &around(dir)).unwrap()
}

fn topology() -> Topology {
    Topology {
        cpus: Cpus { affinity: 8, quota: None, usable: 8 },
        memory: Memory { total: 16 * GIB, available: 8 * GIB, limit: None },
        gpus: Gpus::default(),
        numa_nodes: 1,
        cgroup: None,
    }
}

#[test]
fn everything_is_checked_and_nothing_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.tfrecord"), vec![0; 100]).unwrap();
    let url = Some(dir.path().join("*.tfrecord").display().to_string());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let options = Options { url, disk: true };
    let mut output = Output::new(&mut out, &mut err, true);
    run(&options, &args(dir.path()), &around(dir.path()), &mut output).unwrap();
    let findings: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let names: Vec<&str> =
        findings.as_array().unwrap().iter().map(|finding| finding["check"].as_str().unwrap()).collect();
    let expected = [
        "CPUs",
        "memory",
        "locked memory",
        "open files",
        "NUMA",
        "GPUs",
        "cache space",
        "io_uring",
        "O_DIRECT",
        "disk speed",
        "store",
    ];
    assert_eq!(names, expected);
    let store = &findings.as_array().unwrap()[10];
    assert_eq!(store["level"], "ok", "{store}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the shard is left");
}

#[test]
fn a_store_that_cannot_be_reached_fails() {
    let dir = tempfile::tempdir().unwrap();
    let finding = store::check(&dir.path().join("none-*").display().to_string(), &config(dir.path(), &[]));
    assert_eq!(finding.level, Level::Fail);
    assert!(finding.found.contains("no object matches"), "{}", finding.found);
}

#[test]
fn limits_are_weighed_against_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), &[("prefetch.threads", "4")]);
    let mut machine = topology();
    assert_eq!(machine::cpus(&machine, &config).level, Level::Ok);
    machine.cpus = Cpus { affinity: 8, quota: Some(4.0), usable: 4 };
    assert_eq!(machine::cpus(&machine, &config).level, Level::Warn);
    assert_eq!(machine::memory(&machine, &config).level, Level::Ok);
    machine.memory.available = 32 * MIB;
    assert_eq!(machine::memory(&machine, &config).level, Level::Warn);
    machine.memory.limit = Some(32 * MIB);
    assert_eq!(machine::memory(&machine, &config).level, Level::Fail);
    assert_eq!(machine::locked(Some(8 * MIB), 64 * MIB).level, Level::Warn);
    assert_eq!(machine::locked(None, 64 * MIB).level, Level::Ok);
    assert_eq!(machine::open_files(Some(1024), None).level, Level::Warn);
    assert_eq!(machine::open_files(None, None).level, Level::Ok);
}

#[test]
fn text_says_what_it_costs_and_what_to_do() {
    let mut out = Vec::new();
    let findings = [Finding::ok("a", "fine"), Finding::warn("b", "found", "the cost", "the fix")];
    write(&mut out, &findings).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains("ok    a") && text.contains("costs: the cost") && text.contains("fix: the fix"),
        "{text}"
    );
}
