//! Faults: what to do to which requests.
//!
//! A [`FaultPlan`] is a list of [`Rule`]s, written as JSON, in the one-line shorthand (see [`shorthand`]) or
//! built in code. Each rule selects requests and names an [`Action`]. All rules that apply to a request work
//! together (a slow reply may also be cut); of actions that replace the reply the first rule's wins.
//!
//! Chance comes from the stub's seed. A draw depends on the rule, on what is asked for (operation, key, range)
//! and on how often that was asked for before, and not on the order in which requests of several connections
//! happen to arrive: the same seed hits the same requests however the client's threads are scheduled.
//! `nth` and `every` count a rule's matching requests in order of arrival.
//!
//! Not covered: TLS, and packet loss. A refused connection is [`Stub::take_down`](crate::Stub::take_down), a
//! silent one [`BlackHole`](crate::BlackHole).

mod engine;
mod shorthand;

pub(crate) use engine::{BodyFaults, Effects, Ending, Injector};
pub use shorthand::{ShorthandError, parse_bytes, parse_duration};

use crate::s3::Operation;
use serde::{Deserialize, Serialize};

/// What a rule does. Offsets count from the start of the reply's body unless said otherwise; times are
/// milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Answers an error with an XML body.
    Status {
        /// HTTP status.
        code: u16,
        /// S3 error code; chosen by the status if absent.
        #[serde(default)]
        name: Option<String>,
        /// `Retry-After` header, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// Answers an error to what goes over so many requests per second.
    Limit {
        /// Requests let through in each second.
        per_second: u64,
        /// HTTP status for the others.
        code: u16,
        /// S3 error code for the others.
        #[serde(default)]
        name: Option<String>,
    },
    /// Waits before anything is answered: evenly spread between the two.
    Latency {
        /// Shortest wait.
        min_ms: u64,
        /// Longest wait.
        max_ms: u64,
    },
    /// Limits the rate of the body.
    Throttle {
        /// The rate.
        bytes_per_second: u64,
        /// One limit for all replies of this rule together instead of one for each.
        #[serde(default)]
        shared: bool,
    },
    /// Closes the connection after so many bytes of the body, if the body has more.
    CutBody {
        /// Bytes delivered; 0 delivers the headers only.
        after: u64,
        /// By RST instead of FIN.
        #[serde(default)]
        reset: bool,
    },
    /// Pauses once after so many bytes of the body, if the body has more.
    Stall {
        /// Bytes delivered before the pause.
        after: u64,
        /// Length of the pause.
        for_ms: u64,
    },
    /// Inverts the byte at an offset of the *object* in replies that contain it.
    FlipByte {
        /// The offset; drawn from within each reply if absent.
        #[serde(default)]
        at: Option<u64>,
    },
    /// Delivers fewer bytes than asked for, as if that were all: the length header agrees with the short body.
    ShortLength {
        /// How many bytes are missing at the end.
        by: u64,
    },
    /// Delivers no body, with the status of success.
    EmptyBody,
    /// Answers 200 with an S3 error as its body.
    ErrorIn200 {
        /// S3 error code; `SlowDown` if absent.
        #[serde(default)]
        name: Option<String>,
    },
    /// Leaves the ETag header away.
    DropETag,
    /// Leaves the length away: the body is sent chunked.
    Chunked,
    /// Takes the request and says nothing for a time, then closes the connection.
    NeverAnswer {
        /// How long.
        for_ms: u64,
    },
    /// Closes the connection instead of answering.
    Close {
        /// By RST instead of FIN.
        #[serde(default)]
        reset: bool,
    },
    /// Sends the body in pieces of this size, each flushed on its own.
    PieceSize {
        /// Bytes in a piece; at least 1.
        bytes: u64,
    },
    /// Overwrites the object after this request: same size, every byte inverted, another ETag.
    ChangeObject,
    /// Removes the object after this request.
    RemoveObject,
    /// Answers a listing with its first page, whatever token was sent.
    RepeatPage,
    /// Ignores `Range` and answers the whole object with 200.
    IgnoreRange,
    /// Ignores `If-Match` and `If-None-Match`, as several S3-like servers do.
    IgnoreConditions,
}

