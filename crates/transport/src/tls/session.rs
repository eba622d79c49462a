//! One connection's records, by rustls' unbuffered API.

use std::{fmt, mem};

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{HandshakeKind, ProtocolVersion};
use rustls_pki_types::ServerName;

use super::{Config, Error, Info, words};

/// The most plaintext in one record (RFC 8446 §5.1), in bytes.
pub const RECORD_PLAINTEXT: usize = 16 * 1024;

/// What a record adds to its plaintext, rounded up: header 5, explicit nonce or content type 8, tag
/// 16 bytes.
const RECORD_OVERHEAD: usize = 32;

/// The most bytes of incomplete records and handshake messages that are kept. rustls grants 64 KiB
/// to a handshake message, which a peer may cut into many small records.
const MAX_HELD: usize = 256 * 1024;

/// A record of TLS 1.3 without its content (RFC 8446 §5.2): header 5, content type 1, tag 16 bytes.
const EMPTY_RECORD: usize = 22;

/// The client's end of one TLS connection.
pub struct Session {
    rustls: UnbufferedClientConnection,
    config: Config,
    /// The server's name, for messages.
    server: String,
    /// What has arrived and is not complete: part of a record, or records with part of a handshake
    /// message. rustls remembers where it is in them and has to be shown them at every call.
    held: Vec<u8>,
    /// Whether the next `receive` begins with a copy of `held`.
    restored: bool,
    /// Whether anything has arrived.
    began: bool,
    peer_closed: bool,
    /// Whether the server has taken early data, where it was offered; `Some(false)` before it is known.
    early_data: Option<bool>,
    failed: Option<Error>,
}

impl Session {
    /// A session with `server_name` (DNS name or IP address); `start` writes the ClientHello.
    pub fn new(config: &Config, server_name: &str) -> Result<Self, Error> {
        // An IPv6 address in a URL has brackets.
        let name = server_name.trim_start_matches('[').trim_end_matches(']');
        let Ok(parsed) = ServerName::try_from(name.to_owned()) else {
            return Err(Error(format!(
                "{server_name:?} is not a name that a certificate can have: give one with --sni NAME"
            )));
        };
        let rustls = UnbufferedClientConnection::new(config.rustls().clone(), parsed)
            .map_err(|error| words::describe(&error, name, &[]))?;
        Ok(Self {
            rustls,
            config: config.clone(),
            server: name.to_owned(),
            held: Vec::new(),
            restored: false,
            began: false,
            peer_closed: false,
            early_data: None,
            failed: None,
        })
    }

    /// Writes the ClientHello to `out`.
    pub fn start(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.receive(&mut [], |_| {}, out)
    }

    /// Puts the record cut by the last `receive` right before `at` in `buffer`, behind which bytes were
    /// read or will be, and says where it begins: give all from there to `receive`. So one buffer serves
    /// many connections, and may be filled before it is known for which.
    pub fn restore(&mut self, buffer: &mut [u8], at: usize) -> usize {
        // Where there is no room, as for handshakes with long messages, `receive` puts the pieces
        // together.
        self.restored = !self.held.is_empty() && self.held.len() <= at;
        if !self.restored {
            return at;
        }
        let begin = at - self.held.len();
        buffer[begin..at].copy_from_slice(&self.held);
        begin
    }

    /// Decrypts in place, hands each plaintext to `plaintext`, writes handshake answers to `out`.
    /// On an error the alert to send is in `out`.
    pub fn receive(
        &mut self,
        bytes: &mut [u8],
        mut plaintext: impl FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        // What follows a closure alert is ignored: RFC 8446 §6.1.
        if self.peer_closed {
            return Ok(());
        }
        let was_handshaking = self.is_handshaking();
        let result = self.receive_records(bytes, &mut plaintext, out);
        if let Err(error) = &result {
            self.failed = Some(error.clone());
            self.held = Vec::new();
        } else if was_handshaking && !self.is_handshaking() {
            // Application data needs much less of it than the server's certificates.
            self.held.shrink_to_fit();
        }
        result
    }

    /// Seals `plaintext` into records of up to 16 KiB, appended to `out`. Only after the handshake.
    pub fn send(&mut self, plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let records = plaintext.len().div_ceil(RECORD_PLAINTEXT);
        let room = plaintext.len() + records * RECORD_OVERHEAD;
        self.write(room, out, |traffic, room| traffic.encrypt(plaintext, room))
    }

    /// Whether [`Self::send_early`] may take something: early data has been offered, and the handshake
    /// is under way.
    pub fn offers_early_data(&self) -> bool {
        self.early_data.is_some() && self.is_handshaking() && self.failed.is_none()
    }

