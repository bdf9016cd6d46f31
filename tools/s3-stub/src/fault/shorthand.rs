//! Rules in one line, for command lines and test tables.

use super::{Action, Rule};
use crate::s3::Operation;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Why a shorthand rule could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("fault rule '{rule}': {reason}")]
pub struct ShorthandError {
    rule: String,
    reason: String,
}

impl FromStr for Rule {
    type Err = ShorthandError;

    /// Reads `OPERATION[:KEY][:CONDITION]...:ACTION`, for example `get:*.tfrecord:p=0.1:status=503`.
    ///
    /// Operations: `any` or a name of [`Operation`]. Conditions: `nth=3`, `every=10`, `skip=2`, `p=0.1`,
    /// `max=5`. Actions: `status=503[,CODE][,retry-after=5]`, `limit=100[,STATUS][,CODE]` (requests per second),
    /// `latency=20ms[..50ms]`, `throttle=1MB` (each reply), `throttle-all=100MB` (together),
    /// `cut=4096[,reset]`, `stall=4096,30s`, `flip[=OFFSET]`, `short=BYTES`, `empty`, `error200[=CODE]`,
    /// `no-etag`, `chunked`, `silent=60s`, `close[=reset]`, `pieces=1000`, `change`, `remove`, `repeat-page`,
    /// `ignore-range`, `ignore-conditions`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|reason| ShorthandError { rule: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<Rule, String> {
    let mut parts: Vec<&str> = text.trim().split(':').collect();
    let action = parts.pop().map(parse_action).transpose()?.ok_or("it is empty")?;
    let mut parts = parts.into_iter();
    let mut rule = Rule::any(action);
    match parts.next() {
        None => return Err("it needs an operation and an action, as in 'get:status=503'".to_owned()),
        Some("any" | "*") => {}
        Some(name) => {
            let unknown = || format!("'{name}' is no operation; take get, head, list, put or any");
            rule.op = Some(Operation::from_name(name).ok_or_else(unknown)?);
        }
    }
    for part in parts {
        match part.split_once('=') {
            Some(("nth", n)) => rule.nth = Some(count(n)?),
            Some(("every", n)) => rule.every = Some(count(n)?),
            Some(("skip", n)) => rule.skip = count(n)?,
            Some(("max", n)) => rule.max = Some(count(n)?),
            Some(("p", p)) => {
                let p = p.parse().ok().filter(|p| (0.0..=1.0).contains(p));
                rule.p = Some(p.ok_or("'p' must be between 0 and 1")?);
            }
            _ if rule.key.is_none() => rule.key = Some(part.to_owned()),
            _ => return Err(format!("'{part}' is no condition; take nth, every, skip, p or max")),
        }
    }
    Ok(rule)
}

fn parse_action(text: &str) -> Result<Action, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let mut values = value.split(',').filter(|v| !v.is_empty());
    let mut next = || values.next();
    let mut needed =
        |what: &str| next().ok_or_else(|| format!("'{name}' needs {what}, as in '{name}={what}'"));
    let action = match name {
        "status" => {
            let code = status(needed("503")?)?;
            let (mut error, mut retry_after) = (None, None);
            while let Some(part) = next() {
                match part.strip_prefix("retry-after=") {
                    Some(seconds) => retry_after = Some(count(seconds)?),
                    None => error = Some(part.to_owned()),
                }
            }
            Action::Status { code, name: error, retry_after }
        }
        "limit" => {
            let per_second = count(needed("100")?)?;
            let code = next().map_or(Ok(429), status)?;
            Action::Limit { per_second, code, name: next().map(str::to_owned) }
        }
        "latency" => {
            let range = needed("20ms")?;
            let (min, max) = range.split_once("..").unwrap_or((range, range));
            Action::Latency { min_ms: millis(min)?, max_ms: millis(max)? }
        }
        "throttle" => Action::Throttle { bytes_per_second: parse_bytes(needed("1MB")?)?, shared: false },
        "throttle-all" => Action::Throttle { bytes_per_second: parse_bytes(needed("1MB")?)?, shared: true },
        "cut" => Action::CutBody { after: parse_bytes(needed("4096")?)?, reset: reset(next())? },
        "stall" => {
            let after = parse_bytes(needed("4096,30s")?)?;
            Action::Stall { after, for_ms: millis(needed("4096,30s")?)? }
        }
        "flip" => Action::FlipByte { at: next().map(parse_bytes).transpose()? },
        "short" => Action::ShortLength { by: parse_bytes(needed("1")?)? },
        "empty" => Action::EmptyBody,
        "error200" => Action::ErrorIn200 { name: next().map(str::to_owned) },
        "no-etag" => Action::DropETag,
        "chunked" => Action::Chunked,
        "silent" => Action::NeverAnswer { for_ms: millis(needed("60s")?)? },
        "close" => Action::Close { reset: reset(next())? },
        "pieces" => Action::PieceSize { bytes: parse_bytes(needed("1000")?)? },
        "change" => Action::ChangeObject,
        "remove" => Action::RemoveObject,
        "repeat-page" => Action::RepeatPage,
        "ignore-range" => Action::IgnoreRange,
        "ignore-conditions" => Action::IgnoreConditions,
        _ => return Err(format!("'{text}' is no action, or the action does not come last")),
    };
    match values.next() {
        Some(left) => Err(format!("'{name}' does not take '{left}'")),
        None => Ok(action),
    }
}