/// An action and the requests it applies to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Only this operation; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Operation>,
    /// Only these keys (or prefixes of listings): a pattern if it has `*` or `?`, else a part of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only the n-th matching request, counting from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Only every k-th matching request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Leaves the first matching requests alone.
    #[serde(default)]
    pub skip: u64,
    /// Only this share of the requests, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Applies at most this often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// What to do.
    pub action: Action,
}

impl Rule {
    /// A rule for every request.
    pub fn any(action: Action) -> Self {
        Self { op: None, key: None, nth: None, every: None, skip: 0, p: None, max: None, action }
    }

    /// A rule for one operation.
    pub fn on(op: Operation, action: Action) -> Self {
        Self { op: Some(op), ..Self::any(action) }
    }

    /// Restricts the rule to keys; see the field.
    #[must_use]
    pub fn key(mut self, pattern: impl Into<String>) -> Self {
        self.key = Some(pattern.into());
        self
    }

    /// Restricts the rule to the n-th matching request, counting from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.nth = Some(n);
        self
    }

    /// Restricts the rule to every k-th matching request.
    #[must_use]
    pub fn every(mut self, k: u64) -> Self {
        self.every = Some(k);
        self
    }

    /// Leaves the first `n` matching requests alone.
    #[must_use]
    pub fn skip(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    /// Restricts the rule to a share of the requests, 0 to 1.
    #[must_use]
    pub fn probability(mut self, p: f64) -> Self {
        self.p = Some(p);
        self
    }

    /// Applies the rule at most `n` times.
    #[must_use]
    pub fn max(mut self, n: u64) -> Self {
        self.max = Some(n);
        self
    }
}

/// All faults of a stub.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// In this order.
    pub rules: Vec<Rule>,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a rule.
    #[must_use]
    pub fn with(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}

impl From<Rule> for FaultPlan {
    fn from(rule: Rule) -> Self {
        Self { rules: vec![rule] }
    }
}

/// Whether a key matches: `*` and `?` are wild (and cross slashes); without them any part of the key counts.
pub(crate) fn key_matches(pattern: &str, key: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return key.contains(pattern);
    }
    let (pattern, key): (Vec<char>, Vec<char>) = (pattern.chars().collect(), key.chars().collect());
    let (mut p, mut k) = (0, 0);
    // Where to go on after a mismatch: behind the last star, one key character further on.
    let mut retry: Option<(usize, usize)> = None;
    while k < key.len() {
        if p < pattern.len() && pattern[p] == '*' {
            retry = Some((p + 1, k));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == key[k]) {
            p += 1;
            k += 1;
        } else if let Some((after_star, from)) = retry {
            (p, k) = (after_star, from + 1);
            retry = Some((after_star, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_patterns() {
        for (pattern, key, expected) in [
            ("*.tfrecord", "a/b.tfrecord", true),
            ("*.tfrecord", "a/b.tfrecord.gz", false),
            ("shard-??-*", "shard-07-of-10", true),
            ("shard-??-*", "x/shard-07-of-10", false),
            ("rd-0", "shard-07", true),
            ("rd-1", "shard-07", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*ab", "aab", true),
            ("", "anything", true),
        ] {
            assert_eq!(key_matches(pattern, key), expected, "{pattern} on {key}");
        }
    }

    #[test]
    fn plans_are_json() {
        let plan: FaultPlan = serde_json::from_str(
            r#"{"rules": [{"op": "get", "key": "*.tfrecord", "p": 0.1, "max": 5, "action": {"status": {"code": 503}}},
                          {"action": {"latency": {"min_ms": 5, "max_ms": 10}}},
                          {"op": "list", "action": "repeat_page"}]}"#,
        )
        .unwrap();
        assert_eq!(plan.rules.len(), 3);
        assert_eq!(serde_json::from_str::<FaultPlan>(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
        assert!(
            serde_json::from_str::<FaultPlan>(r#"{"rules": [{"opp": "get", "action": "chunked"}]}"#).is_err()
        );
    }
}
