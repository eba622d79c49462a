//! `grpc-timeout`: how long the caller waits.

use std::time::Duration;

/// The most that eight digits say.
const MOST: u128 = 99_999_999;

/// Units with their nanoseconds, the finest first.
const UNITS: [(char, u128); 6] = [
    ('n', 1),
    ('u', 1_000),
    ('m', 1_000_000),
    ('S', 1_000_000_000),
    ('M', 60 * 1_000_000_000),
    ('H', 3600 * 1_000_000_000),
];

/// The value of `grpc-timeout` for a time: the finest unit in which it has eight digits or fewer,
/// rounded up, so that the peer never waits less. Nothing is one nanosecond, since the value must be
/// positive; eleven thousand years are the most.
pub fn encode(time: Duration) -> String {
    let nanoseconds = time.as_nanos().max(1);
    let fitting = UNITS
        .iter()
        .map(|&(unit, length)| (unit, nanoseconds.div_ceil(length)))
        .find(|&(_, value)| value <= MOST);
    let (unit, value) = fitting.unwrap_or(('H', MOST));
    format!("{value}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a value by the grammar of the specification: 1 to 8 digits and a unit.
    fn decode(value: &str) -> Option<Duration> {
        let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
        if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: u64 = digits.parse().ok()?;
        let time = match unit {
            "H" => Duration::from_secs(number * 3600),
            "M" => Duration::from_secs(number * 60),
            "S" => Duration::from_secs(number),
            "m" => Duration::from_millis(number),
            "u" => Duration::from_micros(number),
            "n" => Duration::from_nanos(number),
            _ => return None,
        };
        (number > 0).then_some(time)
    }

    #[test]
    fn the_finest_unit_that_fits_is_used() {
        for (time, value) in [
            (Duration::ZERO, "1n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_000), "100000u"),
            (Duration::from_nanos(100_000_001), "100001u"),
            (Duration::from_secs(1), "1000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(100_000_000), "1666667M"),
            (Duration::from_secs(6_000_000_000), "1666667H"),
            (Duration::MAX, "99999999H"),
        ] {
            assert_eq!(encode(time), value, "{time:?}");
        }
    }

    proptest! {
        #[test]
        fn the_peer_waits_as_long_and_hardly_longer(
            seconds in prop_oneof![0_u64..10, 0_u64..1_000_000, 0_u64..350_000_000_000],
            nanoseconds in 0_u32..1_000_000_000,
        ) {
            let time = Duration::new(seconds, nanoseconds);
            let told = decode(&encode(time)).unwrap();
            prop_assert!(told >= time);
            prop_assert!((told - time).as_secs_f64() <= time.as_secs_f64() * 1.1e-5 + 1e-9);
        }
    }
}