    /// Whether the server has taken early data.
    pub fn took_early_data(&self) -> bool {
        self.early_data == Some(true)
    }

    /// Whether the server may be about to send the first ticket for later connections: it does when it
    /// has our Finished (RFC 8446 §4.6.1), so that what answers early data comes before.
    pub fn awaits_ticket(&self) -> bool {
        self.rustls.protocol_version() == Some(ProtocolVersion::TLSv1_3)
            && self.rustls.tls13_tickets_received() == 0
    }

    /// Seals the beginning of `plaintext` into a record of early data, appended to `out`, and says how
    /// many bytes that was: 0 where the ticket allows no more, or the server has rejected early data.
    /// What was taken has to be sent again where it turns out that the server has not taken it: see
    /// [`Info::early_data`].
    pub fn send_early(&mut self, plaintext: &[u8], out: &mut Vec<u8>) -> usize {
        if !self.offers_early_data() {
            return 0;
        }
        let plaintext = &plaintext[..plaintext.len().min(RECORD_PLAINTEXT)];
        // rustls has seen `held` before and found nothing complete in it: nothing to discard.
        let Ok(ConnectionState::TransmitTlsData(mut transmit)) =
            self.rustls.process_tls_records(&mut self.held).state
        else {
            return 0;
        };
        let Some(mut early) = transmit.may_encrypt_early_data() else {
            return 0;
        };
        let start = out.len();
        out.resize(start + plaintext.len() + EMPTY_RECORD, 0);
        let written = early.encrypt(plaintext, &mut out[start..]).unwrap_or(0);
        out.truncate(start + written);
        // rustls tells how long the record is, not how much of the plaintext it has room for.
        written.saturating_sub(EMPTY_RECORD)
    }

