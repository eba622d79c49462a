//! Why a QUIC connection ended, told apart by who has to act on it.

use std::fmt;

use quinn_proto::{ConnectError, ConnectionError, TransportErrorCode};

/// The class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller's options or address cannot be used.
    Options,
    /// No answer, or no end of the handshake, within the handshake timeout.
    HandshakeTimeout,
    /// Nobody listens on the port, or the server turned the connection away.
    Refused,
    /// The TLS handshake failed on either side.
    Tls,
    /// The server speaks no version of QUIC that we do.
    Version,
    /// Silence for longer than the idle timeout.
    IdleTimeout,
    /// The server closed the connection.
    Closed,
    /// A stateless reset: the server has lost its state (RFC 9000 §10.3).
    Reset,
    /// Either side broke the protocol of QUIC or HTTP/3.
    Protocol,
    /// The peer asked for more memory or work than our limits grant.
    Limit,
}

/// Why a QUIC connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The class of the failure.
    pub kind: ErrorKind,
    /// The error code on the wire where there was one: RFC 9000 §20.1 or, from an application,
    /// RFC 9114 §8.1.
    pub code: Option<u64>,
    /// What happened, in words.
    pub reason: String,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            reason: reason.into(),
        }
    }

    fn coded(kind: ErrorKind, code: u64, reason: impl Into<String>) -> Self {
        Self {
            kind,
            code: Some(code),
            reason: reason.into(),
        }
    }

    /// `tls` has words for a failure of TLS: what our side said, or the alert that it is given.
    pub(super) fn lost(error: ConnectionError, tls: impl FnOnce(rustls::Error) -> String) -> Self {
        match error {
            ConnectionError::VersionMismatch => Self::new(
                ErrorKind::Version,
                "the server does not speak version 1 of QUIC",
            ),
            ConnectionError::TransportError(error) => {
                let code = u64::from(error.code);
                match alert(code) {
                    Some(alert) => Self::coded(
                        ErrorKind::Tls,
                        code,
                        tls(rustls::Error::AlertReceived(alert)),
                    ),
                    None => Self::coded(
                        ErrorKind::Protocol,
                        code,
                        format!("the server broke the QUIC protocol: {error}"),
                    ),
                }
            }
            ConnectionError::ConnectionClosed(close) => {
                let code = u64::from(close.error_code);
                if let Some(alert) = alert(code) {
                    let reason = tls(rustls::Error::AlertReceived(alert));
                    return Self::coded(ErrorKind::Tls, code, reason);
                }
                let said = words(&close.reason);
                if close.error_code == TransportErrorCode::CONNECTION_REFUSED {
                    let reason = format!("the server refused the connection{said}");
                    return Self::coded(ErrorKind::Refused, code, reason);
                }
                let reason = format!(
                    "the server closed the connection: {}{said}",
                    close.error_code
                );
                Self::coded(ErrorKind::Closed, code, reason)
            }
            ConnectionError::ApplicationClosed(close) => {
                let said = words(&close.reason);
                let reason = format!("the server closed the connection{said}");
                Self::coded(ErrorKind::Closed, close.error_code.into_inner(), reason)
            }
            ConnectionError::Reset => Self::new(
                ErrorKind::Reset,
                "the server has lost the connection (stateless reset): was it restarted?",
            ),
            ConnectionError::TimedOut => Self::new(
                ErrorKind::IdleTimeout,
                "nothing arrived within the idle timeout",
            ),
            ConnectionError::LocallyClosed => Self::new(ErrorKind::Closed, "closed by us"),
            ConnectionError::CidsExhausted => {
                Self::new(ErrorKind::Protocol, "no connection id is left")
            }
        }
    }

    pub(super) fn handshake_timeout() -> Self {
        Self::new(
            ErrorKind::HandshakeTimeout,
            "no QUIC handshake within the timeout: does the server speak HTTP/3, and does UDP \
             reach it?",
        )
    }

    pub(super) fn unreachable() -> Self {
        Self::new(
            ErrorKind::Refused,
            "the server does not speak HTTP/3: its UDP port is closed (ICMP port unreachable)",
        )
    }

    pub(super) fn connect(error: ConnectError) -> Self {
        Self::new(ErrorKind::Options, error.to_string())
    }
}

/// The TLS alert of a code of the range CRYPTO_ERROR (RFC 9001 §4.8).
fn alert(code: u64) -> Option<rustls::AlertDescription> {
    let alert = code.checked_sub(0x100)?;
    u8::try_from(alert).ok().map(rustls::AlertDescription::from)
}

/// The peer's reason phrase, cleaned for a terminal.
fn words(reason: &[u8]) -> String {
    if reason.is_empty() {
        return String::new();
    }
    let text: String = String::from_utf8_lossy(reason)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(200)
        .collect();
    format!(" ({text})")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        match self.code {
            // Its words say it all.
            _ if self.kind == ErrorKind::Tls => Ok(()),
            Some(code) => write!(f, " (error code 0x{code:x})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
