//! A shard's life without accidents, and with damaged bytes.

use std::os::unix::fs::PermissionsExt;

use super::*;

const LEN: usize = 3 * BLOCK + 1234;

#[test]
fn what_was_written_is_read_and_survives_a_restart() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    assert!(cache.lookup(&identity(1).id()).is_none());
    let shard = put(&cache, 1, LEN).unwrap();
    assert_eq!(read(&shard).unwrap(), content(1, LEN));
    put(&cache, 2, 0).unwrap();
    put(&cache, 3, BLOCK).unwrap();
    let usage = cache.usage();
    drop((shard, cache));
    let cache = place.open();
    assert_eq!(cache.usage(), usage);
    assert_eq!((usage.shards, usage.reserved), (3, 0));
    assert!(holds(&cache, 1, LEN) && holds(&cache, 2, 0) && holds(&cache, 3, BLOCK));
    assert_eq!((count(&cache, "hits"), count(&cache, "misses")), (3, 0));
}

#[test]
fn look_ups_share_one_open_file() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    put(&cache, 1, LEN).unwrap();
    let (a, b) = (cache.lookup(&identity(1).id()).unwrap(), cache.lookup(&identity(1).id()).unwrap());
    assert!(Arc::ptr_eq(&a, &b));
}

#[test]
fn files_and_folders_are_private() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    put(&cache, 1, LEN).unwrap();
    cache.save_index(&identity(1).id(), b"index").unwrap();
    fn check(path: &Path) {
        let stat = fs::symlink_metadata(path).unwrap();
        let expected = if stat.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(stat.permissions().mode() & 0o777, expected, "{}", path.display());
        if stat.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| check(&entry.unwrap().path()));
        }
    }
    check(&place.dir());
}

#[test]
fn a_flipped_bit_is_found_before_delivery_and_the_shard_can_be_replaced() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    put(&cache, 1, LEN).unwrap();
    flip(&place.file(1, "data"), BLOCK + 7);
    let shard = cache.lookup(&identity(1).id()).unwrap();
    let error = read(&shard).unwrap_err();
    assert!(error.is_damage());
    let CacheError::Corrupt { url, block, offset, expected, found } = error else { panic!("{error}") };
    assert_eq!((url.as_str(), block, offset), ("s3://bucket/00001.tfrecord", 1, BLOCK as u64));
    assert_eq!(expected, crcs(&content(1, LEN))[1]);
    assert_ne!(expected, found);
    let used = cache.usage().used;
    cache.discard(&identity(1).id());
    assert!(cache.lookup(&identity(1).id()).is_none());
    assert_eq!(cache.usage().used, used, "its reader still holds the room");
    put(&cache, 1, LEN).unwrap();
    drop(shard);
    assert_eq!(cache.usage().used, used);
    assert!(holds(&cache, 1, LEN));
}

#[test]
fn a_flipped_bit_in_the_padding_harms_nobody() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    put(&cache, 1, LEN).unwrap();
    flip(&place.file(1, "data"), LEN + 5);
    assert!(holds(&cache, 1, LEN));
}

#[test]
fn data_cut_while_in_use_is_an_error_not_a_short_block() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    let shard = put(&cache, 1, LEN).unwrap();
    fs::File::options().write(true).open(place.file(1, "data")).unwrap().set_len(4096).unwrap();
    let error = read(&shard).unwrap_err();
    assert!(matches!(error, CacheError::Cut { block: 0, found: 4096, .. }), "{error}");
    assert!(error.is_damage());
    let (beyond, _) = wait(shard.read_block(4, AlignedBuf::new(BLOCK)));
    assert!(matches!(beyond, Err(CacheError::NoSuchBlock { block: 4, blocks: 4, .. })));
}

#[test]
fn the_same_shard_committed_twice_is_kept_once() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    let (first, second) = (begin(&cache, 1, LEN).unwrap(), begin(&cache, 1, LEN).unwrap());
    let first = commit(first, 1, LEN).unwrap();
    let second = commit(second, 1, LEN).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(cache.usage().used, first.disk_bytes());
    assert_eq!(cache.usage().reserved, 0);
}

#[test]
fn indexes_outlive_their_shard_and_stay_in_their_allowance() {
    let place = Place::new(1 << 20);
    let cache = place.open();
    let allowance = place.bytes / 32;
    for n in 0..20 {
        cache.save_index(&identity(n).id(), &content(n, 5000)).unwrap();
        assert!(cache.usage().index <= allowance);
        assert!(cache.load_index(&identity(0).id()).is_some(), "used all the time, so it stays");
    }
    assert!(cache.load_index(&identity(1).id()).is_none(), "least recently used");
    assert_eq!(count(&cache, "index_evictions"), 17);
    cache.save_index(&identity(0).id(), b"new").unwrap();
    cache.save_index(&identity(99).id(), &vec![0; 1 << 20]).unwrap();
    assert!(cache.load_index(&identity(99).id()).is_none(), "larger than the allowance");
    cache.discard(&identity(0).id());
    let usage = cache.usage();
    drop(cache);
    let cache = place.open();
    assert_eq!(cache.usage(), usage);
    assert_eq!(cache.load_index(&identity(0).id()).unwrap(), b"new");
    assert_eq!(cache.load_index(&identity(19).id()).unwrap(), content(19, 5000));
}
