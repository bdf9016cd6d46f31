//! `feedline doctor`: what this machine is good for, and what holds it back.
//!
//! Each check gives findings: what was found, and where something is missing, what that costs and what to do. Nothing
//! is changed, apart from one file in the cache directory for the disk check, which is removed again.

mod disk;
mod machine;
mod store;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{ConfigArgs, FAILED, OK, Output};
use crate::config::{Config, Surroundings};
use crate::ring::Ring;
use crate::topology::Topology;

/// What to look at beside the machine.
#[derive(Debug)]
pub(super) struct Options {
    /// A URL or pattern to list and read.
    pub(super) url: Option<String>,
    /// Measure the disk.
    pub(super) disk: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    /// Works, but costs something.
    Warn,
    /// Does not work.
    Fail,
}

/// One line of the result.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    /// What it costs; empty when all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) cost: String,
    /// What to do; empty when all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) fix: String,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), cost: String::new(), fix: String::new() }
    }

    pub(super) fn warn(
        check: &'static str,
        found: impl Into<String>,
        cost: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { check, level: Level::Warn, found: found.into(), cost: cost.into(), fix: fix.into() }
    }

    pub(super) fn fail(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, level: Level::Fail, found: found.into(), cost: String::new(), fix: fix.into() }
    }
}

/// Runs all checks; gives 1 when one failed.
pub(super) fn run(
    options: &Options,
    args: &ConfigArgs,
    around: &Surroundings,
    output: &mut Output<'_>,
) -> anyhow::Result<u8> {
    let config = Config::load(&args.request(), around)?;
    let mut findings = machine::check(&Topology::detect(), &config);
    findings.extend(check_cache(&config, around, options.disk));
    if let Some(url) = &options.url {
        findings.push(store::check(url, &config));
    }
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    if output.json() {
        output.document(&findings)?;
    } else {
        write(output.text(), &findings)?;
    }
    Ok(if worst == Level::Fail { FAILED } else { OK })
}

fn check_cache(config: &Config, around: &Surroundings, speed: bool) -> Vec<Finding> {
    let dir = nearest_existing(&config.cache.dir);
    let mut findings = vec![disk::space(config, around)];
    match Ring::probe(&dir, config.io.engine, config.io.depth) {
        Ok(ring) => {
            findings.extend(disk::engine(ring.report()));
            if speed {
                findings.push(disk::speed(&ring, &dir));
            }
            ring.shutdown();
        }
        Err(error) => {
            let found = crate::telemetry::one_line(&error);
            findings.push(Finding::fail("disk engine", found, "set cache.dir or io.engine"));
        }
    }
    findings
}

/// The cache directory, or the directory in which it would be made.
fn nearest_existing(dir: &Path) -> PathBuf {
    dir.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn write(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        let level = match finding.level {
            Level::Ok => "ok  ",
            Level::Warn => "warn",
            Level::Fail => "FAIL",
        };
        writeln!(out, "{level}  {:<13} {}", finding.check, finding.found)?;
        for (name, text) in [("costs", &finding.cost), ("fix", &finding.fix)] {
            if !text.is_empty() {
                writeln!(out, "      {:<13} {name}: {text}", "")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
