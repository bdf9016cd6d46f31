use std::fs;
use std::io;
use std::path::Path;

use super::units::{GIB, MIB};
use super::*;
use crate::record::CorruptPolicy;
use crate::ring::EngineChoice;

const DISK: Space = Space { free: 90 * GIB, cached: 10 * GIB, root: false };

/// An ordinary user on a machine with 16 GiB and 8 CPUs; nothing of the real one shows.
fn around() -> Surroundings {
    Surroundings {
        vars: BTreeMap::from([("HOME".to_owned(), "/home/u".to_owned())]),
        uid: 1000,
        cpus: 8,
        memory: 16 * GIB,
        gpus: 0,
        root: "/nonexistent".into(),
        space: |_| Ok(DISK),
    }
}

fn load_text(text: &str, around: &Surroundings) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("feedline.toml");
    fs::write(&path, text).unwrap();
    Config::load(&Request { file: Some(path), flags: Vec::new() }, around)
}

fn full(setting: &Setting) -> String {
    format!("{}.{}", setting.section, setting.key)
}

fn flag(key: &str, value: &str) -> Flag {
    Flag { name: "--set".to_owned(), key: key.to_owned(), value: value.to_owned() }
}

#[test]
fn without_any_file_an_ordinary_user_gets_a_working_choice() {
    let config = Config::load(&Request::default(), &around()).unwrap();
    assert_eq!(config.serve.socket, Path::new("/tmp/feedline-1000/feedline.sock"));
    assert_eq!(config.pool, Pool { bytes: 4 * GIB, block_bytes: 4 << 20 });
    assert_eq!(config.cache.dir, Path::new("/home/u/.cache/feedline"));
    assert_eq!(config.cache.bytes, 80 * GIB);
    assert_eq!(config.prefetch.threads, 8);
    assert_eq!(config.prefetch.window_bytes, config.pool.bytes / 4);
    assert_eq!(config.prefetch.inflight_bytes, 8 * 4 * 4 * MIB);
    assert_eq!(config.telemetry.listen, Some("127.0.0.1:9464".parse().unwrap()));
    assert!(config.settings().iter().all(|setting| setting.place.kind() == "default"));
    // Every key of the fixed sections is shown.
    let shown: Vec<String> = config.settings().iter().map(full).collect();
    for section in keys::SECTIONS.iter().filter(|section| !["dataset", "store"].contains(&section.name)) {
        for key in section.keys {
            assert!(shown.contains(&format!("{}.{}", section.name, key.name)), "{}", key.name);
        }
    }
}

#[test]
fn environment_wins_over_the_file_and_flags_win_over_both() {
    let mut around = around();
    around.vars.insert("FEEDLINE_IO_DEPTH".into(), "8".into());
    around.vars.insert("FEEDLINE_BATCH_READY".into(), "9".into());
    around.vars.insert("FEEDLINE_SOCKET".into(), "/elsewhere".into());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f.toml");
    fs::write(&file, "[io]\ndepth = 4\nengine = \"threads\"\n[batch]\nready = 5\n").unwrap();
    let request = Request { file: Some(file.clone()), flags: vec![flag("batch.ready", "10")] };
    let config = Config::load(&request, &around).unwrap();
    assert_eq!((config.io.engine, config.io.depth, config.batch.ready), (EngineChoice::Threads, 8, 10));
    let place = |key: &str| {
        config
            .settings()
            .iter()
            .find(|setting| full(setting) == key)
            .map(|setting| setting.place.clone())
            .unwrap()
    };
    assert_eq!(place("io.engine"), Place::File { path: file, line: 3 });
    assert_eq!(place("io.depth"), Place::Environment("FEEDLINE_IO_DEPTH".into()));
    assert_eq!(place("batch.ready"), Place::Flag("--set".into()));
}