    /// Appends close_notify to `out`. Before the end of the handshake there is nothing to close.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.failed.is_none() && !self.is_handshaking() {
            // Only a session that cannot write any more fails here, and then nobody waits for it.
            let _ = self.write(RECORD_OVERHEAD, out, |traffic, room| {
                traffic.queue_close_notify(room)
            });
        }
    }

    /// What it means that the transport ended here: an error if it was inside the handshake.
    pub fn eof(&self) -> Result<(), Error> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.is_handshaking() => Err(Error(format!(
                "{} closed the connection during the TLS handshake",
                self.server
            ))),
            None => Ok(()),
        }
    }

    /// Whether application data cannot be sent yet.
    pub fn is_handshaking(&self) -> bool {
        self.rustls.is_handshaking()
    }

    /// Whether the peer has sent close_notify.
    pub fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// What was agreed; `None` while handshaking.
    pub fn info(&self) -> Option<Info> {
        if self.is_handshaking() {
            return None;
        }
        let suite = self.rustls.negotiated_cipher_suite()?.suite();
        let group = self.rustls.negotiated_key_exchange_group();
        Some(Info {
            version: match self.rustls.protocol_version()? {
                ProtocolVersion::TLSv1_2 => "TLSv1.2".into(),
                ProtocolVersion::TLSv1_3 => "TLSv1.3".into(),
                other => format!("{other:?}"),
            },
            cipher: format!("{suite:?}"),
            group: group.map_or_else(String::new, |group| format!("{:?}", group.name())),
            resumed: self.rustls.handshake_kind() == Some(HandshakeKind::Resumed),
            alpn: self.rustls.alpn_protocol().unwrap_or_default().to_vec(),
            early_data: self.early_data,
        })
    }

    /// The server's certificates in DER, its own first; empty while handshaking.
    pub fn certificates(&self) -> Vec<Vec<u8>> {
        let certificates = self.rustls.peer_certificates().unwrap_or_default();
        certificates.iter().map(|der| der.to_vec()).collect()
    }

    /// Puts `bytes` behind what is held, unless they begin with it, and keeps what stays incomplete.
    fn receive_records(
        &mut self,
        bytes: &mut [u8],
        plaintext: &mut impl FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if let (false, Some(&first)) = (self.began, bytes.first()) {
            self.began = true;
            self.check_first(first)?;
        }
        if mem::take(&mut self.restored) {
            self.held.clear();
        }
        if self.held.is_empty() {
            let done = self.process(bytes, plaintext, out)?;
            self.held.extend_from_slice(&bytes[done..]);
        } else {
            let mut held = mem::take(&mut self.held);
            held.extend_from_slice(bytes);
            let done = self.process(&mut held, plaintext, out)?;
            held.drain(..done);
            self.held = held;
        }
        if self.held.len() > MAX_HELD {
            return Err(Error(format!(
                "{} sent a handshake larger than 256 KiB",
                self.server
            )));
        }
        Ok(())
    }

    /// Takes complete records and messages from the front of `bytes` and says how many bytes they had.
    fn process(
        &mut self,
        bytes: &mut [u8],
        plaintext: &mut impl FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.rustls.process_tls_records(&mut bytes[done..]);
            done += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        done += record.discard;
                        if !record.payload.is_empty() {
                            plaintext(record.payload);
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let start = out.len();
                    encode(&mut data, out);
                    if let Some(taken) = &mut self.early_data {
                        *taken |= ends_early_data(&out[start..]);
                    }
                }
                Ok(ConnectionState::TransmitTlsData(mut data)) => {
                    if data.may_encrypt_early_data().is_some() {
                        // Only in this state rustls takes early data: it is left at the end of that.
                        self.early_data.get_or_insert(false);
                        return Ok(done);
                    }
                    data.done();
                }
                Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                Ok(_) if self.peer_closed => return Ok(bytes.len()),
                Ok(_) => return Ok(done),
                Err(error) => {
                    self.flush_alert(out);
                    return Err(self.describe(&error));
                }
            }
        }
    }

    /// Calls `write` with `room` bytes behind the end of `out`, or with as many as it needs. It says
    /// how many it has written.
    fn write(
        &mut self,
        mut room: usize,
        out: &mut Vec<u8>,
        mut write: impl FnMut(
            &mut WriteTraffic<'_, ClientConnectionData>,
            &mut [u8],
        ) -> Result<usize, EncryptError>,
    ) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        loop {
            // rustls has seen `held` before and found nothing complete in it: nothing to discard.
            match self.rustls.process_tls_records(&mut self.held).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let start = out.len();
                    out.resize(start + room, 0);
                    match write(&mut traffic, &mut out[start..]) {
                        Ok(written) => {
                            out.truncate(start + written);
                            return Ok(());
                        }
                        Err(EncryptError::InsufficientSize(size)) => {
                            out.truncate(start);
                            room = size.required_size;
                        }
                        Err(EncryptError::EncryptExhausted) => {
                            out.truncate(start);
                            return Err(Error(format!(
                                "the keys of the TLS connection with {} are used up",
                                self.server
                            )));
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, out),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                Ok(_) => return Err(Error("the TLS connection is not open for writing".into())),
                Err(error) => return Err(self.describe(&error)),
            }
        }
    }

    /// The first byte of a server that speaks TLS begins a handshake record or an alert.
    fn check_first(&self, first: u8) -> Result<(), Error> {
        let server = &self.server;
        match first {
            0x15 | 0x16 => Ok(()),
            b'H' => Err(Error(format!(
                "the server {server} does not speak TLS on this port: it answers with plain HTTP"
            ))),
            _ => Err(Error(format!(
                "the server {server} does not speak TLS on this port"
            ))),
        }
    }

    /// Moves the alert that rustls left behind an error to `out`. Shows it no input, so that it does
    /// not read on.
    fn flush_alert(&mut self, out: &mut Vec<u8>) {
        while self.rustls.wants_write() {
            let Ok(ConnectionState::EncodeTlsData(mut data)) =
                self.rustls.process_tls_records(&mut []).state
            else {
                return;
            };
            encode(&mut data, out);
        }
    }

    fn describe(&self, error: &rustls::Error) -> Error {
        words::describe(error, &self.server, &self.config.rustls().alpn_protocols)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Whether there is an EndOfEarlyData message among these records, which a client sends where the
/// server has taken early data (RFC 8446 §4.5). rustls' unbuffered API does not tell, and the message
/// is sealed; but no other record of a client's handshake is as short: its message is a header of four
/// bytes alone, and it has a record of its own, as the keys change behind it.
fn ends_early_data(mut records: &[u8]) -> bool {
    const APPLICATION_DATA: u8 = 23;
    const MESSAGE_HEADER: usize = 4;
    while let [kind, _, _, high, low, rest @ ..] = records {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind == APPLICATION_DATA && 5 + length == EMPTY_RECORD + MESSAGE_HEADER {
            return true;
        }
        records = rest.get(length..).unwrap_or_default();
    }
    false
}

/// Appends a handshake record to `out`.
fn encode(data: &mut EncodeTlsData<'_, ClientConnectionData>, out: &mut Vec<u8>) {
    let start = out.len();
    while let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut out[start..]) {
        out.resize(start + size.required_size, 0);
    }
}
