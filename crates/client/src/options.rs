//! What a caller asks of a connection.

use std::net::SocketAddr;
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
    /// A proxy to go through by CONNECT (RFC 9110 §9.3.6).
    pub proxy: Option<Proxy>,
    /// How long HTTP/3 is tried alone before TCP is tried too.
    pub race: Duration,
    /// Whether an event loop will drive the connection by [`Connection::drive`](crate::Connection::drive).
    /// The keeper leaves it alone then.
    pub driven: bool,
    /// A Unix socket to connect to in place of host and port.
    pub unix: Option<PathBuf>,
}

/// A proxy that tunnels.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Fields of the CONNECT request, such as proxy-authorization.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}
