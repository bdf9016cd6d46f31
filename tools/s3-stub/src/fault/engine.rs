//! Decides for each request which rules apply, and adds their actions up.

use super::{Action, FaultPlan, Rule, key_matches};
use crate::s3::{Operation, S3Error};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What is to be done to one request.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) latency: Duration,
    pub(crate) ending: Option<Ending>,
    pub(crate) body: BodyFaults,
    pub(crate) short_by: u64,
    pub(crate) empty: bool,
    pub(crate) drop_etag: bool,
    pub(crate) chunked: bool,
    pub(crate) ignore_range: bool,
    pub(crate) ignore_conditions: bool,
    pub(crate) repeat_page: bool,
    pub(crate) change: bool,
    pub(crate) remove: bool,
    /// The rules' names, for the log.
    pub(crate) names: Vec<String>,
}

/// What takes the place of the reply.
#[derive(Debug)]
pub(crate) enum Ending {
    Error(S3Error),
    /// Status 200 with the error as the body.
    ErrorIn200(S3Error),
    Silence(Duration),
    Close {
        reset: bool,
    },
}

/// What happens while the body is sent.
#[derive(Debug, Default)]
pub(crate) struct BodyFaults {
    pub(crate) pacers: Vec<Arc<Pacer>>,
    pub(crate) cut: Option<(u64, bool)>,
    pub(crate) stall: Option<(u64, Duration)>,
    /// Object offsets of bytes to invert.
    pub(crate) flips: Vec<u64>,
    /// Draws for bytes to invert anywhere in the reply.
    pub(crate) random_flips: Vec<u64>,
    pub(crate) piece: Option<u64>,
}

impl BodyFaults {
    pub(crate) fn is_none(&self) -> bool {
        let flips = self.flips.len() + self.random_flips.len();
        self.pacers.is_empty()
            && self.cut.is_none()
            && self.stall.is_none()
            && flips == 0
            && self.piece.is_none()
    }
}

/// Spaces bytes out in time.
#[derive(Debug)]
pub(crate) struct Pacer {
    bytes_per_second: u64,
    free_at: Mutex<Instant>,
}

impl Pacer {
    fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), free_at: Mutex::new(Instant::now()) }
    }

    /// The largest piece that still gives an even flow: a fiftieth of a second's bytes.
    pub(crate) fn piece(&self) -> u64 {
        (self.bytes_per_second / 50).clamp(1, 256 * 1024)
    }

    /// Books `bytes` and says when they may go.
    pub(crate) fn book(&self, bytes: u64) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*free_at).max(Instant::now());
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        *free_at = start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4));
        *free_at
    }
}

#[derive(Debug)]
struct RuleState {
    rule: Rule,
    matched: u64,
    applied: u64,
    /// How often each request was seen, by hash; only kept for rules with a probability.
    seen: HashMap<u64, u64>,
    pacer: Option<Arc<Pacer>>,
    /// The second a limit counts in, and the requests let through in it.
    window: (u64, u64),
}

/// A plan with its counters.
#[derive(Debug)]
pub(crate) struct Injector {
    seed: u64,
    start: Instant,
    rules: Vec<RuleState>,
}

impl Injector {
    pub(crate) fn new(plan: FaultPlan, seed: u64) -> Self {
        let state = |rule: Rule| {
            let pacer = match rule.action {
                Action::Throttle { bytes_per_second, shared: true } => {
                    Some(Arc::new(Pacer::new(bytes_per_second)))
                }
                _ => None,
            };
            RuleState { rule, matched: 0, applied: 0, seen: HashMap::new(), pacer, window: (0, 0) }
        };
        Self { seed, start: Instant::now(), rules: plan.rules.into_iter().map(state).collect() }
    }

