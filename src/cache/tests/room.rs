//! The limit, and who goes for whom.

use super::super::ledger::{charge_of, footprint};
use super::*;

const LEN: usize = 4 * BLOCK;

fn one() -> u64 {
    footprint(LEN as u64)
}

#[test]
fn least_recently_used_goes_first_and_shards_in_use_never() {
    let place = Place::new(3 * one());
    let cache = place.open();
    for n in 0..3 {
        put(&cache, n, LEN).unwrap();
    }
    let held = cache.lookup(&identity(0).id()).unwrap();
    put(&cache, 3, LEN).unwrap();
    assert!(
        !cache.contains(&identity(1).id())
            && !place.file(1, "data").exists()
            && !place.file(1, "meta").exists()
    );
    put(&cache, 4, LEN).unwrap();
    put(&cache, 5, LEN).unwrap();
    assert!(cache.contains(&identity(0).id()), "oldest, but in use");
    assert_eq!(read(&held).unwrap(), content(0, LEN));
    assert_eq!(count(&cache, "evictions"), 3);
    drop(held);
    put(&cache, 6, LEN).unwrap();
    assert!(!cache.contains(&identity(0).id()));
}

#[test]
fn a_shard_larger_than_the_limit_is_refused_with_both_numbers_and_evicts_nothing() {
    let place = Place::new(1 << 20);
    let cache = place.open();
    put(&cache, 1, LEN).unwrap();
    let error = cache.reserve(10 << 20).unwrap_err();
    assert_eq!(error, ReserveError::TooLarge { asked: footprint(10 << 20), limit: 1 << 20 });
    assert!(
        error.to_string().contains("1048576") && error.to_string().contains(&footprint(10 << 20).to_string())
    );
    assert!(matches!(cache.reserve(u64::MAX), Err(ReserveError::TooLarge { .. })));
    assert!(cache.contains(&identity(1).id()));
}

#[test]
fn room_in_use_is_refused_and_nothing_is_evicted_in_vain() {
    let place = Place::new(2 * one());
    let cache = place.open();
    let held = put(&cache, 1, LEN).unwrap();
    put(&cache, 2, LEN).unwrap();
    let asked = footprint(2 * LEN as u64);
    let error = cache.reserve(2 * LEN as u64).unwrap_err();
    assert_eq!(error, ReserveError::AllInUse { asked, limit: 2 * one(), in_use: held.disk_bytes() });
    assert!(cache.contains(&identity(2).id()));
    drop(held);
    let reservation = cache.reserve(2 * LEN as u64).unwrap();
    assert_eq!(cache.usage().reserved, reservation.held_bytes());
    assert!(matches!(cache.reserve(LEN as u64), Err(ReserveError::AllInUse { .. })), "reserved is in use");
    drop(reservation);
    assert_eq!((cache.usage().used, cache.usage().reserved), (0, 0));
}

#[test]
fn nothing_is_written_beyond_the_reservation_unless_it_grows() {
    let place = Place::new(3 * one());
    let cache = place.open();
    let writer = cache.create(identity(1), cache.reserve(1000).unwrap()).unwrap();
    let write = |offset| wait(writer.write_block(offset, AlignedBuf::new(BLOCK), 0, BLOCK)).0;
    let refused = write(0).unwrap_err();
    assert!(matches!(refused, CacheError::Unreserved { reserved: 1000, .. }), "{refused}");
    writer.reserve_more((LEN - 1000) as u64).unwrap();
    assert_eq!(cache.usage().reserved, one(), "grown in steps costs what it costs at once");
    assert!(matches!(writer.reserve_more(1 << 40), Err(ReserveError::TooLarge { .. })));
    (0..4).for_each(|k| write((k * BLOCK) as u64).unwrap());
    let zero = crate::record::crc32c(&[0; BLOCK]);
    let shard = wait(writer.commit(LEN as u64, 65536, vec![zero; 4])).unwrap();
    assert_eq!(read(&shard).unwrap(), vec![0; LEN]);
    assert_eq!(cache.usage().reserved, 0);
}

#[test]
fn a_commit_that_contradicts_itself_leaves_nothing() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    let short = begin(&cache, 1, LEN).unwrap();
    let error = wait(short.commit(LEN as u64 + 1, 65536, vec![0; 5])).unwrap_err();
    assert!(matches!(error, CacheError::Incomplete { .. }), "{error}");
    let crcs = begin(&cache, 1, LEN).unwrap();
    let error = wait(crcs.commit(LEN as u64, 65536, vec![0; 3])).unwrap_err();
    assert!(matches!(error, CacheError::Meta { .. }), "{error}");
    assert_eq!((cache.usage().used, cache.usage().reserved), (0, 0));
    assert_eq!(fs::read_dir(place.dir().join("tmp")).unwrap().count(), 0);
}