impl fmt::Display for Action {
    /// The shorthand of the action.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comma = |name: &Option<String>| name.as_ref().map_or_else(String::new, |n| format!(",{n}"));
        match self {
            Self::Status { code, name, retry_after } => {
                write!(f, "status={code}{}", comma(name))?;
                retry_after.map_or(Ok(()), |s| write!(f, ",retry-after={s}"))
            }
            Self::Limit { per_second, code, name } => write!(f, "limit={per_second},{code}{}", comma(name)),
            Self::Latency { min_ms, max_ms } => write!(f, "latency={min_ms}ms..{max_ms}ms"),
            Self::Throttle { bytes_per_second, shared: false } => write!(f, "throttle={bytes_per_second}"),
            Self::Throttle { bytes_per_second, shared: true } => write!(f, "throttle-all={bytes_per_second}"),
            Self::CutBody { after, reset } => write!(f, "cut={after}{}", if *reset { ",reset" } else { "" }),
            Self::Stall { after, for_ms } => write!(f, "stall={after},{for_ms}ms"),
            Self::FlipByte { at: Some(at) } => write!(f, "flip={at}"),
            Self::FlipByte { at: None } => f.write_str("flip"),
            Self::ShortLength { by } => write!(f, "short={by}"),
            Self::EmptyBody => f.write_str("empty"),
            Self::ErrorIn200 { name: Some(name) } => write!(f, "error200={name}"),
            Self::ErrorIn200 { name: None } => f.write_str("error200"),
            Self::DropETag => f.write_str("no-etag"),
            Self::Chunked => f.write_str("chunked"),
            Self::NeverAnswer { for_ms } => write!(f, "silent={for_ms}ms"),
            Self::Close { reset } => f.write_str(if *reset { "close=reset" } else { "close" }),
            Self::PieceSize { bytes } => write!(f, "pieces={bytes}"),
            Self::ChangeObject => f.write_str("change"),
            Self::RemoveObject => f.write_str("remove"),
            Self::RepeatPage => f.write_str("repeat-page"),
            Self::IgnoreRange => f.write_str("ignore-range"),
            Self::IgnoreConditions => f.write_str("ignore-conditions"),
        }
    }
}

fn reset(word: Option<&str>) -> Result<bool, String> {
    match word {
        None | Some("fin") => Ok(false),
        Some("reset") => Ok(true),
        Some(other) => Err(format!("'{other}' is neither 'reset' nor 'fin'")),
    }
}

fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number"))
}

fn status(text: &str) -> Result<u16, String> {
    let code = text.parse().ok().filter(|code| (300..=599).contains(code));
    code.ok_or_else(|| format!("'{text}' is not a status between 300 and 599"))
}

fn millis(text: &str) -> Result<u64, String> {
    parse_duration(text).map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Reads `250ms`, `30s`, `2m` or `1h`; the unit is needed.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("'{text}' is not a time; write it as 250ms, 30s, 2m or 1h")),
    };
    Ok(Duration::from_millis(count(number)?.saturating_mul(factor)))
}

/// Reads a number of bytes: `4096`, `64k`, `10MB` (powers of ten), `8MiB` (powers of two).
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor = match unit.trim_end_matches("/s") {
        "" | "B" => 1,
        "k" | "kB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "K" | "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(format!("'{text}' is not a size; write it as 4096, 64kB, 10MB or 8MiB")),
    };
    Ok(count(number)?.saturating_mul(factor))
}

fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_reads_back_as_printed() {
        for text in [
            "status=503",
            "status=429,ExceedAccountQPSLimit,retry-after=5",
            "limit=100,429,ExceedAccountQPSLimit",
            "latency=20ms..50ms",
            "throttle=1000000",
            "throttle-all=5",
            "cut=4096",
            "cut=0,reset",
            "stall=10,30000ms",
            "flip",
            "flip=7",
            "short=1",
            "empty",
            "error200",
            "error200=InternalError",
            "no-etag",
            "chunked",
            "silent=60000ms",
            "close",
            "close=reset",
            "pieces=1000",
            "change",
            "remove",
            "repeat-page",
            "ignore-range",
            "ignore-conditions",
        ] {
            assert_eq!(format!("any:{text}").parse::<Rule>().unwrap().action.to_string(), text);
        }
    }

    #[test]
    fn selectors_and_units() {
        let rule: Rule = "get:*.tfrecord:p=0.1:max=3:latency=2s".parse().unwrap();
        let expected = Rule::on(Operation::Get, Action::Latency { min_ms: 2_000, max_ms: 2_000 });
        assert_eq!(rule, expected.key("*.tfrecord").probability(0.1).max(3));
        assert_eq!(parse_bytes("8MiB").unwrap(), 8 << 20);
        assert_eq!(parse_bytes("100MB/s").unwrap(), 100_000_000);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("status=503", "needs an operation"),
            ("fetch:status=503", "'fetch' is no operation"),
            ("get:status=99", "between 300 and 599"),
            ("get:p=2:empty", "between 0 and 1"),
            ("get:latency=5", "not a time"),
            ("get:cut", "needs 4096"),
            ("get:empty=1", "does not take '1'"),
            ("get:a:b:empty", "'b' is no condition"),
            ("get:status=503:p=0.1", "does not come last"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
