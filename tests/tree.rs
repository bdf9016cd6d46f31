//! The rules of the source tree that no compiler checks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "generated.rs" {
            found.push(path);
        }
    }
}

/// Lines of a file before its inline tests.
fn production_lines(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).expect("a source file");
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

#[test]
fn files_stay_small_enough_to_read() {
    let mut files = Vec::new();
    for dir in ["src", "proto/src", "client/src", "tools"] {
        sources(&root().join(dir), &mut files);
    }
    let mut lengths: Vec<(usize, PathBuf)> =
        files.into_iter().map(|path| (production_lines(&path), path)).collect();
    lengths.sort();
    let (median, ninth) = (lengths[lengths.len() / 2].0, &lengths[lengths.len() * 9 / 10]);
    let longest = lengths.last().unwrap();
    assert!(median < 150, "the median file has {median} lines");
    assert!(ninth.0 < 500, "one file in ten has more than {} lines, like {}", ninth.0, ninth.1.display());
    assert!(longest.0 < 1000, "{} has {} lines", longest.1.display(), longest.0);
}

#[test]
fn unsafe_code_lives_where_it_may() {
    let mut files = Vec::new();
    for dir in ["src", "proto/src", "client/src", "tools"] {
        sources(&root().join(dir), &mut files);
    }
    let allowed = ["src/ring/", "src/pool/", "src/topology/", "proto/src/shm/"];
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let relative = path.strip_prefix(root()).unwrap().display().to_string();
        let has = text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("unsafe {"));
        assert!(!has || allowed.iter().any(|dir| relative.starts_with(dir)), "unsafe code in {relative}");
    }
}

#[test]
fn every_duplicate_dependency_is_on_the_list_with_a_reason() {
    let lock: toml::Table = std::fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for package in lock["package"].as_array().unwrap() {
        *versions.entry(package["name"].as_str().unwrap()).or_default() += 1;
    }
    let duplicates: Vec<&str> =
        versions.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect();
    let deny: toml::Table = std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap();
    let listed = deny["bans"]["skip"].as_array().unwrap();
    assert!(listed.iter().all(|entry| entry["reason"].as_str().is_some_and(|reason| !reason.is_empty())));
    let listed: Vec<&str> = listed.iter().map(|entry| entry["crate"].as_str().unwrap()).collect();
    assert_eq!(duplicates, listed, "left: two versions in Cargo.lock; right: the list in deny.toml");
}
