//! What still has to happen before the daemon can serve.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The conditions of readiness; a cheap handle.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Health {
    /// All of `conditions` are missing at first.
    pub fn new(conditions: &[&'static str]) -> Self {
        let missing = conditions.iter().map(|&condition| (condition, "not started".to_owned())).collect();
        Self(Arc::new(Mutex::new(missing)))
    }

    /// The condition is met.
    pub fn met(&self, condition: &'static str) {
        self.change(|missing| missing.remove(condition));
    }

    /// The condition is not met any more, or not yet, because of `why`.
    pub fn missing(&self, condition: &'static str, why: impl Into<String>) {
        self.change(|missing| missing.insert(condition, why.into()));
    }

    /// One line for each condition that is not met; empty when the daemon is ready.
    pub fn report(&self) -> Vec<String> {
        self.change(|missing| missing.iter().map(|(name, why)| format!("{name}: {why}")).collect())
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<&'static str, String>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
