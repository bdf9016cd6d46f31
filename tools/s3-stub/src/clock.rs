//! The stub's own clock and the three date formats S3 uses.
//!
//! The clock can be moved against the machine's, so that a test sees what a node with a wrong clock sees. All
//! calendar arithmetic is UTC and proleptic Gregorian; leap seconds do not exist.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Seconds since 1970, shifted by an offset that may change while the stub runs.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicI64);

impl Clock {
    pub(crate) fn set_offset(&self, seconds: i64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> i64 {
        unix(SystemTime::now()) + self.0.load(Ordering::Relaxed)
    }
}

/// Whole seconds since 1970; 0 for times before it.
pub(crate) fn unix(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the form of `Date` and `Last-Modified`.
pub(crate) fn http_date(secs: i64) -> String {
    let (year, month, day) = civil(secs.div_euclid(86_400));
    let weekday = DAYS[index(secs.div_euclid(86_400).rem_euclid(7))];
    let (h, m, s) = time_of_day(secs);
    format!("{weekday}, {day:02} {} {year:04} {h:02}:{m:02}:{s:02} GMT", MONTHS[index(month - 1)])
}

/// `1994-11-06T08:49:37.000Z`, the form used inside listings.
pub(crate) fn iso_date(secs: i64) -> String {
    let (year, month, day) = civil(secs.div_euclid(86_400));
    let (h, m, s) = time_of_day(secs);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.000Z")
}

/// Reads `19941106T084937Z`, the form of `x-amz-date`. `None` for anything else.
pub(crate) fn parse_amz_date(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        bytes[range].iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')))
    };
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let (h, m, s) = (number(9..11)?, number(11..13)?, number(13..15)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || h > 23 || m > 59 || s > 60 {
        return None;
    }
    Some(days_before(year, month, day) * 86_400 + h * 3_600 + m * 60 + s)
}

fn time_of_day(secs: i64) -> (i64, i64, i64) {
    let s = secs.rem_euclid(86_400);
    (s / 3_600, s / 60 % 60, s % 60)
}

fn index(n: i64) -> usize {
    usize::try_from(n).expect("reduced to a small range by the caller")
}

/// Days since 1970-01-01. Years are counted from March, so that the leap day comes last.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month_from_march * 153 + 2) / 5 + day - 719_469
}

/// The inverse of `days_before`, by guessing the year and correcting it.
fn civil(days: i64) -> (i64, i64, i64) {
    let mut year = 1970 + days.div_euclid(366);
    while days_before(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut month = 12;
    while days_before(year, month, 1) > days {
        month -= 1;
    }
    (year, month, days - days_before(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_in_every_form() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(iso_date(784_111_777), "1994-11-06T08:49:37.000Z");
        assert_eq!(parse_amz_date("19941106T084937Z"), Some(784_111_777));
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(parse_amz_date("19941306T084937Z"), None);
        assert_eq!(parse_amz_date("1994-11-06T08:49"), None);
    }

    #[test]
    fn every_day_of_two_centuries_returns() {
        for day in 0..73_000 {
            let (y, m, d) = civil(day);
            assert_eq!(days_before(y, m, d), day);
        }
    }
}
