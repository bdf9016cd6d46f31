//! Sizes with units, read and written.

use std::fmt;

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;
/// 2^40 bytes.
pub const TIB: u64 = 1 << 40;

/// A number of bytes that prints with the unit a person would choose: exactly where a unit divides it, else with two
/// digits after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

const UNITS: [(u64, &str); 5] = [(1 << 50, "PiB"), (TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(&(unit, name)) = UNITS.iter().find(|(unit, _)| self.0 >= *unit) else {
            return write!(f, "{} B", self.0);
        };
        let (whole, rest) = (self.0 / unit, self.0 % unit);
        if rest == 0 {
            return write!(f, "{whole} {name}");
        }
        // Hundredths, rounded down; u128 because the largest unit times 100 leaves u64.
        let hundredths = u128::from(rest) * 100 / u128::from(unit);
        write!(f, "{whole}.{hundredths:02} {name}")
    }
}

/// Reads `4 MiB`, `1.5GiB`, `2G`, `500 MB`, `4096`. `K`, `M`, `G`, `T`, `P` alone mean powers of 1024, as in systemd;
/// `KB`, `MB`, ... mean powers of 1000.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" | "byte" | "bytes" => 1,
        "k" | "ki" | "kib" => KIB,
        "m" | "mi" | "mib" => MIB,
        "g" | "gi" | "gib" => GIB,
        "t" | "ti" | "tib" => TIB,
        "p" | "pi" | "pib" => 1 << 50,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        _ => return None,
    };
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut bytes = u128::from(whole) * u128::from(unit);
    if !fraction.is_empty() {
        if unit == 1 || fraction.len() > 9 {
            return None;
        }
        let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        bytes += u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit) / scale;
    }
    u64::try_from(bytes).ok()
}

/// Reads `25%` or `25 %`.
pub fn parse_percent(text: &str) -> Option<u64> {
    text.trim().strip_suffix('%')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("4096", 4096),
            ("2 GiB", 2 * GIB),
            ("2g", 2 * GIB),
            ("1.5 MiB", 3 * MIB / 2),
            ("500 MB", 500_000_000),
            ("0", 0),
            (" 1_000 ", 1000),
            ("0.5k", 512),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in
            ["", "GiB", "-1", "1.5", "1..5 G", "2 gigs", "1e9", "99999999999 PiB", "1.0000000001 G", "5%"]
        {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_written() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4 * MIB, "4 MiB"),
            (GIB + GIB / 2, "1.50 GiB"),
            (u64::MAX, "16383.99 PiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_within_a_hundredth(bytes in 0u64..(1 << 60)) {
            let back = parse_size(&Size(bytes).to_string()).expect("our own output");
            prop_assert!(back <= bytes && bytes - back <= bytes / 64 + 1);
        }

        #[test]
        fn any_text_is_survived(text in ".{0,20}") {
            let _ = parse_size(&text);
            let _ = parse_percent(&text);
        }
    }
}
