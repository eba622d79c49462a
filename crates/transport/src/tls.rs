//! TLS 1.2 and 1.3 (RFC 8446) by rustls, bytes in and bytes out.

use std::fmt;

/// What the caller asks of TLS, for TCP and QUIC alike.
#[derive(Clone, Debug)]
pub struct Options {
    /// PEM files of certificate authorities trusted beside the platform's: (file name for messages, contents).
    pub authorities: Vec<(String, Vec<u8>)>,
    /// Accept any certificate.
    pub insecure: bool,
    /// PEM certificate chain and key of the client: (file name, contents) each.
    pub client: Option<((String, Vec<u8>), (String, Vec<u8>))>,
    /// Exactly what is offered by ALPN, in order of preference.
    pub alpn: Vec<Vec<u8>>,
    /// Whether sessions are resumed.
    pub resumption: bool,
}

/// A configuration shared by every connection of a worker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Config(());

/// What the handshake agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// `TLSv1.3`.
    pub version: String,
    /// `TLS13_AES_128_GCM_SHA256`.
    pub cipher: String,
    /// `X25519MLKEM768`.
    pub group: String,
    /// Whether the session was resumed.
    pub resumed: bool,
    /// The ALPN identifier, empty where none was agreed.
    pub alpn: Vec<u8>,
}

/// Why TLS failed, in words a user can act on: what was wrong with which certificate, and the way out
/// (`--cacert`, `--insecure`, `--sni`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
}
impl std::error::Error for Error {}

impl Config {
    /// Loads roots, client certificate and key.
    pub fn new(_options: &Options) -> Result<Self, Error> { unimplemented!() }
}

/// The client's end of one TLS connection.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// A session with `server_name` (DNS name or IP address); `start` writes the ClientHello.
    pub fn new(_config: &Config, _server_name: &str) -> Result<Self, Error> { unimplemented!() }
    /// Writes the ClientHello to `out`.
    pub fn start(&mut self, _out: &mut Vec<u8>) -> Result<(), Error> { unimplemented!() }
    /// Copies the record cut by the last `receive` to the front of `buffer` and says how many bytes it has:
    /// read from the socket behind it, then give the whole to `receive`. So one buffer serves many connections.
    pub fn restore(&mut self, _buffer: &mut [u8]) -> usize { unimplemented!() }
    /// Decrypts in place, hands each plaintext to `plaintext`, writes handshake answers to `out`.
    /// On an error the alert to send is in `out`.
    pub fn receive(&mut self, _bytes: &mut [u8], _plaintext: impl FnMut(&[u8]), _out: &mut Vec<u8>) -> Result<(), Error> { unimplemented!() }
    /// Seals `plaintext` into records of up to 16 KiB, appended to `out`. Only after the handshake.
    pub fn send(&mut self, _plaintext: &[u8], _out: &mut Vec<u8>) -> Result<(), Error> { unimplemented!() }
    /// Whether application data cannot be sent yet.
    pub fn is_handshaking(&self) -> bool { unimplemented!() }
    /// Whether the peer has sent close_notify.
    pub fn peer_closed(&self) -> bool { unimplemented!() }
    /// Appends close_notify to `out`.
    pub fn close(&mut self, _out: &mut Vec<u8>) { unimplemented!() }
    /// What was agreed; `None` while handshaking.
    pub fn info(&self) -> Option<Info> { unimplemented!() }
}
