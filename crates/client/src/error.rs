//! What can go wrong with a connection or a request.

use std::fmt;

use trilane_wire::Unprocessed;

/// The class of a failure: what a caller can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The host has no address.
    Resolve,
    /// Nobody listens at the port.
    Refused,
    /// The connection could not be made for another reason.
    Connect,
    /// The TLS handshake failed, or a certificate is not accepted.
    Tls,
    /// The connection was not ready in time.
    ConnectTimeout,
    /// The peer did not answer in time.
    ReadTimeout,
    /// The peer did not take the request's content in time.
    WriteTimeout,
    /// The connection ended before the response began.
    Closed,
    /// The peer reset the stream or the connection.
    Reset,
    /// The peer is going away and did not process the request.
    Goaway,
    /// The peer broke the protocol.
    Protocol,
    /// The content is not what the head announced, or ended early.
    Body,
    /// The peer asked for more memory or work than our limits grant.
    Limit,
    /// Every request that the peer grants is in use.
    Full,
    /// The caller asked for something that cannot be sent.
    Local,
    /// The content coding is broken or expands too much.
    Decoding,
    /// The server does not speak a version that was asked for.
    Version,
    /// The proxy refused the tunnel.
    Proxy,
    /// The wait was ended by [`crate::Patience`].
    Interrupted,
}

impl Kind {
    /// The name by which Python maps the kind to an exception.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Resolve => "resolve",
            Kind::Refused => "refused",
            Kind::Connect => "connect",
            Kind::Tls => "tls",
            Kind::ConnectTimeout => "connect_timeout",
            Kind::ReadTimeout => "read_timeout",
            Kind::WriteTimeout => "write_timeout",
            Kind::Closed => "closed",
            Kind::Reset => "reset",
            Kind::Goaway => "goaway",
            Kind::Protocol => "protocol",
            Kind::Body => "body",
            Kind::Limit => "limit",
            Kind::Full => "full",
            Kind::Local => "local",
            Kind::Decoding => "decoding",
            Kind::Version => "version",
            Kind::Proxy => "proxy",
            Kind::Interrupted => "interrupted",
        }
    }
}

/// A failure, in words a user can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The class of the failure.
    pub kind: Kind,
    /// What happened.
    pub message: String,
    /// The stream on the wire, where one request failed.
    pub stream_id: Option<u64>,
    /// The error code on the wire, HTTP/2 or HTTP/3, where there was one.
    pub code: Option<u64>,
    /// What is known of whether the peer processed the request.
    pub unprocessed: Unprocessed,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            stream_id: None,
            code: None,
            unprocessed: Unprocessed::Unknown,
        }
    }

    /// The same, for a request that was never sent.
    pub(crate) fn unsent(mut self) -> Self {
        self.unprocessed = Unprocessed::Proved;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