#[test]
fn all_mistakes_come_at_once_with_key_value_range_and_line() {
    let text = "[pool]\nbytes = \"512 KiB\"\nblock_bytes = \"3 MiB\"\n\n[cach]\ndir = \"/x\"\n[cache]\nbites = 3\ndir = \"x\"\n\
                [prefetch]\nthreads = 257\n[io]\nengine = \"uring\"\n[telemetry]\nlisten = \"here\"\nlog = \"=[\"\n\
                [dataset.a]\ncorrupt = { skip = 0 }\n[dataset.b]\nurl = \"s3://b\"\nurls = []\n";
    let error = load_text(text, &around()).unwrap_err();
    let message = error.to_string();
    for expected in [
        "feedline.toml:2: pool.bytes = \"512 KiB\": out of range; allowed is a size from 1 MiB to 16 TiB, or \"1%\" to \"90%\"",
        "feedline.toml:3: pool.block_bytes = \"3 MiB\": not a power of two; allowed is a power of two from 64 KiB to 64 MiB",
        "feedline.toml:5: cach: unknown section; did you mean cache?",
        "feedline.toml:8: cache.bites: unknown key; did you mean bytes?",
        "feedline.toml:9: cache.dir = \"x\": the path is relative",
        "feedline.toml:11: prefetch.threads = 257: out of range; allowed is \"auto\" or a whole number from 1 to 256",
        "feedline.toml:13: io.engine = \"uring\": not of the right form; allowed is one of \"auto\", \"io_uring\", \"threads\"",
        "feedline.toml:15: telemetry.listen = \"here\": not an IP address with a port",
        "feedline.toml:16: telemetry.log = \"=[\": not a log filter",
        "feedline.toml:17: dataset.a.url: one of url and urls must be given",
        "feedline.toml:18: dataset.a.corrupt = { skip = 0 }: out of range",
        "feedline.toml:20: dataset.b.url = \"s3://b\": url and urls exclude each other",
    ] {
        assert!(message.contains(expected), "missing {expected:?} in:\n{message}");
    }
    assert_eq!(error.mistakes.len(), 12, "{message}");
}

#[test]
fn every_syntax_error_has_its_line() {
    let error = load_text("[io]\ndepth = \n\n[batch\nready = 1\n", &around()).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("feedline.toml:2: not valid TOML"), "{message}");
    assert!(message.contains("feedline.toml:4: not valid TOML"), "{message}");
}

#[test]
fn a_named_file_must_exist() {
    let request = Request { file: Some("/nonexistent/feedline.toml".into()), flags: Vec::new() };
    let message = Config::load(&request, &around()).unwrap_err().to_string();
    assert!(message.contains("flag --config") && message.contains("/nonexistent/feedline.toml"), "{message}");
}

#[test]
fn the_usual_places_are_searched_in_order_and_root_skips_its_home() {
    let dir = tempfile::tempdir().unwrap();
    let mut around = around();
    around.root = dir.path().to_owned();
    around.vars.insert("XDG_CONFIG_HOME".into(), dir.path().join("xdg").to_string_lossy().into_owned());
    for (path, depth) in [("etc/feedline/feedline.toml", 2), ("xdg/feedline/feedline.toml", 3)] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("[io]\ndepth = {depth}\n")).unwrap();
    }
    let depth = |around: &Surroundings| Config::load(&Request::default(), around).unwrap().io.depth;
    assert_eq!(depth(&around), 3);
    around.uid = 0;
    assert_eq!(depth(&around), 2);
    let named = dir.path().join("own.toml");
    fs::write(&named, "[io]\ndepth = 4\n").unwrap();
    around.vars.insert("FEEDLINE_CONFIG".into(), named.to_string_lossy().into_owned());
    assert_eq!(depth(&around), 4);
}