    /// The sum of all rules that apply to a request.
    pub(crate) fn decide(&mut self, op: Operation, key: &str, range: &str) -> Effects {
        let mut effects = Effects::default();
        let second = self.start.elapsed().as_secs();
        for (number, state) in self.rules.iter_mut().enumerate() {
            if !state.rule.selects(op, key) {
                continue;
            }
            state.matched += 1;
            let what = hash(&(self.seed, number, op, key, range));
            let draw = state.draw(what);
            if state.applies(draw) && state.within_limit(second) {
                state.applied += 1;
                // A second, independent number for what the action itself draws.
                state.add_to(&mut effects, hash(&(draw, "action")));
            }
        }
        effects
    }
}

impl Rule {
    fn selects(&self, op: Operation, key: &str) -> bool {
        self.op.is_none_or(|own| own.covers(op)) && self.key.as_deref().is_none_or(|k| key_matches(k, key))
    }
}

impl RuleState {
    /// A number drawn for a request from what it asks for and how often that was asked for before.
    fn draw(&mut self, what: u64) -> u64 {
        if self.rule.p.is_none() {
            return hash(&(what, self.matched));
        }
        let times = self.seen.entry(what).or_default();
        *times += 1;
        hash(&(what, *times))
    }

    fn applies(&self, draw: u64) -> bool {
        let rule = &self.rule;
        let Some(n) = self.matched.checked_sub(rule.skip).filter(|n| *n > 0) else { return false };
        rule.nth.is_none_or(|nth| n == nth)
            && rule.every.is_none_or(|k| n.is_multiple_of(k.max(1)))
            && rule.max.is_none_or(|max| self.applied < max)
            && rule.p.is_none_or(|p| unit(draw) < p)
    }

    /// `false` while a limit still lets requests through.
    fn within_limit(&mut self, second: u64) -> bool {
        let Action::Limit { per_second, .. } = self.rule.action else { return true };
        if self.window.0 != second {
            self.window = (second, 0);
        }
        self.window.1 += 1;
        self.window.1 > per_second
    }

    fn add_to(&self, effects: &mut Effects, draw: u64) {
        let body = &mut effects.body;
        let mut ending = None;
        match &self.rule.action {
            Action::Status { code, name, retry_after } => {
                let error = status_error(*code, name.as_deref());
                ending = Some(Ending::Error(match retry_after {
                    Some(seconds) => error.header("retry-after", seconds.to_string()),
                    None => error,
                }));
            }
            Action::Limit { code, name, .. } => {
                ending = Some(Ending::Error(status_error(*code, name.as_deref())))
            }
            Action::Latency { min_ms, max_ms } => {
                let spread = max_ms.saturating_sub(*min_ms);
                effects.latency += Duration::from_millis(min_ms + draw % (spread + 1));
            }
            Action::Throttle { bytes_per_second, .. } => {
                body.pacers
                    .push(self.pacer.clone().unwrap_or_else(|| Arc::new(Pacer::new(*bytes_per_second))));
            }
            Action::CutBody { after, reset } => body.cut = Some((*after, *reset)),
            Action::Stall { after, for_ms } => body.stall = Some((*after, Duration::from_millis(*for_ms))),
            Action::FlipByte { at: Some(at) } => body.flips.push(*at),
            Action::FlipByte { at: None } => body.random_flips.push(draw),
            Action::ShortLength { by } => effects.short_by += by,
            Action::EmptyBody => effects.empty = true,
            Action::ErrorIn200 { name } => {
                ending = Some(Ending::ErrorIn200(status_error(503, name.as_deref())));
            }
            Action::DropETag => effects.drop_etag = true,
            Action::Chunked => effects.chunked = true,
            Action::NeverAnswer { for_ms } => ending = Some(Ending::Silence(Duration::from_millis(*for_ms))),
            Action::Close { reset } => ending = Some(Ending::Close { reset: *reset }),
            Action::PieceSize { bytes } => body.piece = Some((*bytes).max(1)),
            Action::ChangeObject => effects.change = true,
            Action::RemoveObject => effects.remove = true,
            Action::RepeatPage => effects.repeat_page = true,
            Action::IgnoreRange => effects.ignore_range = true,
            Action::IgnoreConditions => effects.ignore_conditions = true,
        }
        effects.names.push(self.rule.action.to_string());
        if effects.ending.is_none() {
            effects.ending = ending;
        }
    }
}

