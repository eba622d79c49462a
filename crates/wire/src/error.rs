//! What can go wrong, told apart by who has to act on it.

use std::fmt;

/// The class of a failure. The load engine counts by it; the client maps it to exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The connection ended before the response began.
    Closed,
    /// The peer reset the stream (`RST_STREAM`, `RESET_STREAM`).
    Reset,
    /// The peer is going away and did not process the request.
    Goaway,
    /// The peer broke the protocol.
    Protocol,
    /// The body is not what the head announced, or ended early.
    Body,
    /// The peer asked for more memory or work than our limits grant.
    Limit,
}

/// What is known of whether the peer processed a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unprocessed {
    /// The peer said that it did not, or the request was never sent: any request may be sent again
    /// (RFC 9113 §8.7, RFC 9114 §4.1.1).
    Proved,
    /// It closed a connection that it had served before, before a byte of the response came: it may
    /// have been idle for too long (RFC 9112 §9.3.1). That is no proof, so a client may send
    /// idempotent requests again (RFC 9110 §9.2.2), and a load generator counts a failure.
    Likely,
    /// Nothing.
    Unknown,
}

/// How the transport ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The peer ended its direction: FIN, over TLS behind close_notify.
    Clean,
    /// FIN over TLS without close_notify: whoever cuts the wire must not pass for the end of the
    /// content (RFC 9112 §9.8, RFC 8446 §6.1).
    Truncated,
    /// The connection was reset, or failed in another way.
    Reset,
}

/// A failure that ends one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// The class of the failure.
    pub kind: ErrorKind,
    /// What is known of whether the peer processed the request.
    pub unprocessed: Unprocessed,
    /// The error code on the wire, HTTP/2 or HTTP/3, where there was one.
    pub code: Option<u64>,
    /// What happened, in words.
    pub reason: &'static str,
}

/// A failure that ends the connection. Every outstanding request has been reported through
/// [`crate::Events::fail`] before it is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// The class of the failure.
    pub kind: ErrorKind,
    /// The error code that we send: RFC 9113 §7 for HTTP/2, RFC 9114 §8.1 for HTTP/3, 0 for HTTP/1.1.
    pub code: u64,
    /// What happened, in words.
    pub reason: &'static str,
}

/// Why a request could not be sent on this connection. The request has left no trace on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Every stream that the peer grants is in use: send again when one has ended.
    Full,
    /// The connection takes no more requests (closing, `GOAWAY`, failed): use another one.
    Draining,
    /// Stream ids have run out: use another connection.
    Exhausted,
    /// The field section is larger than the peer accepts: it can never be sent on this connection,
    /// unless the peer changes its mind.
    TooLarge {
        /// [`crate::Request::section_size`].
        size: u64,
        /// What the peer accepts.
        limit: u64,
    },
    /// The peer takes no extended CONNECT, of [`crate::Request::extended_connect`] or
    /// [`crate::Content::Switched`] (RFC 8441 §3), and need not change its mind.
    NoConnectProtocol,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, self.reason, self.code)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, self.reason, Some(self.code).filter(|&code| code != 0))
    }
}

fn display(f: &mut fmt::Formatter<'_>, reason: &str, code: Option<u64>) -> fmt::Result {
    match code {
        Some(code) => write!(f, "{reason} (error code 0x{code:x})"),
        None => f.write_str(reason),
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full => f.write_str("every stream the peer grants is in use"),
            Refused::Draining => f.write_str("the connection takes no more requests"),
            Refused::Exhausted => f.write_str("the connection has no stream ids left"),
            Refused::TooLarge { size, limit } => write!(
                f,
                "the field section of {size} bytes is larger than the {limit} bytes that the peer accepts"
            ),
            Refused::NoConnectProtocol => f.write_str(
                "the peer has not enabled extended CONNECT by SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441, RFC 9220)",
            ),
        }
    }
}

impl std::error::Error for StreamError {}
impl std::error::Error for ConnectionError {}
impl std::error::Error for Refused {}
