//! Which directories are taken, and by whom.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_directory_with_other_contents_is_refused_untouched() {
    let place = Place::new(1 << 20);
    fs::create_dir(place.dir()).unwrap();
    fs::write(place.dir().join("train.tfrecord"), "data").unwrap();
    let error = place.try_open().unwrap_err();
    assert!(matches!(error, CacheError::Foreign { .. }));
    let text = error.to_string();
    assert!(text.contains("train.tfrecord") && text.contains("cache.dir"), "{text}");
    assert_eq!(fs::read_dir(place.dir()).unwrap().count(), 1, "nothing was made in it");
}

#[test]
fn a_fresh_file_system_is_taken_and_so_is_a_start_cut_short() {
    let place = Place::new(1 << 20);
    fs::create_dir_all(place.dir().join("lost+found")).unwrap();
    drop(place.open());
    let place = Place::new(1 << 20);
    fs::create_dir(place.dir()).unwrap();
    fs::write(place.dir().join("feedline-cache"), "").unwrap();
    drop(place.open());
    assert_eq!(fs::read_to_string(place.dir().join("feedline-cache")).unwrap(), "feedline-cache 1\n");
}

#[test]
fn a_second_daemon_is_refused_naming_the_first_and_a_dead_one_does_not_matter() {
    let place = Place::new(1 << 20);
    let cache = place.open();
    let error = place.try_open().unwrap_err();
    assert!(matches!(error, CacheError::Locked { .. }));
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(cache);
    fs::write(place.dir().join("lock"), "4194305\n").unwrap();
    drop(place.open());
    assert_eq!(fs::read_to_string(place.dir().join("lock")).unwrap(), format!("{}\n", std::process::id()));
}

#[test]
fn a_directory_of_another_layout_is_refused_untouched() {
    let place = Place::new(1 << 20);
    put(&place.open(), 1, 10).unwrap();
    fs::write(place.dir().join("feedline-cache"), "feedline-cache 2\n").unwrap();
    let error = place.try_open().unwrap_err();
    assert!(matches!(&error, CacheError::Layout { found, .. } if found == "feedline-cache 2"), "{error}");
    assert!(place.file(1, "data").exists());
}

#[test]
fn a_directory_that_may_not_be_written_is_refused_with_path_and_mode() {
    let place = Place::new(1 << 20);
    fs::create_dir(place.dir()).unwrap();
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o500)).unwrap();
    let text = place.try_open().unwrap_err().to_string();
    assert!(text.contains("0500") && text.contains(place.dir().to_str().unwrap()), "{text}");
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let place = Place::new(1 << 20);
    fs::create_dir(place.dir()).unwrap();
    // Only root can give a directory away; for everybody else `/` belongs to another user.
    let dir = match std::os::unix::fs::chown(place.dir(), Some(12345), None) {
        Ok(()) => place.dir(),
        Err(_) => PathBuf::from("/"),
    };
    let error = Cache::open(CacheSettings::new(&dir, 1 << 20), place.ring.clone()).unwrap_err();
    assert!(matches!(error, CacheError::Access { .. }), "{error}");
    assert!(error.to_string().contains("another user"), "{error}");
}

#[test]
fn a_file_is_not_a_directory() {
    let place = Place::new(1 << 20);
    fs::write(place.dir(), "data").unwrap();
    assert!(place.try_open().unwrap_err().to_string().contains("not a directory"));
}
