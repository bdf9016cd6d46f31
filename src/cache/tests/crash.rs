//! What a start finds after a kill at each step of a commit or a removal, or after damage while it was down.

use super::*;

const LEN: usize = 2 * BLOCK + 100;

/// A directory with shard 1 whole; its files are then moved or damaged as a kill would have left them.
fn stopped() -> Place {
    let place = Place::new(8 << 20);
    put(&place.open(), 1, LEN).unwrap();
    place
}

/// The next start sees no shard 1, has removed what was left of it, and can take it in again.
fn gone(place: &Place, orphans: u64, bad: u64) {
    let cache = place.open();
    assert!(!cache.contains(&identity(1).id()));
    assert_eq!((count(&cache, "orphans_removed"), count(&cache, "bad_metas")), (orphans, bad));
    assert_eq!((cache.usage().used, cache.usage().reserved), (0, 0));
    assert!(!place.file(1, "data").exists() && !place.file(1, "meta").exists());
    assert_eq!(fs::read_dir(place.dir().join("tmp")).unwrap().count(), 0);
    put(&cache, 1, LEN).unwrap();
    assert!(holds(&cache, 1, LEN));
}

fn to_tmp(place: &Place, suffix: &str) {
    let name = format!("{}.{:016x}.{suffix}", identity(1).id(), 5);
    fs::rename(place.file(1, suffix), place.dir().join("tmp").join(name)).unwrap();
}

#[test]
fn killed_while_writing_data() {
    let place = stopped();
    to_tmp(&place, "data");
    fs::remove_file(place.file(1, "meta")).unwrap();
    gone(&place, 1, 0);
}

#[test]
fn killed_before_the_first_rename() {
    let place = stopped();
    to_tmp(&place, "data");
    to_tmp(&place, "meta");
    gone(&place, 2, 0);
}

#[test]
fn killed_between_the_renames_or_in_a_removal() {
    let place = stopped();
    to_tmp(&place, "meta");
    gone(&place, 2, 0);
    let place = stopped();
    fs::remove_file(place.file(1, "meta")).unwrap();
    gone(&place, 1, 0);
}

#[test]
fn names_reordered_by_a_power_loss() {
    let place = stopped();
    fs::remove_file(place.file(1, "data")).unwrap();
    gone(&place, 0, 1);
}

#[test]
fn dropped_without_commit_leaves_nothing() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    drop(begin(&cache, 1, LEN).unwrap());
    assert_eq!(cache.usage().reserved, 0);
    drop(cache);
    gone(&place, 0, 0);
}

#[test]
fn damaged_metadata() {
    let place = stopped();
    flip(&place.file(1, "meta"), 60);
    gone(&place, 1, 1);
    for len in [0, 10, 75, 100] {
        let place = stopped();
        fs::File::options().write(true).open(place.file(1, "meta")).unwrap().set_len(len).unwrap();
        gone(&place, 1, 1);
    }
}

#[test]
fn metadata_of_another_version_or_another_shard() {
    let place = stopped();
    flip(&place.file(1, "meta"), 8);
    gone(&place, 1, 1);
    let place = stopped();
    put(&place.open(), 2, LEN).unwrap();
    fs::copy(place.file(2, "meta"), place.file(1, "meta")).unwrap();
    let cache = place.open();
    assert!(!cache.contains(&identity(1).id()) && holds(&cache, 2, LEN));
}

#[test]
fn data_of_the_wrong_length() {
    for len in [0, 4096, 1 << 20] {
        let place = stopped();
        fs::File::options().write(true).open(place.file(1, "data")).unwrap().set_len(len).unwrap();
        gone(&place, 1, 1);
    }
}

#[test]
fn metadata_damaged_while_running_is_a_miss_and_gives_the_room_back() {
    let place = stopped();
    let cache = place.open();
    flip(&place.file(1, "meta"), 60);
    assert!(cache.lookup(&identity(1).id()).is_none());
    assert!(!cache.contains(&identity(1).id()));
    assert_eq!((cache.usage().used, count(&cache, "bad_metas")), (0, 1));
    put(&cache, 1, LEN).unwrap();
    assert!(holds(&cache, 1, LEN));
}

#[test]
fn a_commit_replaces_an_entry_that_cannot_be_opened() {
    let place = stopped();
    let cache = place.open();
    fs::remove_file(place.file(1, "data")).unwrap();
    put(&cache, 1, LEN).unwrap();
    assert!(holds(&cache, 1, LEN));
    assert_eq!(cache.usage().shards, 1);
}

#[test]
fn foreign_files_stay() {
    let place = stopped();
    let shards = place.dir().join("shards");
    let folder = place.file(1, "meta").parent().unwrap().to_owned();
    let id = identity(1).id().to_string();
    let precious = place.home.path().join("precious");
    fs::write(&precious, "data").unwrap();
    let files = [
        shards.join("README"),
        folder.join("train-0001.tfrecord"),
        folder.join(format!("{id}.data.bak")),
        place.dir().join("tmp/notes"),
        place.dir().join("index/x.idx"),
        place.dir().join("my-results.csv"),
    ];
    files.iter().for_each(|path| fs::write(path, "data").unwrap());
    let link = folder.join(format!("{}ff.data", &id[..30]));
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    let cache = place.open();
    assert_eq!(count(&cache, "foreign_files"), 6, "the one beside the marker is not looked at");
    assert!(holds(&cache, 1, LEN));
    cache.discard(&identity(1).id());
    drop(cache);
    drop(place.open());
    for path in files.iter().chain([&precious, &link]) {
        assert_eq!(fs::read_to_string(path).unwrap(), "data", "{}", path.display());
    }
}

#[test]
fn links_in_place_of_own_files_are_not_followed() {
    let place = stopped();
    let elsewhere = place.home.path().join("elsewhere");
    fs::rename(place.file(1, "data"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.file(1, "data")).unwrap();
    let cache = place.open();
    assert!(!cache.contains(&identity(1).id()));
    assert!(elsewhere.exists(), "only the metadata went");
    put(&cache, 1, LEN).unwrap();
    assert!(holds(&cache, 1, LEN) && fs::symlink_metadata(place.file(1, "data")).unwrap().is_file());
    assert!(elsewhere.exists());
}
