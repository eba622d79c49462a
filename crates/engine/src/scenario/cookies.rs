//! The cookies of one virtual user: what a user agent keeps of what servers set, and where it goes.

use std::cmp::Reverse;

use cookie_store::{Cookie, CookieDomain, CookieStore};
use psl::Psl;
use url::{Host, Url};

/// Cookies that a user keeps at most; browsers keep as many of a site.
const MOST: usize = 180;

/// A jar by RFC 6265bis: the library's, whose rules are those of RFC 6265, and the newer ones.
#[derive(Default)]
pub(super) struct Cookies {
    jar: CookieStore,
}

impl Cookies {
    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.jar.clear();
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.jar.iter_any().next().is_none()
    }

    /// Keeps what a response from `url` sets, unless no user agent would, as what is for another domain.
    pub(super) fn keep(&mut self, field: &str, url: &Url) {
        let Ok(cookie) = Cookie::parse(field, url) else {
            return;
        };
        let mut cookie = cookie.into_owned();
        if self.jar.iter_any().count() < MOST && self.may_keep(&mut cookie, url) {
            // What it refuses is to be passed over.
            let _ = self.jar.insert(cookie, url);
        }
    }

    /// Writes the value of the field `cookie` for `url`; nothing where there are none for it.
    pub(super) fn write(&self, url: &Url, out: &mut String) {
        let mut matching = self.jar.matches(url);
        // RFC 6265 §5.4: longer paths first.
        matching.sort_by_key(|cookie| Reverse(cookie.path.len()));
        for (name, value) in matching.iter().map(|cookie| cookie.name_value()) {
            if !out.is_empty() {
                out.push_str("; ");
            }
            out.push_str(name);
            out.push('=');
            out.push_str(value);
        }
    }

    /// RFC 6265bis §5.7, what the library has not: public suffixes, prefixes of names, and what `http` may set.
    fn may_keep(&self, cookie: &mut Cookie<'static>, url: &Url) -> bool {
        let has_domain = match &cookie.domain {
            CookieDomain::Suffix(domain) if is_public_suffix(domain) => {
                if !cookie.domain.host_is_identical(url) {
                    return false;
                }
                let Ok(own) = CookieDomain::host_only(url) else {
                    return false;
                };
                cookie.domain = own;
                false
            }
            CookieDomain::Suffix(_) => true,
            _ => false,
        };
        let secure = cookie.secure().unwrap_or(false);
        let name = cookie.name().to_ascii_lowercase();
        if name.starts_with("__host-") {
            let whole = cookie.path.is_from_path_attr() && &*cookie.path == "/";
            if !secure || has_domain || !whole {
                return false;
            }
        } else if name.starts_with("__secure-") && !secure {
            return false;
        }
        is_secure(url) || (!secure && !self.hides(cookie))
    }

    /// Whether a cookie would replace, or stand before, one that is `Secure`.
    fn hides(&self, cookie: &Cookie<'_>) -> bool {
        self.jar.iter_unexpired().any(|other| {
            other.secure().unwrap_or(false)
                && other.name() == cookie.name()
                && (covers(&cookie.domain, &other.domain) || covers(&other.domain, &cookie.domain))
                && is_below(&cookie.path, &other.path)
        })
    }
}

/// Whether anybody may register names below this one; one label that is not listed is one too.
fn is_public_suffix(domain: &str) -> bool {
    let found = psl::List.suffix(domain.as_bytes());
    found.is_some_and(|suffix| suffix == domain)
}

/// Whether cookies that are `Secure` go to `url`: the library sends them to this machine too.
fn is_secure(url: &Url) -> bool {
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
}

/// Whether `host` is `domain`, or one of its names (RFC 6265bis §5.1.3).
fn covers(domain: &CookieDomain, host: &CookieDomain) -> bool {
    let (Some(domain), Some(host)) = (domain.as_cow(), host.as_cow()) else {
        return false;
    };
    host.strip_suffix(&*domain)
        .is_some_and(|names| names.is_empty() || names.ends_with('.'))
}

/// Whether `path` matches that of a cookie (RFC 6265bis §5.1.4).
fn is_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || other.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent to `to` after `set` has come from `from`.
    fn sent(set: &[(&str, &str)], to: &str) -> String {
        let mut cookies = Cookies::default();
        for (from, field) in set {
            cookies.keep(field, &Url::parse(from).unwrap());
        }
        let mut out = String::new();
        cookies.write(&Url::parse(to).unwrap(), &mut out);
        out
    }

    #[test]
    fn what_user_agents_keep_and_where_it_goes() {
        let shop = "https://shop.example.com/";
        for (field, to, expected) in [
            ("a=1", "https://eu.shop.example.com/", ""),
            ("a=1; Domain=example.com", "https://example.com/", "a=1"),
            ("a=1; Domain=com", "https://other.com/", ""),
            ("__Host-a=1; Secure; Path=/", shop, "__Host-a=1"),
            ("__Host-a=1; Secure", shop, ""),
            ("__host-a=1; Path=/", shop, ""),
            ("__Host-a=1; Secure; Path=/; Domain=example.com", shop, ""),
            ("__Secure-a=1", shop, ""),
        ] {
            assert_eq!(sent(&[(shop, field)], to), expected, "{field}");
        }
        assert_eq!(
            sent(
                &[("http://localhost/", "a=1; Domain=localhost")],
                "http://localhost/"
            ),
            "a=1"
        );
        assert_eq!(
            sent(
                &[("https://a.github.io/", "a=1; Domain=github.io")],
                "https://b.github.io/"
            ),
            ""
        );
    }

    #[test]
    fn http_does_not_overwrite_what_is_secure() {
        let set = ("https://example.com/", "a=1; Secure");
        for (from, field) in [
            ("http://example.com/", "a=evil"),
            ("http://sub.example.com/", "a=evil; Domain=example.com"),
            ("http://example.com/", "b=2; Secure"),
        ] {
            let cookies = sent(&[set, (from, field)], "https://example.com/");
            assert_eq!(cookies, "a=1", "{from} {field}");
        }
        let cookies = sent(
            &[set, ("https://example.com/", "a=2")],
            "https://example.com/",
        );
        assert_eq!(cookies, "a=2");
    }
}
