//! One connection: its handshake by rustls' unbuffered API, and the records behind it.

use std::{fmt, mem};

use rustls_pki_types::ServerName;

use super::handshake::{Handshake, Unsent};
use super::records::{Opened, Records};
use super::{Config, Error, Info, words};

/// The most bytes of incomplete records and handshake messages that are kept. rustls grants 64 KiB
/// to a handshake message, which a peer may cut into many small records.
const MAX_HELD: usize = 256 * 1024;

/// The client's end of one TLS connection.
pub struct Session {
    layer: Layer,
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
    failed: Option<Error>,
}

/// Who reads and writes records.
enum Layer {
    /// rustls: the handshake, and all of TLS 1.2.
    Handshake(Box<Handshake>),
    /// TLS 1.3 behind its handshake.
    Established(Box<Established>),
    /// Nobody: the records could not be taken over.
    Nobody,
}

/// A connection by TLS 1.3 that has shaken hands.
struct Established {
    records: Records,
    info: Info,
    /// The server's, in DER.
    certificates: Vec<Vec<u8>>,
}

impl Session {
    /// A session with `server_name` (DNS name or IP address); `start` writes the ClientHello.
    pub fn new(config: &Config, server_name: &str) -> Result<Self, Error> {
        // An IPv6 address in a URL has brackets.
        let name = server_name.trim_start_matches('[').trim_end_matches(']');
        let Ok(parsed) = ServerName::try_from(name.to_owned()) else {
            return Err(Error(format!(
                "{server_name:?} is not a name that a certificate can have: {}",
                config.words().a_name
            )));
        };
        let handshake = Handshake::new(config, parsed)
            .map_err(|error| words::describe(&error, name, &[], config.only(), config.words()))?;
        Ok(Self {
            layer: Layer::Handshake(Box::new(handshake)),
            config: config.clone(),
            server: name.to_owned(),
            held: Vec::new(),
            restored: false,
            began: false,
            peer_closed: false,
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
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let sent = match &mut self.layer {
            Layer::Handshake(handshake) => handshake.send(plaintext, &mut self.held, out),
            Layer::Established(established) if established.records.is_closed() => {
                Err(Unsent::NotOpen)
            }
            Layer::Established(established) => established
                .records
                .seal(plaintext, out)
                .map_err(Unsent::Failed),
            Layer::Nobody => Err(Unsent::NotOpen),
        };
        sent.map_err(|unsent| match unsent {
            Unsent::KeysUsedUp => Error(format!(
                "the keys of the TLS connection with {} are used up",
                self.server
            )),
            Unsent::NotOpen => Error("the TLS connection is not open for writing".into()),
            Unsent::Failed(error) => self.describe(&error),
        })
    }

    /// Whether [`Self::send_early`] may take something: early data has been offered, and the handshake
    /// is under way.
    pub fn offers_early_data(&self) -> bool {
        let Layer::Handshake(handshake) = &self.layer else {
            return false;
        };
        handshake.offered_early_data() && handshake.is_under_way() && self.failed.is_none()
    }

    /// Whether the server has taken early data.
    pub fn took_early_data(&self) -> bool {
        self.info().and_then(|info| info.early_data) == Some(true)
    }

    /// Whether the server may be about to send the first ticket for later connections: it does when it
    /// has our Finished (RFC 8446 §4.6.1), so that what answers early data comes before.
    pub fn awaits_ticket(&self) -> bool {
        match &self.layer {
            Layer::Handshake(handshake) => handshake.tickets() == Some(0),
            Layer::Established(established) => established.records.tickets() == 0,
            Layer::Nobody => false,
        }
    }

    /// Seals the beginning of `plaintext` into a record of early data, appended to `out`, and says how
    /// many bytes that was: 0 where the ticket allows no more, or the server has rejected early data.
    /// What was taken has to be sent again where it turns out that the server has not taken it: see
    /// [`Info::early_data`].
    pub fn send_early(&mut self, plaintext: &[u8], out: &mut Vec<u8>) -> usize {
        if !self.offers_early_data() {
            return 0;
        }
        match &mut self.layer {
            Layer::Handshake(handshake) => handshake.send_early(plaintext, &mut self.held, out),
            Layer::Established(_) | Layer::Nobody => 0,
        }
    }

    /// Appends close_notify to `out`. Before the end of the handshake there is nothing to close.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.failed.is_some() || self.is_handshaking() {
            return;
        }
        match &mut self.layer {
            // Only a session that cannot write any more fails here, and then nobody waits for it.
            Layer::Handshake(handshake) => drop(handshake.close(&mut self.held, out)),
            Layer::Established(established) => established.records.close(out),
            Layer::Nobody => (),
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
        match &self.layer {
            Layer::Handshake(handshake) => handshake.is_under_way(),
            Layer::Established(_) | Layer::Nobody => false,
        }
    }

    /// Whether the peer has sent close_notify.
    pub fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// What was agreed; `None` while handshaking.
    pub fn info(&self) -> Option<Info> {
        match &self.layer {
            Layer::Handshake(handshake) => handshake.info(),
            Layer::Established(established) => Some(established.info.clone()),
            Layer::Nobody => None,
        }
    }

    /// The server's certificates in DER, its own first; empty while handshaking.
    pub fn certificates(&self) -> Vec<Vec<u8>> {
        match &self.layer {
            Layer::Handshake(handshake) => handshake.certificates(),
            Layer::Established(established) => established.certificates.clone(),
            Layer::Nobody => Vec::new(),
        }
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
        self.take_over().map_err(|error| self.describe(&error))
    }

    /// Takes complete records and messages from the front of `bytes` and says how many bytes they had.
    fn process(
        &mut self,
        bytes: &mut [u8],
        plaintext: &mut impl FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let opened = match &mut self.layer {
            Layer::Handshake(handshake) => handshake.receive(bytes, plaintext, out),
            Layer::Established(established) => established.records.open(bytes, plaintext, out),
            Layer::Nobody => Ok(Opened::default()),
        };
        let opened = opened.map_err(|error| self.describe(&error))?;
        self.peer_closed |= opened.closed;
        Ok(if self.peer_closed {
            bytes.len()
        } else {
            opened.bytes
        })
    }

    /// Takes the records over from rustls, as soon as that is possible.
    fn take_over(&mut self) -> Result<(), rustls::Error> {
        let Layer::Handshake(handshake) = &self.layer else {
            return Ok(());
        };
        if self.peer_closed || !handshake.may_be_left(&self.held) {
            return Ok(());
        }
        let (info, certificates) = (handshake.info(), handshake.certificates());
        if let Layer::Handshake(handshake) = mem::replace(&mut self.layer, Layer::Nobody) {
            self.layer = Layer::Established(Box::new(Established {
                records: handshake.leave()?,
                info: info.unwrap_or_default(),
                certificates,
            }));
        }
        Ok(())
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

    fn describe(&self, error: &rustls::Error) -> Error {
        self.config.notice(error);
        words::describe(
            error,
            &self.server,
            &self.config.rustls().alpn_protocols,
            self.config.only(),
            self.config.words(),
        )
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
