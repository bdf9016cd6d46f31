//! Random operations against a plain list: what is in the cache, what room it takes, and in which order it goes.

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::ledger::footprint;
use super::*;

const LIMIT: u64 = 300 << 10;
const LENGTHS: [usize; 6] = [0, 4097, BLOCK, BLOCK + 1, 2 * BLOCK, 5 * BLOCK];

#[derive(Debug, Clone)]
enum Step {
    Begin(u64),
    Commit(Index),
    Abort(Index),
    Look { n: u64, hold: bool },
    Release(Index),
    Discard(u64),
    Reopen,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..12).prop_map(Step::Begin),
        6 => any::<Index>().prop_map(Step::Commit),
        1 => any::<Index>().prop_map(Step::Abort),
        4 => (0u64..12, any::<bool>()).prop_map(|(n, hold)| Step::Look { n, hold }),
        3 => any::<Index>().prop_map(Step::Release),
        1 => (0u64..12).prop_map(Step::Discard),
        1 => Just(Step::Reopen),
    ]
}

fn len_of(n: u64) -> usize {
    LENGTHS[usize::try_from(n).unwrap() % LENGTHS.len()]
}

/// The plain truth: shards in order of use with their charge, those in use, those discarded but still in use.
#[derive(Default)]
struct Model {
    order: Vec<(u64, u64)>,
    held: Vec<(u64, u64, bool, Arc<CachedShard>)>,
    writers: Vec<(u64, u64, ShardWriter)>,
}

impl Model {
    fn has(&self, n: u64) -> bool {
        self.order.iter().any(|(other, _)| *other == n)
    }

    fn in_use(&self, n: u64) -> bool {
        self.held.iter().any(|(other, _, listed, _)| *other == n && *listed)
    }

    fn used(&self) -> u64 {
        let listed: u64 = self.order.iter().map(|(_, charge)| charge).sum();
        let mut ghosts: Vec<_> = self.held.iter().filter(|(_, _, listed, _)| !listed).collect();
        ghosts.sort_by_key(|(.., shard)| Arc::as_ptr(shard));
        ghosts.dedup_by_key(|(.., shard)| Arc::as_ptr(shard));
        listed + ghosts.iter().map(|(_, charge, ..)| charge).sum::<u64>()
    }

    fn reserved(&self) -> u64 {
        self.writers.iter().map(|(_, held, _)| held).sum()
    }

    /// Evicts for `asked` bytes as the promise says; `false` if there is no way.
    fn make_room(&mut self, asked: u64) -> bool {
        let mut need = (self.used() + self.reserved() + asked).saturating_sub(LIMIT);
        let mut goes = Vec::new();
        for (n, charge) in &self.order {
            if need > 0 && !self.in_use(*n) {
                goes.push(*n);
                need = need.saturating_sub(*charge);
            }
        }
        if need == 0 {
            self.order.retain(|(n, _)| !goes.contains(n));
        }
        need == 0
    }

    fn use_now(&mut self, n: u64) {
        let at = self.order.iter().position(|(other, _)| *other == n).unwrap();
        let entry = self.order.remove(at);
        self.order.push(entry);
    }
}

fn run(steps: Vec<Step>) {
    let place = Place::new(LIMIT);
    let mut cache = place.open();
    let mut model = Model::default();
    for (at, step) in steps.into_iter().enumerate() {
        match step {
            Step::Begin(n) => {
                let asked = footprint(len_of(n) as u64);
                let fits = asked <= LIMIT && model.make_room(asked);
                match begin(&cache, n, len_of(n)) {
                    Ok(writer) => {
                        assert!(fits);
                        model.writers.push((n, asked, writer));
                    }
                    Err(CacheError::Reserve(ReserveError::TooLarge { .. })) => assert!(asked > LIMIT),
                    Err(CacheError::Reserve(ReserveError::AllInUse { .. })) => {
                        assert!(!fits && asked <= LIMIT)
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Commit(pick) if !model.writers.is_empty() => {
                let (n, _, writer) = model.writers.remove(pick.index(model.writers.len()));
                let shard = commit(writer, n, len_of(n)).unwrap();
                match model.has(n) {
                    true => model.use_now(n),
                    false => model.order.push((n, shard.disk_bytes())),
                }
            }
            Step::Abort(pick) if !model.writers.is_empty() => {
                drop(model.writers.remove(pick.index(model.writers.len())));
            }
            Step::Look { n, hold } => {
                let found = cache.lookup(&identity(n).id());
                assert_eq!(found.is_some(), model.has(n));
                if let Some(shard) = found {
                    model.use_now(n);
                    assert_eq!(read(&shard).unwrap(), content(n, len_of(n)));
                    if hold {
                        model.held.push((n, shard.disk_bytes(), true, shard));
                    }
                }
            }
            Step::Release(pick) if !model.held.is_empty() => {
                drop(model.held.remove(pick.index(model.held.len())));
            }
            Step::Discard(n) => {
                cache.discard(&identity(n).id());
                model.order.retain(|(other, _)| *other != n);
                model.held.iter_mut().filter(|(other, ..)| *other == n).for_each(|held| held.2 = false);
            }
            Step::Reopen => {
                model.writers.clear();
                model.held.clear();
                drop(cache);
                cache = place.open();
                let used = |n: u64| fs::metadata(place.file(n, "meta")).unwrap().modified().unwrap();
                model.order.sort_by_key(|(n, _)| (used(*n), identity(*n).id()));
            }
            _ => {}
        }
        let usage = cache.usage();
        assert_eq!((usage.used, usage.reserved), (model.used(), model.reserved()));
        assert!(usage.used + usage.reserved <= LIMIT);
        if at % 8 == 0 {
            assert!(du(&place.dir()) <= LIMIT + MARGIN_BYTES);
        }
        for n in 0..12 {
            assert_eq!(cache.contains(&identity(n).id()), model.has(n), "shard {n}");
        }
    }
}

proptest! {
    // Every case works on a real directory with real syncs.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn behaves_like_a_plain_list(steps in prop::collection::vec(steps(), 20..100)) {
        run(steps);
    }
}
