//! Numbers as people read them.

/// Bytes in decimal units, as disks and networks are sold.
pub(crate) fn bytes(count: f64) -> String {
    scaled(count, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// A count with a decimal suffix.
pub(crate) fn count(count: f64) -> String {
    scaled(count, &["", "k", "M", "G", "T", "P"]).trim_end().to_owned()
}

/// A span of time given in microseconds.
pub(crate) fn micros(span: f64) -> String {
    if span >= 1e6 {
        format!("{:.2} s", span / 1e6)
    } else if span >= 1e3 {
        format!("{:.1} ms", span / 1e3)
    } else {
        format!("{span:.1} µs")
    }
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = units[0];
    for next in &units[1..] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    let digits = if value >= 100.0 || (unit == units[0] && value.fract() == 0.0) {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// A count as a float, for rates and shares; exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_scaled() {
        assert_eq!(super::bytes(512.0), "512 B");
        assert_eq!(super::bytes(115_000.0), "115 kB");
        assert_eq!(super::bytes(1_440_000_000.0), "1.44 GB");
        assert_eq!(super::count(7.0), "7");
        assert_eq!(super::count(10_008.0), "10.0 k");
        assert_eq!(super::micros(1_500.0), "1.5 ms");
    }
}