#[test]
fn an_aborted_writer_gives_its_room_back_with_a_write_under_way() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    let writer = begin(&cache, 1, LEN).unwrap();
    {
        let mut write = Box::pin(writer.write_block(0, AlignedBuf::new(BLOCK), 0, BLOCK));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _started = write.as_mut().poll(&mut context);
    }
    drop(writer);
    assert_eq!((cache.usage().used, cache.usage().reserved), (0, 0));
    assert_eq!(fs::read_dir(place.dir().join("tmp")).unwrap().count(), 0);
}

#[test]
fn an_object_that_shrinks_or_a_long_url_is_charged_as_it_is() {
    let place = Place::new(8 << 20);
    let cache = place.open();
    let long = ObjectIdentity { url: format!("https://host/{}", "k".repeat(20_000)), ..identity(1) };
    let writer = cache.create(long.clone(), cache.reserve(8192).unwrap()).unwrap();
    wait(writer.write_block(0, AlignedBuf::new(4096), 0, 4096)).0.unwrap();
    let shard = wait(writer.commit(4000, 65536, vec![crate::record::crc32c(&[0; 4000])])).unwrap();
    let meta_len = shard.meta().to_bytes().unwrap().len() as u64;
    assert_eq!(shard.disk_bytes(), charge_of(4000, meta_len));
    assert_eq!((cache.usage().used, cache.usage().reserved), (shard.disk_bytes(), 0));
}

#[test]
fn indexes_make_room_for_shards_but_not_before_shards_do() {
    let place = Place::new(2 * one());
    let cache = place.open();
    cache.save_index(&identity(7).id(), &[1; 100]).unwrap();
    put(&cache, 1, LEN).unwrap();
    put(&cache, 2, LEN).unwrap();
    assert!(!cache.contains(&identity(1).id()) && cache.load_index(&identity(7).id()).is_some());
    let _most = cache.reserve(2 * LEN as u64).unwrap();
    assert!(!cache.contains(&identity(2).id()) && cache.load_index(&identity(7).id()).is_some());
    let _rest = cache.reserve(0).unwrap();
    assert!(cache.load_index(&identity(7).id()).is_none());
    assert_eq!((cache.usage().used, cache.usage().reserved), (0, place.bytes));
}

#[test]
fn a_lowered_limit_evicts_at_start_in_the_order_of_use() {
    let mut place = Place::new(5 * one());
    let cache = place.open();
    for n in 0..5 {
        put(&cache, n, LEN).unwrap();
    }
    drop(cache);
    // The order of use is in the modification times; 0 was used last.
    for n in 0..5u64 {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(2_000_000_000 - 1_000 * n);
        fs::File::options().write(true).open(place.file(n, "meta")).unwrap().set_modified(time).unwrap();
    }
    place.bytes = 2 * one();
    let cache = place.open();
    let kept: Vec<u64> = (0..5).filter(|n| cache.contains(&identity(*n).id())).collect();
    assert_eq!(kept, [0, 1]);
    assert!(cache.usage().used <= place.bytes && du(&place.dir()) <= place.bytes + MARGIN_BYTES);
    assert!(holds(&cache, 0, LEN));
}

#[test]
fn a_use_is_noted_on_disk_at_most_once_a_minute() {
    let place = Place::new(8 << 20);
    put(&place.open(), 1, LEN).unwrap();
    let meta = place.file(1, "meta");
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let set_old = || fs::File::options().write(true).open(&meta).unwrap().set_modified(old).unwrap();
    let modified = || fs::metadata(&meta).unwrap().modified().unwrap();
    set_old();
    let cache = place.open();
    assert!(holds(&cache, 1, LEN));
    assert!(modified() > old);
    set_old();
    assert!(holds(&cache, 1, LEN));
    assert_eq!(modified(), old);
}

#[test]
fn many_at_once_stay_within_the_limit() {
    let place = Place::new(4 * one());
    let cache = place.open();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let cache = &cache;
            scope.spawn(move || {
                for n in 0..12 {
                    let n = thread * 3 + n;
                    match put(cache, n, LEN) {
                        Ok(shard) => assert_eq!(read(&shard).unwrap(), content(n, LEN)),
                        Err(CacheError::Reserve(ReserveError::AllInUse { .. })) => {}
                        Err(error) => panic!("{error}"),
                    }
                    let usage = cache.usage();
                    assert!(usage.used + usage.reserved <= usage.limit);
                }
            });
        }
    });
    assert!(du(&place.dir()) <= place.bytes + MARGIN_BYTES);
    let usage = cache.usage();
    assert_eq!(usage.reserved, 0);
    drop(cache);
    assert_eq!(place.open().usage(), usage);
}