#[test]
fn misspelt_variables_are_found_and_foreign_ones_left_alone() {
    let mut around = around();
    around.vars.insert("FEEDLINE_POOOL_BYTES".into(), "1 GiB".into());
    around.vars.insert("FEEDLINE_CACHE_BYTE".into(), "1 GiB".into());
    around.vars.insert("FEEDLINE_LAUNCHER_X".into(), "1".into());
    let message = Config::load(&Request::default(), &around).unwrap_err().to_string();
    assert!(message.contains("did you mean FEEDLINE_POOL_BYTES?"), "{message}");
    assert!(message.contains("did you mean FEEDLINE_CACHE_BYTES?"), "{message}");
    assert!(!message.contains("LAUNCHER"), "{message}");
}

#[test]
fn the_root_file_system_gives_a_tenth_and_a_full_disk_is_refused() {
    let mut around = around();
    around.space = |_| Ok(Space { root: true, ..DISK });
    assert_eq!(Config::load(&Request::default(), &around).unwrap().cache.bytes, 10 * GIB);
    around.space = |_| Ok(Space { free: 100 * MIB, cached: 0, root: false });
    let message = Config::load(&Request::default(), &around).unwrap_err().to_string();
    assert!(message.contains("only 100 MiB are free below /home/u/.cache/feedline"), "{message}");
    around.space = |_| Err(io::ErrorKind::PermissionDenied.into());
    assert!(
        Config::load(&Request::default(), &around).unwrap_err().to_string().contains("cannot be examined")
    );
    let told = Request { file: None, flags: vec![flag("cache.bytes", "10 MiB")] };
    assert_eq!(Config::load(&told, &around).unwrap().cache.bytes, 10 * MIB);
}

#[test]
fn the_default_limit_does_not_creep_while_the_cache_fills() {
    let mut around = around();
    let empty = Config::load(&Request::default(), &around).unwrap().cache.bytes;
    around.space = |_| Ok(Space { free: 20 * GIB, cached: 80 * GIB, root: false });
    assert_eq!(Config::load(&Request::default(), &around).unwrap().cache.bytes, empty);
}

#[test]
fn small_and_large_machines_get_a_pool_that_works() {
    let mut around = around();
    around.memory = 512 * MIB;
    assert_eq!(
        Config::load(&Request::default(), &around).unwrap().pool,
        Pool { bytes: 128 * MIB, block_bytes: 4 << 20 }
    );
    around.memory = 2048 * GIB;
    around.gpus = 8;
    assert_eq!(Config::load(&Request::default(), &around).unwrap().prefetch.threads, 8);
    around.cpus = 96;
    let large = Config::load(&Request::default(), &around).unwrap();
    assert_eq!((large.pool.bytes, large.prefetch.threads), (64 * GIB, 24));
    let told = |key: &str, value: &str| {
        Config::load(&Request { file: None, flags: vec![flag(key, value)] }, &around)
    };
    assert_eq!(told("pool.bytes", "50%").unwrap().pool.bytes, 1024 * GIB);
    assert!(told("pool.bytes", "91%").unwrap_err().to_string().contains("out of range"));
    assert!(told("pool.bytes", "3 TiB").unwrap_err().to_string().contains("more than the 2 TiB of memory"));
    assert!(told("prefetch.window_bytes", "1 TiB").unwrap_err().to_string().contains("more than the pool"));
}

#[test]
fn data_sets_and_stores_are_read_and_secrets_are_not_shown() {
    let config = load_text(
        "[dataset.imagenet]\nurls = [\"s3://b/train-*\", \"s3://c/x\"]\ncorrupt = { skip = 10 }\n\
         [dataset.one]\nurl = \"/data/*.tfrecord\"\n\
         [store]\nregion = \"r1\"\naccess_key = \"hush\"\nsecret_key = \"hush\"\n[store.\"s3://b/\"]\nendpoint = \"http://127.0.0.1:1\"\nretries = 3\n",
        &around(),
    )
    .unwrap();
    assert_eq!(
        config.dataset["imagenet"],
        Dataset {
            urls: vec!["s3://b/train-*".into(), "s3://c/x".into()],
            corrupt: CorruptPolicy::Skip { max: 10 }
        }
    );
    assert_eq!(config.dataset["one"].corrupt, CorruptPolicy::Fail);
    assert_eq!(config.store.default.region.as_deref(), Some("r1"));
    assert_eq!(config.store.at["s3://b/"].retries, Some(3));
    let shown = format!("{:?}{:?}", config.settings(), config.store);
    assert!(!shown.contains("hush") && shown.contains("secret_key"), "{shown}");
    let wrong = load_text("[store.\"s4://b/\"]\nregion = \"x\"\n", &around()).unwrap_err().to_string();
    assert!(wrong.contains("did you mean s3://?"), "{wrong}");
}

