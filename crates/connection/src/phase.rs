//! How a connection over a byte stream is made, how far it has come, and how it ends.

use std::time::Duration;

use trilane_transport::tls;
use trilane_wire::{ConnectionError, End, h2};

use crate::{Tunnel, Version};

/// How a connection over a byte stream is made; shared by all connections of one origin.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// The proxy's tunnel to ask for first.
    pub tunnel: Option<Tunnel>,
    /// TLS with that proxy, where it is spoken: the tunnel goes through it.
    pub proxy_tls: Option<TlsConfig>,
    /// TLS, where it is spoken.
    pub tls: Option<TlsConfig>,
    /// The versions that the peer may speak, of [`Version::H1`] and [`Version::H2`]: TLS agrees on
    /// one of them; without TLS it is the first.
    pub versions: Vec<Version>,
    /// What HTTP/2 announces and grants.
    pub h2: h2::Config,
    /// How long each phase before [`Phase::Open`] may last; `None` leaves that to the caller.
    pub phase_timeout: Option<Duration>,
}

/// TLS on a byte stream.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Certificates, and what is offered by ALPN.
    pub config: tls::Config,
    /// The name that the certificate must be for.
    pub server_name: String,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The byte stream is not there yet.
    Connecting,
    /// The proxy has been asked for a tunnel, in TLS where the proxy wants it.
    Tunnelling,
    /// TLS shakes hands. Requests may go in early data: see [`crate::Stream::is_early`].
    Handshaking,
    /// HTTP is spoken.
    Open,
}

/// What a call has done to the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The connection is open since before, or not yet.
    Same,
    /// HTTP begins with this call.
    Opened,
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// The byte stream has ended while HTTP was spoken; what was outstanding has been told.
    Ended(End),
    /// The byte stream ended before HTTP was spoken, in this phase.
    Early(Phase),
    /// TLS failed, in the handshake or after it. What was outstanding has not been told: see
    /// [`crate::Stream::abandon`].
    Tls(tls::Error),
    /// TLS agreed on a version that is not wanted.
    Version(Version),
    /// The proxy made no tunnel: its status where it answered, and what it said.
    Tunnel(Option<u16>, String),
    /// The peer broke the protocol of HTTP; what was outstanding has been told.
    Protocol(ConnectionError),
}

impl Phase {
    /// What a connection in this phase waits for, in words.
    pub fn waits_for(self) -> &'static str {
        match self {
            Phase::Connecting => "the TCP connection",
            Phase::Tunnelling => "the proxy's tunnel",
            Phase::Handshaking => "the TLS handshake",
            Phase::Open => "a response",
        }
    }
}
