use super::*;

fn no_daemon(_: Config, _: Ready, _: Stop) -> anyhow::Result<()> {
    anyhow::bail!("not in this test")
}

fn feedline(args: &[&str]) -> (u8, String, String) {
    let args = std::iter::once("feedline").chain(args.iter().copied()).map(OsString::from);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = main(args, &mut out, &mut err, no_daemon);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// A configuration file in a directory of its own, whose defaults do not depend on the machine's disk.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("feedline.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (dir, path)
}

#[test]
fn version_and_help_succeed_and_nonsense_is_usage() {
    let (code, out, _) = feedline(&["--version"]);
    assert_eq!((code, out.as_str()), (OK, format!("feedline {}\n", env!("CARGO_PKG_VERSION")).as_str()));
    assert_eq!(feedline(&["--help"]).0, OK);
    let (code, out, err) = feedline(&["sevre"]);
    assert_eq!((code, out.as_str()), (USAGE, ""));
    assert!(err.contains("serve"), "{err}");
    assert_eq!(feedline(&["run"]).0, USAGE);
}

#[test]
fn the_command_line_is_consistent() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

#[test]
fn check_config_reports_every_mistake_with_code_2() {
    let (_dir, path) = file("[pool]\nbytes = 1\nblok_bytes = 2\n");
    let (code, out, err) = feedline(&["check-config", &path]);
    assert_eq!((code, out.as_str()), (USAGE, ""));
    assert!(err.contains("feedline.toml:2: pool.bytes = 1: out of range"), "{err}");
    assert!(err.contains("did you mean block_bytes?"), "{err}");
    let (code, out, err) = feedline(&["check-config", &path, "--json"]);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, err.as_str(), &document["valid"]), (USAGE, "", &serde_json::Value::Bool(false)));
    assert_eq!(document["mistakes"].as_array().unwrap().len(), 2);
    assert_eq!(document["mistakes"][1]["key"], "pool.bytes");
}

#[test]
fn what_check_config_prints_is_a_file_that_means_the_same() {
    let (dir, path) = file(
        "[cache]\ndir = \"/tmp/x\"\nbytes = \"3 GiB\"\n[pool]\nbytes = \"128 MiB\"\n[dataset.\"a.b\"]\nurl = \"s3://b/x\"\n\
         [store.\"s3://b/\"]\nretries = 3\naccess_key = \"k\"\nsecret_key = \"hush\"\n",
    );
    let (code, first, err) = feedline(&["check-config", &path, "--set", "io.depth=7"]);
    assert_eq!(code, OK, "{err}");
    assert!(!first.contains("hush") && first.contains("flag --set"), "{first}");
    let again = dir.path().join("again.toml");
    std::fs::write(&again, &first).unwrap();
    let (code, second, err) = feedline(&["check-config", &again.display().to_string()]);
    assert_eq!(code, OK, "{err}\n{first}");
    let values = |text: &str| -> Vec<String> {
        let line = |line: &str| line.split("  # ").next().unwrap_or_default().trim().to_owned();
        text.lines().map(line).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    };
    assert_eq!(values(&first), values(&second));
}

#[test]
fn json_names_the_origin_of_each_value() {
    let (_dir, path) = file("[cache]\nbytes = \"3 GiB\"\ndir = \"/tmp/x\"\n");
    let (code, out, _) = feedline(&["--json", "check-config", &path]);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    let settings = document["settings"].as_array().unwrap();
    let bytes = settings.iter().find(|setting| setting["key"] == "cache.bytes").unwrap();
    assert_eq!((code, &bytes["origin"], &bytes["value"]), (OK, &"file".into(), &"\"3 GiB\"".into()));
}

#[test]
fn pages_are_printed() {
    assert_eq!(feedline(&["docs", "configuration"]).1, crate::config::configuration_page());
    assert_eq!(feedline(&["docs", "metrics"]).1, crate::telemetry::metrics_page());
}

#[test]
fn failures_are_printed_once_with_code_1() {
    let (code, out, err) = feedline(&["status", "--socket", "/nonexistent/socket"]);
    assert_eq!((code, out.as_str()), (FAILED, ""));
    assert_eq!(err.matches("/nonexistent/socket").count(), 1, "{err}");
}
