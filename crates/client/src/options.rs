//! What a caller asks of a connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::{Tls, Version};

/// Where to, and how.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Name or address; an IPv6 address with or without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whether TLS is spoken.
    pub secure: bool,
    /// With TLS any of the three; ALPN decides between the first two, and HTTP/3 races with them.
    /// Without TLS either [`Version::H1`], or [`Version::H2`] alone (prior knowledge).
    pub versions: Vec<Version>,
    /// Certificates; needed with TLS.
    pub tls: Option<Tls>,
    /// The name that the certificate must be for, and that SNI tells; `host` without it.
    pub server_name: Option<String>,
    /// From the first packet to the end of the handshake.
    pub timeout: Option<Duration>,
    /// The local address to connect from.
    pub source: Option<SocketAddr>,
    /// A proxy to go through.
    pub proxy: Option<Proxy>,
    /// How long HTTP/3 is tried alone before TCP is tried too.
    pub race: Duration,
    /// Whether an event loop will drive the connection by [`Connection::drive`](crate::Connection::drive).
    /// The keeper leaves it alone then.
    pub driven: bool,
    /// A Unix socket to connect to in place of host and port.
    pub unix: Option<PathBuf>,
    /// The addresses of the host that is connected to, the proxy where there is one, in the order in
    /// which to try them; without them the system's resolver is asked.
    pub addresses: Option<Vec<IpAddr>>,
    /// HTTP/2: how many requests the server is taken to allow at a time before its SETTINGS say so, as on
    /// an earlier connection. Where nothing is known of it one is sent, and the others wait for them.
    pub streams: Option<u32>,
    /// An ECHConfigList of the server's, from its HTTPS record; over TCP alone.
    pub ech: Option<Vec<u8>>,
}

/// A proxy that tunnels.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What it speaks.
    pub protocol: ProxyProtocol,
}

/// How a proxy is asked for a tunnel.
#[derive(Clone)]
pub enum ProxyProtocol {
    /// By CONNECT (RFC 9110 §9.3.6).
    Connect {
        /// Fields of the request, such as proxy-authorization.
        fields: Vec<(Vec<u8>, Vec<u8>)>,
        /// Whether the proxy itself is spoken to over TLS, with the certificates of
        /// [`ConnectOptions::tls`].
        secure: bool,
    },
    /// By SOCKS 5 (RFC 1928).
    Socks5 {
        /// User and password (RFC 1929).
        credentials: Option<(Vec<u8>, Vec<u8>)>,
        /// Whether the proxy resolves the name; else the name is resolved here.
        resolves: bool,
    },
}

impl ConnectOptions {
    /// Whether TLS is spoken, with the server or with the proxy.
    pub(crate) fn needs_tls(&self) -> bool {
        let proxy = self.proxy.as_ref();
        self.secure || proxy.is_some_and(|proxy| proxy.protocol.is_secure())
    }
}

impl ProxyProtocol {
    /// Whether the proxy itself is spoken to over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        matches!(self, Self::Connect { secure: true, .. })
    }

    /// Whether the proxy does not resolve names.
    pub(crate) fn is_told_addresses(&self) -> bool {
        matches!(
            self,
            Self::Socks5 {
                resolves: false,
                ..
            }
        )
    }
}

impl fmt::Debug for ProxyProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what it is to be authorised by.
        f.write_str(match self {
            Self::Connect { secure: true, .. } => "CONNECT over TLS",
            Self::Connect { secure: false, .. } => "CONNECT",
            Self::Socks5 { .. } => "SOCKS 5",
        })
    }
}