/// The error that S3 and TOS answer with a status, unless a name is given.
fn status_error(status: u16, name: Option<&str>) -> S3Error {
    let usual = match status {
        301 | 307 => "PermanentRedirect",
        400 => "ExpiredToken",
        403 => "AccessDenied",
        404 => "NoSuchKey",
        408 => "RequestTimeout",
        409 => "OperationAborted",
        412 => "PreconditionFailed",
        416 => "InvalidRange",
        429 => "ExceedAccountQPSLimit",
        503 => "SlowDown",
        _ => "InternalError",
    };
    S3Error::new(status, name.unwrap_or(usual), "This reply was asked for by a fault rule.")
}

fn hash(value: &impl Hash) -> u64 {
    // The keys of this hasher are fixed, so the same seed gives the same draws in every run.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A draw as a number in [0, 1).
fn unit(draw: u64) -> f64 {
    let high = u32::try_from(draw >> 32).expect("32 bits");
    f64::from(high) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(rule: Rule, seed: u64, requests: u64) -> Vec<bool> {
        let mut injector = Injector::new(rule.into(), seed);
        (0..requests)
            .map(|n| injector.decide(Operation::Get, &format!("key-{}", n % 10), "").ending.is_some())
            .collect()
    }

    fn hits(rule: Rule, requests: u64) -> Vec<u64> {
        let all = statuses(rule, 1, requests);
        (1..=requests).zip(all).filter(|(_, hit)| *hit).map(|(n, _)| n).collect()
    }

    fn busy() -> Rule {
        Rule::on(Operation::Get, Action::Status { code: 503, name: None, retry_after: None })
    }

    #[tokio::test]
    async fn selectors_count_matching_requests() {
        assert_eq!(hits(busy().nth(3), 20), [3]);
        assert_eq!(hits(busy().every(7), 20), [7, 14]);
        assert_eq!(hits(busy().max(2), 20), [1, 2]);
        assert_eq!(hits(busy().skip(17), 20), [18, 19, 20]);
        assert_eq!(hits(busy().key("key-4"), 20), [5, 15]);
        assert_eq!(hits(busy().key("key-4").nth(2), 20), [15]);
        assert_eq!(hits(Rule { op: Some(Operation::List), ..busy() }, 20), [0; 0]);
    }

    #[tokio::test]
    async fn chance_follows_the_seed() {
        let share = statuses(busy().probability(0.1), 7, 10_000);
        let hit = share.iter().filter(|hit| **hit).count();
        assert!((850..1_150).contains(&hit), "{hit} of 10,000 at p = 0.1");
        assert_eq!(share, statuses(busy().probability(0.1), 7, 10_000));
        assert_ne!(share, statuses(busy().probability(0.1), 8, 10_000));
    }

    #[tokio::test]
    async fn chance_does_not_depend_on_arrival_order() {
        let run = |order: &[u32]| {
            let mut injector = Injector::new(busy().probability(0.5).into(), 3);
            let mut hit: Vec<_> = order
                .iter()
                .filter(|n| injector.decide(Operation::Get, &format!("k{n}"), "").ending.is_some())
                .copied()
                .collect();
            hit.sort_unstable();
            hit
        };
        let forward: Vec<_> = (0..50).collect();
        let backward: Vec<_> = (0..50).rev().collect();
        assert_eq!(run(&forward), run(&backward));
    }

    #[tokio::test]
    async fn actions_add_up_and_the_first_ending_wins() {
        let plan = FaultPlan::none()
            .with(Rule::any(Action::Latency { min_ms: 5, max_ms: 5 }))
            .with(Rule::any(Action::Close { reset: false }))
            .with(busy());
        let effects = Injector::new(plan, 0).decide(Operation::Get, "k", "");
        assert_eq!(effects.latency, Duration::from_millis(5));
        assert!(matches!(effects.ending, Some(Ending::Close { reset: false })));
        assert_eq!(effects.names.len(), 3);
    }
}
