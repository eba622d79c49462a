//! Which host a request is for: Host, `:authority`, and what makes them malformed.

use std::net::Ipv6Addr;

use http::{Version, header::HOST, request::Parts};

/// Whether a request names one host, as its version of HTTP demands: RFC 9112 section 3.2, RFC
/// 9113 section 8.3.1, RFC 9114 section 4.3.1.
pub(super) fn is_sound(head: &Parts) -> bool {
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = hosts.next().map(|host| host.as_bytes());
    if hosts.next().is_some() || host.is_some_and(|host| !is_authority(host)) {
        return false;
    }
    let authority = head.uri.authority().map(|named| named.as_str().as_bytes());
    match head.version {
        // Host is younger than HTTP/1.0.
        Version::HTTP_09 | Version::HTTP_10 => true,
        Version::HTTP_11 => host.is_some(),
        _ => match (authority, host) {
            (Some(named), Some(host)) => named.eq_ignore_ascii_case(host),
            (Some(named), None) => is_authority(named),
            (None, Some(host)) => !host.is_empty(),
            (None, None) => false,
        },
    }
}

/// The value that alone names the host, where one does: all that [`is_sound`] looks at.
pub(super) fn only(head: &Parts) -> Option<&[u8]> {
    let mut hosts = head.headers.get_all(HOST).iter();
    match (head.uri.authority(), hosts.next(), hosts.next()) {
        (Some(named), None, _) if head.version >= Version::HTTP_2 => {
            Some(named.as_str().as_bytes())
        }
        (None, Some(host), None) if head.version == Version::HTTP_11 => Some(host.as_bytes()),
        _ => None,
    }
}

/// The host of a sound value, without its port.
pub(super) fn host(value: &[u8]) -> &[u8] {
    let end = match value.first() {
        Some(b'[') => value.iter().position(|&byte| byte == b']').map(|at| at + 1),
        _ => value.iter().position(|&byte| byte == b':'),
    };
    &value[..end.unwrap_or(value.len())]
}

/// RFC 9110 section 7.2: a host and perhaps a port, as RFC 3986 section 3.2 spells them.
fn is_authority(value: &[u8]) -> bool {
    let end = match value.first() {
        Some(b'[') => {
            let Some(end) = value.iter().position(|&byte| byte == b']') else {
                return false;
            };
            if !is_ipv6(&value[1..end]) {
                return false;
            }
            end + 1
        }
        _ => {
            let end = value.iter().position(|&byte| byte == b':');
            let end = end.unwrap_or(value.len());
            if !is_name(&value[..end]) {
                return false;
            }
            end
        }
    };
    match value[end..].split_first() {
        None => true,
        Some((b':', port)) => port.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}

fn is_ipv6(text: &[u8]) -> bool {
    str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// RFC 3986: `reg-name`, which also covers IPv4 addresses.
fn is_name(mut text: &[u8]) -> bool {
    loop {
        match text {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                text = rest;
            }
            [byte, rest @ ..]
                if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) =>
            {
                text = rest;
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(version: Version, target: &str, hosts: &[&str]) -> Parts {
        let mut request = Request::builder().version(version).uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn hosts_are_names_and_addresses_with_or_without_a_port() {
        for good in [
            "",
            "a",
            "localhost:8080",
            "a.example:",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:443",
            "a_b",
            "%41~",
            "x'()*+,;=!$&",
            ":80",
        ] {
            assert!(is_sound(&head(Version::HTTP_11, "/", &[good])), "{good}");
        }
        for bad in [
            "a b", "a/b", "user@a", "a:b", "a:1:2", "[::1", "[::1]x", "[a]", "[]", "%4", "%zz",
            "a,b c", "a?", "a#", "a\\b", "\"a\"",
        ] {
            assert!(!is_sound(&head(Version::HTTP_11, "/", &[bad])), "{bad}");
        }
        let mut strange = head(Version::HTTP_11, "/", &["a"]);
        let value = http::HeaderValue::from_bytes(b"\xff").unwrap();
        strange.headers.insert(HOST, value);
        assert!(!is_sound(&strange));
    }

    #[test]
    fn each_version_wants_its_own() {
        use Version as V;
        for (version, target, hosts, sound) in [
            (V::HTTP_10, "/", &[][..], true),
            (V::HTTP_10, "/", &["a", "b"], false),
            (V::HTTP_11, "/", &[], false),
            (V::HTTP_11, "http://a/", &[], false),
            (V::HTTP_11, "http://a/", &["b"], true),
            (V::HTTP_11, "/", &["a", "a"], false),
            (V::HTTP_2, "http://a/", &[], true),
            (V::HTTP_2, "http://a/", &["A"], true),
            (V::HTTP_2, "http://a/", &["b"], false),
            (V::HTTP_2, "http://a/", &["a", "a"], false),
            (V::HTTP_2, "http://u@a/", &[], false),
            (V::HTTP_2, "/", &["a"], true),
            (V::HTTP_2, "/", &[""], false),
            (V::HTTP_3, "/", &[], false),
        ] {
            let head = head(version, target, hosts);
            assert_eq!(is_sound(&head), sound, "{version:?} {target} {hosts:?}");
        }
    }
}
