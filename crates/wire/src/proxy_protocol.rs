//! The header of HAProxy's PROXY protocol, by which whoever relays a connection tells the server whose it is
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>; sections below are its own).

use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// What a header of version 2 begins with (§2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 with the command LOCAL: the server takes the addresses of the connection itself.
const LOCAL: u8 = 0x20;
/// Version 2 with the command PROXY.
const PROXY: u8 = 0x21;
/// AF_UNSPEC and UNSPEC.
const UNSPECIFIED: u8 = 0x00;
/// AF_INET and STREAM.
const TCP_OVER_IPV4: u8 = 0x11;
/// AF_INET6 and STREAM.
const TCP_OVER_IPV6: u8 = 0x21;

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// A line of text (§2.1).
    V1,
    /// Binary (§2.2).
    V2,
}

impl ProxyProtocol {
    /// The name in flags and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }

    /// Appends the header of a TCP connection from `source` to `destination` to `out`. `None` is a
    /// connection without such addresses, as over a Unix socket: `UNKNOWN` in version 1, LOCAL in version 2.
    /// A header has one family: where one address is of IPv6, the other is told as IPv4-mapped
    /// (RFC 4291 §2.5.5.2), as HAProxy does.
    pub fn write(self, addresses: Option<(SocketAddr, SocketAddr)>, out: &mut Vec<u8>) {
        let Some((source, destination)) = addresses else {
            match self {
                Self::V1 => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
                Self::V2 => {
                    out.extend_from_slice(SIGNATURE);
                    out.extend_from_slice(&[LOCAL, UNSPECIFIED, 0, 0]);
                }
            }
            return;
        };
        let (from, to) = match (source.ip(), destination.ip()) {
            (from @ IpAddr::V4(_), to @ IpAddr::V4(_)) => (from, to),
            (from, to) => (mapped(from).into(), mapped(to).into()),
        };
        let ports = (source.port(), destination.port());
        match self {
            Self::V1 => line(from, to, ports, out),
            Self::V2 => binary(from, to, ports, out),
        }
    }
}

/// The address as one of IPv6.
fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn line(from: IpAddr, to: IpAddr, ports: (u16, u16), out: &mut Vec<u8>) {
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    // Writing to memory does not fail.
    let _ = write!(
        out,
        "PROXY {family} {} {} {} {}\r\n",
        text(from),
        text(to),
        ports.0,
        ports.1
    );
}

/// As version 1 has it: hexadecimal throughout, where the usual form of a mapped address has dots.
fn text(address: IpAddr) -> String {
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            let [.., high, low] = address.segments();
            format!("::ffff:{high:x}:{low:x}")
        }
        address => address.to_string(),
    }
}

fn binary(from: IpAddr, to: IpAddr, ports: (u16, u16), out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.push(PROXY);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[TCP_OVER_IPV4, 0, 12]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
        }
        (from, to) => {
            out.extend_from_slice(&[TCP_OVER_IPV6, 0, 36]);
            out.extend_from_slice(&mapped(from).octets());
            out.extend_from_slice(&mapped(to).octets());
        }
    }
    out.extend_from_slice(&ports.0.to_be_bytes());
    out.extend_from_slice(&ports.1.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: ProxyProtocol, source: &str, destination: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let addresses = (source.parse().unwrap(), destination.parse().unwrap());
        version.write(Some(addresses), &mut out);
        out
    }

    fn line(source: &str, destination: &str) -> String {
        String::from_utf8(header(ProxyProtocol::V1, source, destination)).unwrap()
    }

    #[test]
    fn version_1_is_a_line() {
        // The example of §2.1.
        assert_eq!(
            line("192.168.0.1:56324", "192.168.0.11:443"),
            "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"
        );
        assert_eq!(
            line("[2001:db8::1]:56324", "[2001:db8::2]:443"),
            "PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n"
        );
        // The longest lines that §2.1 has room for.
        assert_eq!(
            line("255.255.255.255:65535", "255.255.255.255:65535"),
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"
        );
        let most = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
        assert_eq!(line(most, most).len(), 104);
    }

    #[test]
    fn version_1_has_one_family_and_no_dots_in_ipv6() {
        assert_eq!(
            line("10.0.0.7:1", "[2001:db8::2]:443"),
            "PROXY TCP6 ::ffff:a00:7 2001:db8::2 1 443\r\n"
        );
        assert_eq!(
            line("[2001:db8::2]:1", "127.0.0.1:80"),
            "PROXY TCP6 2001:db8::2 ::ffff:7f00:1 1 80\r\n"
        );
    }

    #[test]
    fn version_2_is_binary() {
        // §2.2: signature, version and command, family and protocol, length, addresses, ports.
        let expected = b"\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A\
            \x21\x11\x00\x0C\xC0\xA8\x00\x01\xC0\xA8\x00\x0B\xDC\x04\x01\xBB";
        let written = header(ProxyProtocol::V2, "192.168.0.1:56324", "192.168.0.11:443");
        assert_eq!(written, expected);
    }

    #[test]
    fn version_2_over_ipv6_has_16_bytes_for_an_address() {
        let written = header(ProxyProtocol::V2, "[2001:db8::1]:1", "127.0.0.1:443");
        assert_eq!(written.len(), 52);
        assert_eq!(written[12..16], [0x21, 0x21, 0, 36]);
        assert_eq!(written[16..20], [0x20, 1, 0x0d, 0xb8]);
        assert_eq!(written[42..48], [0xff, 0xff, 127, 0, 0, 1]);
        assert_eq!(written[48..], [0, 1, 1, 0xbb]);
    }

    #[test]
    fn without_addresses_the_server_takes_those_of_the_connection() {
        let mut out = Vec::new();
        ProxyProtocol::V1.write(None, &mut out);
        assert_eq!(out, b"PROXY UNKNOWN\r\n");
        out.clear();
        ProxyProtocol::V2.write(None, &mut out);
        assert_eq!(out, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    }
}
