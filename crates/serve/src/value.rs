//! Values that people type in URLs.

use std::time::Duration;

use trilane_units as units;

/// Largest body that the server makes up, in bytes: 1 GiB.
const MAX_BYTES: u64 = 1 << 30;
/// Longest wait that a request may ask for.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// A number of bytes such as `11` or `16k`, up to 1 GiB.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    units::size(text).ok().filter(|&bytes| bytes <= MAX_BYTES)
}

/// A time such as `50ms`, up to ten minutes.
pub(crate) fn parse_wait(text: &str) -> Option<Duration> {
    units::time(text).ok().filter(|&time| time <= MAX_WAIT)
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
    fn bytes_stop_at_one_gibibyte() {
        assert_eq!(parse_bytes("16k"), Some(16 << 10));
        assert_eq!(parse_bytes("1g"), Some(1 << 30));
        for wrong in ["", "k", "-1", "1025m", "many"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn waits_stop_at_ten_minutes() {
        assert_eq!(parse_wait("50ms"), Some(Duration::from_millis(50)));
        assert_eq!(parse_wait("10m"), Some(Duration::from_secs(600)));
        for wrong in ["", "soon", "11m", "-1s"] {
            assert_eq!(parse_wait(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn query_finds_a_key() {
        assert_eq!(query(Some("a=1&id=7"), "id"), Some("7"));
        assert_eq!(query(Some("identity=7"), "id"), None);
        assert_eq!(query(None, "id"), None);
    }
}
