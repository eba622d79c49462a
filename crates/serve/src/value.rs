//! Values that people type, in URLs and in flags: sizes, times, lists of processors.

use std::time::Duration;

/// Largest body that the server makes up, in bytes: 1 GiB.
pub(crate) const MAX_BYTES: u64 = 1 << 30;
/// Longest wait that a request may ask for.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(600);

/// A number of bytes: digits with an optional `k`, `m` or `g` (powers of 1024), up to 1 GiB.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (bytes <= MAX_BYTES).then_some(bytes)
}

/// A time: a decimal number with the unit `us`, `ms`, `s`, `m` or `h`; seconds without a unit.
pub fn parse_time(text: &str) -> Option<Duration> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let seconds = match &text[end..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = text[..end].parse().ok()?;
    Duration::try_from_secs_f64(number * seconds).ok()
}

/// A list of processor numbers such as `0,2-3`.
pub fn parse_cpus(text: &str) -> Option<Vec<usize>> {
    // What a Linux `cpu_set_t` can name.
    const LIMIT: usize = 1024;
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= LIMIT {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The value of `key` in a query string. Values of interest need no percent-decoding.
pub(crate) fn query<'a>(query: Option<&'a str>, key: &str) -> Option<&'a str> {
    query?.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name == key).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_suffixes_and_stop_at_one_gibibyte() {
        assert_eq!(parse_bytes("0"), Some(0));
        assert_eq!(parse_bytes("16k"), Some(16 << 10));
        assert_eq!(parse_bytes("3M"), Some(3 << 20));
        assert_eq!(parse_bytes("1g"), Some(1 << 30));
        for wrong in [
            "",
            "k",
            "-1",
            "1.5k",
            "+3",
            "1073741825",
            "99999999999g",
            "1kk",
            "é",
        ] {
            assert_eq!(parse_bytes(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn times_take_units() {
        assert_eq!(parse_time("50ms"), Some(Duration::from_millis(50)));
        assert_eq!(parse_time("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_time("2"), Some(Duration::from_secs(2)));
        assert_eq!(parse_time("250us"), Some(Duration::from_micros(250)));
        assert_eq!(parse_time("2m"), Some(Duration::from_secs(120)));
        for wrong in ["", "s", "-1s", "1 s", "1d", "1e3", "nan", "1..2s", "9e99"] {
            assert_eq!(parse_time(wrong), None, "{wrong:?}");
        }
        assert_eq!(parse_time(&format!("{}h", "9".repeat(400))), None);
    }

    #[test]
    fn processor_lists_take_ranges() {
        assert_eq!(parse_cpus("0,2-4"), Some(vec![0, 2, 3, 4]));
        for wrong in ["", "a", "3-1", "0,", "1024"] {
            assert_eq!(parse_cpus(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn query_finds_a_key() {
        assert_eq!(query(Some("a=1&id=7"), "id"), Some("7"));
        assert_eq!(query(Some("identity=7"), "id"), None);
        assert_eq!(query(None, "id"), None);
    }
}
