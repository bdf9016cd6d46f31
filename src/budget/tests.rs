use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;

type Pending = Pin<Box<dyn Future<Output = Result<Permit, BudgetError>>>>;

fn start(budget: &ByteBudget, bytes: u64, lane: Lane) -> Pending {
    let budget = budget.clone();
    Box::pin(async move { budget.reserve(bytes, lane).await })
}

fn poll(future: &mut Pending) -> Option<Permit> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result.unwrap()),
        Poll::Pending => None,
    }
}

#[test]
fn a_request_larger_than_the_limit_names_both_numbers() {
    let budget = ByteBudget::new(100);
    let error = budget.try_reserve(101, Lane::Demand).unwrap_err();
    assert_eq!(error, BudgetError::TooLarge { asked: 101, limit: 100 });
    assert!(error.to_string().contains("101") && error.to_string().contains("100"));
}

#[test]
fn demand_goes_before_ahead_and_each_lane_is_first_come_first_served() {
    let budget = ByteBudget::new(10);
    let all = budget.try_reserve(10, Lane::Ahead).unwrap().unwrap();
    let mut ahead = start(&budget, 5, Lane::Ahead);
    let mut first = start(&budget, 8, Lane::Demand);
    let mut second = start(&budget, 1, Lane::Demand);
    for future in [&mut ahead, &mut first, &mut second] {
        assert!(poll(future).is_none());
    }
    assert_eq!(budget.waiting(), 3);
    drop(all);
    let first = poll(&mut first).expect("the first in the demand lane");
    let second = poll(&mut second).expect("fits beside the first");
    assert!(poll(&mut ahead).is_none(), "only one byte is left");
    assert!(budget.try_reserve(1, Lane::Ahead).unwrap().is_none(), "nobody overtakes inside a lane");
    drop(first);
    assert!(poll(&mut ahead).is_some());
    drop(second);
    drop(ahead);
    assert_eq!((budget.used(), budget.waiting(), budget.peak()), (0, 0, 10));
}

#[test]
fn a_large_head_is_not_starved_and_its_going_lets_the_next_in() {
    let budget = ByteBudget::new(10);
    let held = budget.try_reserve(5, Lane::Demand).unwrap().unwrap();
    let mut large = start(&budget, 9, Lane::Demand);
    let mut small = start(&budget, 2, Lane::Demand);
    assert!(poll(&mut large).is_none() && poll(&mut small).is_none());
    drop(large);
    assert!(poll(&mut small).is_some(), "the head left, so the next one fits");
    drop(held);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_grant_to_a_dropped_future_comes_back() {
    let budget = ByteBudget::new(4);
    let held = budget.try_reserve(4, Lane::Demand).unwrap().unwrap();
    let mut waiting = start(&budget, 3, Lane::Ahead);
    assert!(poll(&mut waiting).is_none());
    drop(held);
    assert_eq!(budget.used(), 3, "granted, not yet taken");
    drop(waiting);
    assert_eq!((budget.used(), budget.waiting()), (0, 0));
}

#[test]
fn shrinking_returns_the_rest() {
    let budget = ByteBudget::new(4);
    let mut held = budget.try_reserve(4, Lane::Demand).unwrap().unwrap();
    let mut waiting = start(&budget, 3, Lane::Ahead);
    assert!(poll(&mut waiting).is_none());
    held.shrink(1);
    assert!(poll(&mut waiting).is_some());
    held.shrink(9);
    assert_eq!(held.bytes(), 1);
}

#[derive(Debug, Clone)]
enum Step {
    Ask(u64, bool),
    Try(u64, bool),
    Poll(usize),
    Cancel(usize),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..=20u64, any::<bool>()).prop_map(|(bytes, demand)| Step::Ask(bytes, demand)),
        (0..=20u64, any::<bool>()).prop_map(|(bytes, demand)| Step::Try(bytes, demand)),
        any::<usize>().prop_map(Step::Poll),
        any::<usize>().prop_map(Step::Cancel),
        any::<usize>().prop_map(Step::Release),
    ]
}

fn lane(demand: bool) -> Lane {
    if demand { Lane::Demand } else { Lane::Ahead }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn never_above_the_limit_and_back_at_zero(steps in prop::collection::vec(step(), 1..120)) {
        let budget = ByteBudget::new(20);
        let mut waiting: Vec<Pending> = Vec::new();
        let mut held: Vec<Permit> = Vec::new();
        for step in steps {
            match step {
                Step::Ask(bytes, demand) => {
                    let mut future = start(&budget, bytes, lane(demand));
                    match poll(&mut future) {
                        Some(permit) => held.push(permit),
                        None => waiting.push(future),
                    }
                }
                Step::Try(bytes, demand) => held.extend(budget.try_reserve(bytes, lane(demand)).unwrap()),
                Step::Poll(at) if !waiting.is_empty() => {
                    let at = at % waiting.len();
                    if let Some(permit) = poll(&mut waiting[at]) {
                        held.push(permit);
                        drop(waiting.swap_remove(at));
                    }
                }
                Step::Cancel(at) if !waiting.is_empty() => drop(waiting.swap_remove(at % waiting.len())),
                Step::Release(at) if !held.is_empty() => drop(held.swap_remove(at % held.len())),
                _ => {}
            }
            let sum: u64 = held.iter().map(Permit::bytes).sum();
            prop_assert!(budget.used() <= budget.limit());
            prop_assert!(sum <= budget.used(), "granted permits that were not yet taken count as used");
            prop_assert!(budget.peak() <= budget.limit());
            // No lost wake-up: whoever still waits cannot all be served from what is free.
            prop_assert!(budget.waiting() == 0 || budget.used() > 0);
        }
        // Everybody who waits is served once the holders let go, one after another.
        held.clear();
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain_mut(|future| poll(future).is_none());
            prop_assert!(waiting.len() < before, "a waiter was forgotten");
        }
        prop_assert_eq!((budget.used(), budget.waiting()), (0, 0));
    }
}

#[test]
fn many_threads_share_one_budget() {
    let budget = ByteBudget::new(64);
    std::thread::scope(|scope| {
        for seed in 0..4u64 {
            let budget = budget.clone();
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async {
                    for i in 0..500 {
                        let bytes = (seed * 31 + i * 17) % 65;
                        let permit = budget.reserve(bytes, lane(i % 3 == 0)).await.unwrap();
                        assert!(budget.used() <= 64);
                        drop(permit);
                    }
                });
            });
        }
    });
    assert_eq!((budget.used(), budget.waiting()), (0, 0));
    assert!(budget.peak() <= 64);
}
