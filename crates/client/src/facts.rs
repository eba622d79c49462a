//! What is known of a connection from its making on.

use std::net::SocketAddr;
use std::time::Duration;

use crate::TlsInfo;

/// Both ends of a connection, and what making it took.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The address of the peer, a proxy's where there is one.
    pub peer: Option<SocketAddr>,
    /// Our own address.
    pub local: Option<SocketAddr>,
    /// What TLS agreed on.
    pub tls: Option<TlsInfo>,
    /// How long each step took.
    pub setup: Setup,
}

/// How long each step of making a connection took; `None` where there was no such step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The name was resolved.
    pub dns: Option<Duration>,
    /// From then until TCP was connected, or the Unix socket; with attempts that failed.
    pub connect: Option<Duration>,
    /// From then until the proxy had made a tunnel, with TLS to the proxy where it wants that.
    pub tunnel: Option<Duration>,
    /// The handshake of TLS.
    pub tls: Option<Duration>,
    /// The handshake of QUIC, in which that of TLS is.
    pub quic: Option<Duration>,
}
