//! Which hosts a request may name.
//!
//! A page can have its own name lead to this address (DNS rebinding): for its browser the server is then part
//! of the page's site, and what it answers may be read there. Such a request names that site as its host.

use std::net::Ipv4Addr;

use http::{header::HOST, request::Parts};

use super::authority;
use crate::Error;

/// Names under which the server is served. Addresses always are: nobody binds one to another.
pub(crate) struct Hosts {
    any: bool,
    names: Vec<String>,
    /// What names end in, such as `.shop.example`.
    endings: Vec<String>,
}

impl Hosts {
    /// `localhost` and the names below it, those of the certificate, and those that are `allowed`: each is a
    /// name, `*.` and a name for all below it, or `*` for all.
    pub(crate) fn new(allowed: &[String], certified: &[String]) -> Result<Self, Error> {
        let mut hosts = Self {
            any: false,
            names: vec!["localhost".to_owned()],
            endings: vec![".localhost".to_owned()],
        };
        for name in allowed {
            match name.as_str() {
                "*" => hosts.any = true,
                name if !hosts.add(name) => {
                    return Err(Error::Config(format!(
                        "allowed host {name:?} is not a host name: give one without scheme and port, such \
                         as shop.example, *.shop.example for all below it, or * for all"
                    )));
                }
                _ => {}
            }
        }
        for name in certified {
            // One that is not a name, as certificates may hold them, allows nothing.
            hosts.add(name);
        }
        Ok(hosts)
    }

    /// Adds a name or `*.` and a name; false if it is neither.
    fn add(&mut self, name: &str) -> bool {
        let (list, rest) = match name.strip_prefix('*') {
            Some(ending) if ending.starts_with('.') => (&mut self.endings, &ending[1..]),
            Some(_) => return false,
            None => (&mut self.names, name),
        };
        let is_name = !rest.is_empty()
            && rest.split('.').all(|label| {
                let mut bytes = label.bytes();
                !label.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
            });
        if is_name {
            list.push(name.trim_start_matches('*').to_owned());
        }
        is_name
    }

    /// Whether the request names no other host than these. It is sound, as [`authority::is_sound`] says.
    pub(super) fn allow(&self, head: &Parts) -> bool {
        if self.any {
            return true;
        }
        let named = head.uri.authority().map(|named| named.as_str().as_bytes());
        let host = head.headers.get(HOST).map(|host| host.as_bytes());
        let mut all = named.into_iter().chain(host);
        all.all(|value| self.has(authority::host(value)))
    }

    fn has(&self, host: &[u8]) -> bool {
        let host = host.strip_suffix(b".").unwrap_or(host);
        let is = |name: &String| host.eq_ignore_ascii_case(name.as_bytes());
        let ends = |ending: &String| {
            let at = host.len().checked_sub(ending.len());
            at.is_some_and(|at| at > 0 && host[at..].eq_ignore_ascii_case(ending.as_bytes()))
        };
        let is_address = || {
            // What stands in brackets is one of IPv6, or the request would not be sound.
            host.first() == Some(&b'[')
                || str::from_utf8(host).is_ok_and(|text| text.parse::<Ipv4Addr>().is_ok())
        };
        // No browser leaves the host empty.
        host.is_empty()
            || self.names.iter().any(is)
            || is_address()
            || self.endings.iter().any(ends)
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Version};

    use super::*;

    fn hosts(allowed: &[&str], certified: &[&str]) -> Result<Hosts, Error> {
        let owned =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        Hosts::new(&owned(allowed), &owned(certified))
    }

    fn head(version: Version, target: &str, host: &str) -> Parts {
        let request = Request::builder().version(version).uri(target);
        let request = match host {
            "" => request,
            host => request.header(HOST, host),
        };
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn names_of_ones_own_and_addresses_are_served() {
        let own = hosts(
            &["Shop.example", "*.b.example"],
            &["*.c.example", "odd name"],
        )
        .unwrap();
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:8080", true),
            ("localhost.:80", true),
            ("app.localhost:8080", true),
            ("127.0.0.1:8080", true),
            ("192.168.7.9", true),
            ("[::1]:8080", true),
            ("shop.example:1", true),
            ("x.b.example", true),
            ("x.y.c.example", true),
            ("b.example", false),
            (".b.example", false),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("evillocalhost", false),
            ("127.0.0.1.evil.example", false),
            ("xshop.example", false),
        ] {
            let found = own.allow(&head(Version::HTTP_11, "/", host));
            assert_eq!(found, expected, "{host}");
            if !host.starts_with('.') {
                let target = format!("http://{host}/");
                let found = own.allow(&head(Version::HTTP_2, &target, ""));
                assert_eq!(found, expected, "{target}");
            }
        }
        // Each of two has to be one.
        let both = head(Version::HTTP_11, "http://evil.example/", "localhost");
        assert!(!own.allow(&both));
        assert!(own.allow(&head(Version::HTTP_10, "/", "")));
        let any = hosts(&["*"], &[]).unwrap();
        assert!(any.allow(&head(Version::HTTP_11, "/", "evil.example")));
    }

    #[test]
    fn what_is_not_a_name_is_refused_where_it_is_typed() {
        for wrong in [
            "",
            "a:80",
            "http://a",
            "a/b",
            "*a.example",
            "*.",
            "a..b",
            "**",
        ] {
            let told = hosts(&[wrong], &[]).err().unwrap().to_string();
            assert!(told.contains("shop.example"), "{wrong}: {told}");
        }
    }
}
