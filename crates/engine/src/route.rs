//! Where connections go: to a host's addresses or a Unix socket, through a proxy, from local addresses.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use trilane_connection::Tunnel;
use url::Url;

use crate::failure::FailureKind;
use crate::options::{Options, Version};
use crate::plan::{PlanError, usage};
use crate::run::RunError;

/// The way to an origin.
#[derive(Clone, Debug)]
pub struct Route {
    /// The host to connect to, or to ask a proxy for; an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// A Unix socket to connect to instead.
    pub unix: Option<PathBuf>,
    /// The proxy that makes a tunnel.
    pub proxy: Option<Proxy>,
    /// Local addresses to connect from, in turn; all of one family.
    pub sources: Vec<IpAddr>,
    /// Addresses of hosts that are not asked of the resolver.
    known: Vec<Known>,
}

/// A proxy that makes tunnels by CONNECT.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Host, an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Fields of the request for a tunnel.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// `--resolve HOST:PORT:ADDRESS,…`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
}

/// What a socket is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Ip(SocketAddr),
    Unix(Arc<Path>),
}

impl Address {
    /// That of IP; a Unix socket has none.
    pub(crate) fn ip(&self) -> Option<SocketAddr> {
        match self {
            Address::Ip(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Route {
    /// The way that `options` ask for to the `host` and `port` of a URL.
    pub fn new(options: &Options, host: &str, port: u16) -> Result<Self, PlanError> {
        let mut route = Self {
            host: host.to_owned(),
            port,
            unix: None,
            proxy: options.proxy.as_deref().map(Proxy::parse).transpose()?,
            sources: sources(options.bind.as_deref())?,
            known: options
                .resolve
                .iter()
                .map(|text| Known::parse(text))
                .collect::<Result<_, _>>()?,
        };
        match options.connect_to.as_deref() {
            None => (),
            Some(text) => match text.strip_prefix("unix:") {
                Some("") => return usage("--connect-to unix: names no socket: type unix:PATH"),
                Some(path) => route.unix = Some(PathBuf::from(path)),
                None => (route.host, route.port) = split_host_port(text)?,
            },
        }
        route.check(options.version)?;
        Ok(route)
    }

    fn check(&self, version: Option<Version>) -> Result<(), PlanError> {
        let quic = version == Some(Version::H3);
        match (&self.unix, &self.proxy) {
            (Some(_), _) if quic => usage("--h3 does not go over a Unix socket: type --h2 or --h1"),
            (_, Some(_)) if quic => usage("--h3 does not go through a proxy: type --h2 or --h1"),
            (Some(_), Some(_)) => usage("--proxy leads to no Unix socket: leave one of them out"),
            (Some(_), _) if !self.sources.is_empty() => {
                usage("--bind has no meaning for a Unix socket: leave it out")
            }
            _ => Ok(()),
        }
    }

    /// The request for a tunnel, where a proxy is asked for one.
    pub(crate) fn tunnel(&self) -> Result<Option<Tunnel>, PlanError> {
        let Some(proxy) = &self.proxy else {
            return Ok(None);
        };
        let fields: Vec<_> = proxy
            .fields
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        Tunnel::new(&self.host, self.port, &fields)
            .map(Some)
            .map_err(|error| PlanError::Usage(format!("--proxy: {error}")))
    }

    /// The addresses to connect to, in the order of the resolver, which gets `patience`.
    pub(crate) fn resolve(&self, patience: Duration) -> Result<Vec<Address>, RunError> {
        if let Some(path) = &self.unix {
            return Ok(vec![Address::Unix(path.as_path().into())]);
        }
        let (host, port) = match &self.proxy {
            Some(proxy) => (&proxy.host, proxy.port),
            None => (&self.host, self.port),
        };
        let mut found: Vec<SocketAddr> = match self.known(host, port) {
            Some(known) => known.iter().map(|&known| (known, port).into()).collect(),
            None => ask(host, port, patience)?,
        };
        if let Some(source) = self.sources.first() {
            found.retain(|address| address.is_ipv4() == source.is_ipv4());
        }
        if found.is_empty() {
            let family = match self.sources.first() {
                None => "",
                Some(IpAddr::V4(_)) => " of IPv4, as --bind wants it",
                Some(IpAddr::V6(_)) => " of IPv6, as --bind wants it",
            };
            let message = format!("the name {host:?} has no address{family}");
            return Err(RunError::from_connection(FailureKind::Dns, message));
        }
        Ok(found.into_iter().map(Address::Ip).collect())
    }

    /// The addresses of a host that are not asked of the resolver.
    pub fn known(&self, host: &str, port: u16) -> Option<&[IpAddr]> {
        let mut known = self.known.iter();
        let found = known.find(|known| known.port == port && known.host.eq_ignore_ascii_case(host));
        found.map(|known| &known.addresses[..])
    }

    /// The local address of the connection of this number, counted over all threads.
    pub(crate) fn source(&self, number: usize) -> Option<SocketAddr> {
        let source = self.sources.get(number % self.sources.len().max(1))?;
        Some((*source, 0).into())
    }
}

/// Asks the system's resolver.
fn ask(host: &str, port: u16, patience: Duration) -> Result<Vec<SocketAddr>, RunError> {
    let (sender, receiver) = mpsc::channel();
    let name = host.to_owned();
    // It takes no timeout: it is left behind when it is late.
    thread::spawn(move || {
        let found = (name.as_str(), port)
            .to_socket_addrs()
            .map(Iterator::collect::<Vec<_>>);
        let _ = sender.send(found);
    });
    let dns = |message| Err(RunError::from_connection(FailureKind::Dns, message));
    match receiver.recv_timeout(patience) {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => {
            let reason = error.to_string();
            let reason = reason
                .strip_prefix("failed to lookup address information: ")
                .unwrap_or(&reason);
            dns(format!(
                "cannot resolve the host {host:?}: {reason}; check the spelling, or type --connect-to HOST:PORT"
            ))
        }
        Err(_) => dns(format!(
            "the resolver did not answer for {host:?} within {patience:?}"
        )),
    }
}

impl Proxy {
    fn parse(text: &str) -> Result<Self, PlanError> {
        let wrong = |why: &str| {
            let shown = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
            usage(format!(
                "--proxy {shown:?}: {why}: type --proxy http://127.0.0.1:3128"
            ))
        };
        let url = match Url::parse(text) {
            Ok(url) if url.scheme() == "http" && url.has_host() => url,
            Ok(url) if matches!(url.scheme(), "https" | "socks5" | "socks5h") => {
                return wrong("tunnels are asked for over HTTP without TLS");
            }
            Err(url::ParseError::InvalidPort) => {
                return wrong("its port is not a number from 0 to 65535");
            }
            _ => return wrong("not the URL of a proxy"),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() {
            return wrong("a proxy has no path");
        }
        let mut fields = Vec::new();
        if !url.username().is_empty() || url.password().is_some() {
            let mut secret: Vec<u8> = percent_decode_str(url.username()).collect();
            secret.push(b':');
            secret.extend(percent_decode_str(url.password().unwrap_or_default()));
            let value = format!("Basic {}", STANDARD.encode(secret));
            fields.push((b"Proxy-Authorization".to_vec(), value.into_bytes()));
        }
        let host = url.host_str().unwrap_or_default();
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(80),
            fields,
        })
    }
}

impl Known {
    fn parse(text: &str) -> Result<Self, PlanError> {
        let parsed = || {
            let (host, rest) = match text.strip_prefix('[') {
                Some(rest) => rest.split_once("]:")?,
                None => text.split_once(':')?,
            };
            let (port, addresses) = rest.split_once(':')?;
            let addresses = addresses
                .split(',')
                .map(|address| address.trim_matches(['[', ']']).parse().ok())
                .collect::<Option<Vec<_>>>()?;
            Some(Self {
                host: host.to_owned(),
                port: port.parse().ok()?,
                addresses,
            })
        };
        parsed().filter(|known| !known.host.is_empty()).map_or_else(
            || {
                usage(format!(
                    "--resolve {text:?} is not HOST:PORT:ADDRESS: type --resolve api.example:443:127.0.0.1"
                ))
            },
            Ok,
        )
    }
}

fn sources(text: Option<&str>) -> Result<Vec<IpAddr>, PlanError> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    let parsed: Option<Vec<IpAddr>> = text
        .split(',')
        .map(|address| address.trim().trim_matches(['[', ']']).parse().ok())
        .collect();
    match parsed {
        None => usage(format!(
            "--bind {text:?} is not an address of this machine: type --bind 127.0.0.2"
        )),
        Some(sources) if sources.iter().any(|s| s.is_ipv4() != sources[0].is_ipv4()) => {
            usage("--bind: addresses of IPv4 and IPv6 do not mix")
        }
        Some(sources) => Ok(sources),
    }
}

/// Splits `HOST:PORT`, with brackets around an IPv6 address.
fn split_host_port(text: &str) -> Result<(String, u16), PlanError> {
    let parsed = text.rsplit_once(':').and_then(|(host, port)| {
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        Some((host.to_owned(), port.parse().ok()?))
    });
    match parsed {
        Some((host, port)) if !host.is_empty() && port != 0 => Ok((host, port)),
        _ => usage(format!(
            "--connect-to {text:?} is not HOST:PORT with a port from 1 to 65535: type --connect-to 127.0.0.1:8443, or --connect-to [::1]:8443"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(change: impl FnOnce(&mut Options)) -> Result<Route, PlanError> {
        let mut options = Options::default();
        change(&mut options);
        Route::new(&options, "api.example", 443)
    }

    fn message(change: impl FnOnce(&mut Options)) -> String {
        route(change).unwrap_err().to_string()
    }

    fn resolved(change: impl FnOnce(&mut Options)) -> Result<Vec<String>, String> {
        let found = route(change).unwrap().resolve(Duration::from_secs(60));
        found
            .map(|found| found.iter().map(Address::to_string).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_that_are_given_are_not_asked_for() {
        let known = |text: &'static str| move |o: &mut Options| o.resolve = vec![text.into()];
        assert_eq!(
            resolved(known("API.example:443:127.0.0.1,[::1]")).unwrap(),
            ["127.0.0.1:443", "[::1]:443"]
        );
        let both = |o: &mut Options| {
            known("api.example:443:127.0.0.1,::1")(o);
            o.bind = Some("::1".into());
        };
        assert_eq!(resolved(both).unwrap(), ["[::1]:443"]);
        let neither = |o: &mut Options| {
            known("api.example:443:127.0.0.1")(o);
            o.bind = Some("::1".into());
        };
        assert!(resolved(neither).unwrap_err().contains("--bind"));
        for wrong in [
            "api.example:443",
            "api.example:x:127.0.0.1",
            ":443:::1",
            "a:1:b",
        ] {
            assert!(message(known(wrong)).contains("type --resolve"), "{wrong}");
        }
    }

    #[test]
    fn a_unix_socket_stands_in_for_host_and_port() {
        let to = |text: &'static str| move |o: &mut Options| o.connect_to = Some(text.into());
        assert_eq!(
            resolved(to("unix:/run/x.sock")).unwrap(),
            ["unix:/run/x.sock"]
        );
        assert!(message(to("unix:")).contains("unix:PATH"));
        let quic = |o: &mut Options| {
            to("unix:/run/x.sock")(o);
            o.version = Some(Version::H3);
        };
        assert!(message(quic).contains("--h2"));
    }

    #[test]
    fn a_proxy_is_asked_with_the_users_name() {
        let proxy = |text: &'static str| move |o: &mut Options| o.proxy = Some(text.into());
        let found = route(proxy("http://a%40b:c%3Ad@[::1]:3128")).unwrap();
        let proxy_found = found.proxy.as_ref().unwrap();
        assert_eq!((proxy_found.host.as_str(), proxy_found.port), ("::1", 3128));
        let (name, value) = &proxy_found.fields[0];
        assert_eq!(name, b"Proxy-Authorization");
        // "a@b:c:d"
        assert_eq!(value, b"Basic YUBiOmM6ZA==");
        assert!(found.tunnel().unwrap().is_some());
        for wrong in [
            "127.0.0.1:3128",
            "https://u:secret@p:1",
            "http://p:1/x",
            "socks5://p:1",
            "http://p:99999",
        ] {
            let text = message(proxy(wrong));
            assert!(text.contains("type --proxy http://"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn local_addresses_take_turns() {
        let bind = |text: &'static str| move |o: &mut Options| o.bind = Some(text.into());
        let found = route(bind("127.0.0.2, 127.0.0.3")).unwrap();
        let sources: Vec<_> = (0..3)
            .map(|n| found.source(n).unwrap().to_string())
            .collect();
        assert_eq!(sources, ["127.0.0.2:0", "127.0.0.3:0", "127.0.0.2:0"]);
        assert_eq!(route(|_| ()).unwrap().source(5), None);
        assert!(message(bind("eth0")).contains("type --bind"));
        assert!(message(bind("127.0.0.2,::1")).contains("do not mix"));
    }
}
