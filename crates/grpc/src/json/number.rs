//! Numbers as JSON writes them, in text.

/// Digits of numbers beyond these are not looked at: no integer of 64 bits has as many.
const LONGEST: usize = 400;

/// The number in a string: by JSON's grammar, which knows neither blanks nor a plus sign, or by the
/// name of one that is not finite.
pub(super) fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ if text.ends_with(|last: char| last.is_ascii_digit())
            && text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) =>
        {
            serde_json::from_str(text).ok()
        }
        _ => None,
    }
}

/// As 32 bits hold it, where they can.
pub(super) fn narrow(wide: f64) -> Option<f32> {
    // What rounds to the largest number is that number.
    let value = wide as f32;
    (wide.is_infinite() || !value.is_infinite()).then_some(value)
}

/// The whole number that `wide` is.
pub(super) fn whole_of(wide: f64) -> Option<i128> {
    // All of 64 bits, and far below what would be rounded to another number.
    (wide.fract() == 0.0 && wide.abs() < 1e30).then_some(wide as i128)
}

/// The whole number in a string: exactly, with a fraction of zeros and an exponent where they are
/// written, as in `1e2`.
pub(super) fn whole(text: &str) -> Option<i128> {
    if text.len() > LONGEST {
        return None;
    }
    // By JSON's grammar first; what it stands for is read below, without rounding.
    double(text).filter(|number| number.is_finite())?;
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [integer, fraction].concat();
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let fraction = i64::try_from(fraction.len()).ok()?;
    let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
    // The value is `significant` times ten to the power of this.
    let zeros = exponent.checked_sub(fraction)?.checked_add(dropped)?;
    let zeros = u32::try_from(zeros).ok()?;
    let value: i128 = significant.parse().ok()?;
    let value = value.checked_mul(10_i128.checked_pow(zeros)?)?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_exact() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("1e2", 100),
            ("1E+2", 100),
            ("1.0", 1),
            ("1.50e1", 15),
            ("100e-2", 1),
            ("0.0e9", 0),
            ("-9223372036854775808", i128::from(i64::MIN)),
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("18446744073709551615", i128::from(u64::MAX)),
        ] {
            assert_eq!(whole(text), Some(value), "{text}");
        }
        for text in [
            "",
            " 1",
            "1 ",
            "+1",
            "01",
            "1.",
            ".5",
            "1.5",
            "1e-1",
            "1e",
            "0x1",
            "NaN",
            "1_0",
            "1e999",
            "1e99999999999999999999",
            "--1",
        ] {
            assert_eq!(whole(text), None, "{text:?}");
        }
        assert_eq!(whole(&format!("1{}", "0".repeat(500))), None);
    }

    #[test]
    fn the_largest_number_of_32_bits_may_be_rounded() {
        assert_eq!(narrow(3.4028235e38), Some(f32::MAX));
        assert_eq!(narrow(-3.4028235e38), Some(f32::MIN));
        assert_eq!(narrow(3.5e38), None);
        assert_eq!(narrow(f64::INFINITY), Some(f32::INFINITY));
        assert!(narrow(f64::NAN).unwrap().is_nan());
    }
}
