//! TLS 1.2 and 1.3 (RFC 8446) by rustls, bytes in and bytes out.

mod config;
mod ech;
mod handshake;
mod keys;
mod pins;
mod records;
mod session;
mod tickets;
mod trusted;
mod words;

use std::fmt;

use trilane_wire::End;

pub use config::{Config, check_offer};
pub use pins::Pin;
pub use records::RECORD_PLAINTEXT;
pub use session::Session;
pub use words::Words;
pub(crate) use words::describe;

/// A file that has been read: its name, for messages, and its contents.
pub type File = (String, Vec<u8>);

/// What the caller asks of TLS, for TCP and QUIC alike.
#[derive(Clone, Debug)]
pub struct Options {
    /// PEM files of certificate authorities trusted beside the platform's.
    pub authorities: Vec<File>,
    /// Whether the platform's authorities are trusted.
    pub platform: bool,
    /// Accept any certificate.
    pub insecure: bool,
    /// PEM certificate chain and key of the client.
    pub client: Option<(File, File)>,
    /// The password of that key, where it is encrypted.
    pub password: Option<Vec<u8>>,
    /// Keys that servers must have, whatever else their certificates say.
    pub pins: Vec<Pin>,
    /// Exactly what is offered by ALPN, in order of preference.
    pub alpn: Vec<Vec<u8>>,
    /// Whether sessions are resumed.
    pub resumption: bool,
    /// Whether early data is offered where a ticket allows it (RFC 8446 §4.2.10). Whoever sends it has
    /// to bear that it may be replayed (RFC 8446 §8).
    pub early_data: bool,
    /// The only version that is offered; without it TLS 1.3 and 1.2.
    pub version: Option<TlsVersion>,
    /// Names of the cipher suites that are offered, in order of preference, as RFC 8446 §B.4 and the
    /// registry of IANA write them; empty: all that are safe.
    pub ciphers: Vec<String>,
    /// What messages call the ways out.
    pub words: Words,
}

impl Default for Options {
    /// Verifies by the platform's authorities, offers TLS 1.3 and 1.2 and no protocol, resumes, and speaks of
    /// the flags of `trilane load`.
    fn default() -> Self {
        Self {
            authorities: Vec::new(),
            platform: true,
            insecure: false,
            client: None,
            password: None,
            pins: Vec::new(),
            alpn: Vec::new(),
            resumption: true,
            early_data: false,
            version: None,
            ciphers: Vec::new(),
            words: Words::LOAD,
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    V1_2,
    /// RFC 8446.
    V1_3,
}

/// What the handshake agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// `TLSv1.3`.
    pub version: String,
    /// `TLS13_AES_128_GCM_SHA256`.
    pub cipher: String,
    /// `X25519MLKEM768`. Empty where there was no key exchange, as in a resumption of TLS 1.2.
    pub group: String,
    /// Whether the session was resumed.
    pub resumed: bool,
    /// The ALPN identifier, empty where none was agreed.
    pub alpn: Vec<u8>,
    /// Whether the server took early data, where it was offered.
    pub early_data: Option<bool>,
    /// Whether the server took Encrypted Client Hello.
    pub ech: bool,
}

/// How a byte stream has ended, with TLS on it or without: `failed` where the transport said so.
pub fn end_of_stream(session: Option<&Session>, failed: bool) -> End {
    match session {
        // What comes behind close_notify takes nothing back.
        Some(session) if session.peer_closed() => End::Clean,
        _ if failed => End::Reset,
        Some(_) => End::Truncated,
        None => End::Clean,
    }
}

/// Why TLS failed, in words a user can act on: what was wrong with which certificate, and the way
/// out, in the [`Words`] of whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
