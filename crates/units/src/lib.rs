//! Numbers as people type them: `10k`, `1.5s`, `64k`.

use std::time::Duration;

/// Parses a count: digits with an optional `k` (thousand), `m` (million) or `g` (billion).
pub fn count(text: &str) -> Result<u64, String> {
    let number = decimal(text, &[("k", 1e3), ("m", 1e6), ("g", 1e9), ("", 1.0)])
        .filter(|n| n.fract() == 0.0 && *n <= 1e15);
    number.map(|n| n as u64).ok_or_else(|| {
        format!("{text:?} is not a count: write a whole number such as 100, 10k or 1m")
    })
}

/// Parses a positive rate per second: as [`count`], fractions allowed.
pub fn rate(text: &str) -> Result<f64, String> {
    decimal(text, &[("k", 1e3), ("m", 1e6), ("", 1.0)])
        .filter(|&n| n > 0.0 && n <= 1e9)
        .ok_or_else(|| {
            format!("{text:?} is not a rate: write requests per second such as 50, 2.5k or 1m")
        })
}

/// Parses a time: a number with `us`, `ms`, `s`, `m` or `h`; seconds without a unit.
pub fn time(text: &str) -> Result<Duration, String> {
    let units = [
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("", 1.0),
    ];
    decimal(text, &units)
        .filter(|&seconds| seconds <= 31_536_000.0)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text:?} is not a time: write it as 500us, 20ms, 10s, 5m or 1h"))
}

/// Parses a size in bytes: a number with an optional `k`, `m` or `g` (powers of 1024).
pub fn size(text: &str) -> Result<u64, String> {
    let units = [
        ("k", 1024.0),
        ("m", 1024.0 * 1024.0),
        ("g", 1024.0 * 1024.0 * 1024.0),
        ("", 1.0),
    ];
    decimal(text, &units)
        .filter(|n| n.fract() == 0.0 && *n <= 1e15)
        .map(|n| n as u64)
        .ok_or_else(|| format!("{text:?} is not a size: write bytes such as 100, 16k or 1m"))
}

/// Parses a rate of bits per second: a number with `bit`, `kbit`, `mbit` or `gbit` (powers of 1000).
pub fn bit_rate(text: &str) -> Result<u64, String> {
    let units = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
    decimal(text, &units)
        .filter(|n| (1.0..=1e12).contains(n))
        .map(|n| n.round() as u64)
        .ok_or_else(|| {
            format!(
                "{text:?} is not a rate: write bits per second such as 500kbit, 20mbit or 1gbit"
            )
        })
}

/// Parses a share from 0 to 1: a number, or one of per cent.
pub fn share(text: &str) -> Result<f64, String> {
    // Divided: 7 * 0.01 is not 0.07.
    let (digits, whole) = match text.trim().strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    decimal(digits, &[("", 1.0)])
        .map(|number| number / whole)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("{text:?} is not a share: write 1% or 0.01, at most 100%"))
}

/// Parses a list of processors: `0`, `0,2` or `0-3,6`.
pub fn cpus(text: &str) -> Result<Vec<usize>, String> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let low: usize = low.trim().parse().ok()?;
        let high: usize = high.trim().parse().ok()?;
        // What a Linux `cpu_set_t` can name.
        (low <= high && high < 1024).then_some(low..=high)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges
        .map(|ranges| ranges.into_iter().flatten().collect())
        .ok_or_else(|| format!("{text:?} is not a list of processors: write 0 or 0,2-3"))
}

/// The number before the first matching suffix, times the suffix's factor. Case does not matter.
fn decimal(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let lower = text.trim().to_lowercase();
    let (digits, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, factor)))?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = plain.then(|| digits.parse().ok())??;
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_scale() {
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("1.5M"), Ok(1_500_000));
        assert_eq!(rate("0.5"), Ok(0.5));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(time("10"), Ok(Duration::from_secs(10)));
        assert_eq!(size("16k"), Ok(16384));
        assert_eq!(bit_rate("2.5Mbit"), Ok(2_500_000));
        assert_eq!(bit_rate("1gbit"), Ok(1_000_000_000));
        assert_eq!(bit_rate("9600bit"), Ok(9600));
        assert_eq!(share("7%"), Ok(0.07));
        assert_eq!(share("0.5"), Ok(0.5));
    }

    #[test]
    fn processors_are_lists_of_ranges() {
        assert_eq!(cpus("0,2-4"), Ok(vec![0, 2, 3, 4]));
        for wrong in ["", "a", "3-1", "0,", "1024"] {
            assert!(cpus(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn nonsense_names_the_value_and_the_form() {
        for text in [
            "", "k", "-1", "1e3", "0x1", "1.2.3", "ten", "1.5", "inf", "nan",
        ] {
            assert!(count(text).is_err(), "{text}");
        }
        assert_eq!(
            time("10 parsecs").unwrap_err(),
            "\"10 parsecs\" is not a time: write it as 500us, 20ms, 10s, 5m or 1h"
        );
        assert!(rate("0").is_err());
        for text in ["20", "0mbit", "2tbit", "mbit", "0.1bit"] {
            assert!(bit_rate(text).is_err(), "{text}");
        }
        for text in ["101%", "2", "%", "-1%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
