//! What connections say of themselves before anything else: whose they are, by the PROXY protocol.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::options::{Options, ProxyProtocol, Version};
use crate::plan::{PlanError, usage};

/// What each connection of a run says first.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    version: ProxyProtocol,
    /// Where connections say that they come from, in turn; empty: from where they do.
    sources: Vec<IpNet>,
}

impl Announced {
    /// What `options` ask for, over this version of HTTP; `None` where they ask for nothing.
    pub(crate) fn new(
        options: &Options,
        version: Option<Version>,
    ) -> Result<Option<Self>, PlanError> {
        let Some(announced) = options.proxy_protocol else {
            return match options.proxy_source {
                None => Ok(None),
                Some(_) => usage(
                    "--proxy-source is told by the PROXY protocol: type --proxy-protocol v2 with it",
                ),
            };
        };
        if version == Some(Version::H3) {
            return usage(
                "--proxy-protocol goes before the first bytes of a TCP connection, and --h3 has none: type --h2 or --h1",
            );
        }
        let over_unix = options
            .connect_to
            .as_deref()
            .is_some_and(|to| to.starts_with("unix:"));
        if over_unix && options.proxy_source.is_some() {
            return usage(
                "--proxy-source over a Unix socket: such a connection has no address of its own to be told beside it: type --connect-to HOST:PORT, or leave --proxy-source out",
            );
        }
        let sources = options.proxy_source.as_deref().map(parse).transpose()?;
        Ok(Some(Self {
            version: announced,
            sources: sources.unwrap_or_default(),
        }))
    }

    /// The header of the connection of this number, counted over all threads: from `addresses`, its own and that
    /// of its other end, as far as it has such.
    pub(crate) fn header(
        &self,
        number: usize,
        addresses: Option<(SocketAddr, SocketAddr)>,
    ) -> Vec<u8> {
        let addresses = addresses.map(|(mut source, destination)| {
            if let Some(address) = self.source(number) {
                source = (address, source.port()).into();
            }
            (source, destination)
        });
        let mut header = Vec::new();
        self.version.write(addresses, &mut header);
        header
    }

    /// The address that the connection of this number says it comes from, where it is not its own.
    fn source(&self, number: usize) -> Option<IpAddr> {
        let counts = || self.sources.iter().map(|range| count(*range));
        let mut at = number.checked_rem(counts().fold(0, usize::saturating_add))?;
        for (range, count) in self.sources.iter().zip(counts()) {
            if at < count {
                return range.hosts().nth(at);
            }
            at -= count;
        }
        None
    }
}

/// How many addresses of a range hosts have: those of IPv4 that name the network, or all in it, no host has.
fn count(range: IpNet) -> usize {
    range.hosts().size_hint().0
}

fn parse(text: &str) -> Result<Vec<IpNet>, PlanError> {
    let range = |text: &str| {
        let address = || text.trim_matches(['[', ']']).parse().map(IpAddr::into);
        address().or_else(|_| text.parse()).ok()
    };
    let parsed: Option<Vec<_>> = text.split(',').map(|part| range(part.trim())).collect();
    parsed.map_or_else(
        || {
            usage(format!(
                "--proxy-source {text:?} is no list of addresses and ranges: type --proxy-source 10.0.0.0/24"
            ))
        },
        Ok,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(source: &str) -> Options {
        Options {
            proxy_protocol: Some(ProxyProtocol::V1),
            proxy_source: Some(source.into()),
            ..Options::default()
        }
    }

    fn sources(text: &str, count: usize) -> Vec<String> {
        let announced = Announced::new(&asked(text), None).unwrap().unwrap();
        let told = |number| announced.source(number).unwrap().to_string();
        (0..count).map(told).collect()
    }

    fn message(options: &Options, version: Option<Version>) -> String {
        Announced::new(options, version).unwrap_err().to_string()
    }

    #[test]
    fn addresses_and_ranges_take_turns() {
        assert_eq!(
            sources("192.0.2.9, 10.0.0.0/30,[2001:db8::1]", 5),
            [
                "192.0.2.9",
                "10.0.0.1",
                "10.0.0.2",
                "2001:db8::1",
                "192.0.2.9"
            ]
        );
        // Host bits of a range are nobody's concern.
        assert_eq!(sources("10.1.2.3/8", 2), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(
            sources("10.0.0.1/32,10.0.0.4/31", 3),
            ["10.0.0.1", "10.0.0.4", "10.0.0.5"]
        );
        // As many as there are: they are counted, never made.
        assert_eq!(sources("::/0", 2), ["::", "::1"]);
    }

    #[test]
    fn a_header_has_the_port_of_the_connection() {
        let announced = Announced::new(&asked("10.0.0.0/24"), None)
            .unwrap()
            .unwrap();
        let own: SocketAddr = "127.0.0.1:5000".parse().unwrap();
        let to: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let header = announced.header(253, Some((own, to)));
        assert_eq!(header, b"PROXY TCP4 10.0.0.254 127.0.0.1 5000 80\r\n");
        assert_eq!(announced.header(0, None), b"PROXY UNKNOWN\r\n");
    }

    #[test]
    fn wrong_use_is_told_with_a_way_out() {
        let nothing = Announced::new(&Options::default(), None).unwrap();
        assert!(nothing.is_none());
        for wrong in ["", "eth0", "10.0.0.0/33", "10.0.0.1,", "10.0.0.1:80"] {
            let text = message(&asked(wrong), None);
            assert!(text.contains("type --proxy-source 10.0.0.0/24"), "{text}");
        }
        let quic = message(&asked("10.0.0.1"), Some(Version::H3));
        assert!(quic.contains("type --h2 or --h1"), "{quic}");
        let unix = Options {
            connect_to: Some("unix:/run/x".into()),
            ..asked("10.0.0.1")
        };
        assert!(message(&unix, None).contains("type --connect-to HOST:PORT"));
        let alone = Options {
            proxy_protocol: None,
            ..asked("10.0.0.1")
        };
        assert!(message(&alone, None).contains("type --proxy-protocol v2"));
    }
}