#[test]
fn store_options_come_from_variables_with_their_types() {
    let mut around = around();
    around.vars.insert("FEEDLINE_STORE_RETRIES".into(), "3".into());
    around.vars.insert("FEEDLINE_STORE_REGION".into(), "12345".into());
    around.vars.insert("FEEDLINE_STORE_ANONYMOUS".into(), "true".into());
    let store = Config::load(&Request::default(), &around).unwrap().store.default;
    assert_eq!((store.retries, store.anonymous), (Some(3), Some(true)));
    assert_eq!(store.region.as_deref(), Some("12345"));
}

#[test]
fn mistakes_in_store_options_stand_where_they_were_written() {
    let text = "[store]\nregoin = \"x\"\nretries = 101\nsecret_key = 5\n[store.\"s3://b/\"]\nstall_timeout = \"1ms\"\n\
                addressing = \"vhost\"\n";
    let message = load_text(text, &around()).unwrap_err().to_string();
    for expected in [
        "feedline.toml:2: store.regoin: unknown key; did you mean region?",
        "feedline.toml:3: store.retries = 101: cannot be used; allowed is ",
        "feedline.toml:4: store.secret_key: not of the right form",
        "feedline.toml:6: store.\"s3://b/\".stall_timeout = 1ms: cannot be used; allowed is 100ms..10m",
        "feedline.toml:7: store.\"s3://b/\".addressing = \"vhost\": not of the right form; allowed is one of",
    ] {
        assert!(message.contains(expected), "missing {expected:?} in:\n{message}");
    }
}

#[test]
fn the_table_has_exactly_the_options_that_stores_take() {
    use serde::Deserialize;
    let known: Vec<&str> = keys::section("store").unwrap().keys.iter().map(|key| key.name).collect();
    let table = toml::Table::from_iter([("nonsense".to_owned(), toml::Value::Boolean(true))]);
    let message = crate::source::SourceSettings::deserialize(table).unwrap_err().to_string();
    let taken: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
    assert_eq!(known, taken, "{message}");
}

#[test]
fn the_socket_directory_is_made_closed_and_a_foreign_one_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str, private| {
        let mut config = Config::load(&Request::default(), &around()).unwrap();
        config.serve.redirect(dir.path().join(name).join("feedline.sock"), private);
        config.serve
    };
    let ours = at("ours", true);
    ours.prepare_directory().unwrap();
    ours.prepare_directory().unwrap();
    assert_eq!(fs::metadata(dir.path().join("ours")).unwrap().permissions().mode() & 0o777, 0o700);
    symlink(dir.path().join("ours"), dir.path().join("link")).unwrap();
    assert!(matches!(at("link", true).prepare_directory(), Err(ServeError::Foreign { .. })));
    fs::set_permissions(dir.path().join("ours"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(ours.prepare_directory(), Err(ServeError::Foreign { .. })));
    at("ours", false).prepare_directory().unwrap();
    at("new/nested", false).prepare_directory().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(matches!(at("file", true).prepare_directory(), Err(ServeError::Directory { .. })));
}

#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let page = fs::read_to_string(path).unwrap_or_default();
    assert!(page == configuration_page(), "run: feedline docs configuration > docs/configuration.md");
}
