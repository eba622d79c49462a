//! Records of TLS 1.3 after the handshake, opened where they lie and sealed where they leave from
//! (RFC 8446 §5).
//!
//! rustls opens a record in place, but copies its content into a vector of its own, and makes a vector
//! for each record that it seals. A load engine does little else with a body, so that rustls shakes
//! hands, and keeps the secrets and the tickets; the records are read and written here, with rustls'
//! own ciphers.

use std::mem;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce as AeadNonce, UnboundKey,
};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::cipher::{InboundOpaqueMessage, Iv, MessageDecrypter, Nonce, make_tls13_aad};
use rustls::kernel::KernelConnection;
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, HandshakeType, InvalidMessage,
    PeerMisbehaved, ProtocolVersion, SupportedCipherSuite, Tls13CipherSuite,
};

/// The most plaintext in one record (RFC 8446 §5.1), in bytes.
pub const RECORD_PLAINTEXT: usize = 16 * 1024;

/// Content type, version and length, in bytes.
const HEADER: usize = 5;
/// What AEAD adds to a record, in bytes: of all cipher suites of TLS 1.3 the same.
const TAG: usize = 16;
/// The most bytes of a sealed record behind its header (RFC 8446 §5.2).
const MOST_SEALED: usize = RECORD_PLAINTEXT + 256;
/// The most bytes of a handshake message, as rustls has it.
const MOST_MESSAGE: usize = 64 * 1024;
/// Key updates without content between them: each asks for an answer. As many as rustls takes.
const MOST_UPDATES: u32 = 32;

/// The records of one connection.
pub(super) struct Records {
    kernel: KernelConnection<ClientConnectionData>,
    suite: &'static Tls13CipherSuite,
    opening: Opening,
    sealing: Sealing,
    /// Records that one key may seal.
    limit: u64,
    /// The beginning of a handshake message.
    message: Vec<u8>,
    tickets: u32,
    updates: u32,
    /// Whether our close_notify, or another alert that ends the connection, has been sealed: nothing
    /// follows it.
    closed: bool,
}

/// What was found in bytes of the peer's.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Opened {
    /// Bytes of complete records.
    pub(super) bytes: usize,
    /// Whether there was a close_notify.
    pub(super) closed: bool,
}

struct Opening {
    decrypter: Box<dyn MessageDecrypter>,
    sequence: u64,
}

struct Sealing {
    key: LessSafeKey,
    iv: Iv,
    sequence: u64,
}

/// What the peer did wrong, and what it is told, where it still listens.
struct Fault(Error, Option<AlertDescription>);

impl Records {
    /// Takes the records of a connection that has shaken hands by TLS 1.3 over, between two of them.
    pub(super) fn new(connection: UnbufferedClientConnection) -> Result<Self, Error> {
        let suite = match connection.negotiated_cipher_suite() {
            Some(SupportedCipherSuite::Tls13(suite)) => suite,
            _ => return Err(Error::HandshakeNotComplete),
        };
        let tickets = connection.tls13_tickets_received();
        let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
        Ok(Self {
            kernel,
            suite,
            opening: Opening::new(suite, secrets.rx)?,
            sealing: Sealing::new(secrets.tx)?,
            limit: suite.common.confidentiality_limit,
            message: Vec::new(),
            tickets,
            updates: 0,
            closed: false,
        })
    }

    /// Whether nothing can be sealed any more, as our direction has been closed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Tickets that have come, in all.
    pub(super) fn tickets(&self) -> u32 {
        self.tickets
    }

    /// Opens complete records in place, hands each content to `plaintext`, and writes what they ask for
    /// to `out`. Where the peer does wrong, the alert is in `out`.
    pub(super) fn open(
        &mut self,
        bytes: &mut [u8],
        plaintext: &mut impl FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<Opened, Error> {
        let mut opened = Opened {
            bytes: 0,
            closed: false,
        };
        while !opened.closed
            && let Some(taken) = self.open_one(
                &mut bytes[opened.bytes..],
                &mut opened.closed,
                plaintext,
                out,
            )?
        {
            opened.bytes += taken;
        }
        Ok(opened)
    }

    /// Opens the first record, and says how many bytes it had; `None` where it is not complete.
    fn open_one(
        &mut self,
        bytes: &mut [u8],
        closed: &mut bool,
        plaintext: &mut impl FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, Error> {
        let Some((header, rest)) = bytes.split_at_mut_checked(HEADER) else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let result = if header[0] != u8::from(ContentType::ApplicationData) {
            Err(unexpected())
        } else if length > MOST_SEALED {
            let alert = AlertDescription::RecordOverflow;
            Err(Fault(Error::PeerSentOversizedRecord, Some(alert)))
        } else if let Some(sealed) = rest.get_mut(..length) {
            self.take(sealed, closed, plaintext, out)
        } else {
            return Ok(None);
        };
        match result {
            Ok(()) => Ok(Some(HEADER + length)),
            Err(Fault(error, alert)) => {
                if let Some(alert) = alert {
                    self.alert(2, alert, out);
                }
                Err(error)
            }
        }
    }

    fn take(
        &mut self,
        sealed: &mut [u8],
        closed: &mut bool,
        plaintext: &mut impl FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let (kind, content) = self.opening.open(sealed)?;
        if !self.message.is_empty() && kind != ContentType::Handshake {
            let error = PeerMisbehaved::MessageInterleavedWithHandshakeMessage;
            let alert = AlertDescription::UnexpectedMessage;
            return Err(Fault(error.into(), Some(alert)));
        }
        match kind {
            ContentType::ApplicationData => {
                self.updates = 0;
                if !content.is_empty() {
                    plaintext(content);
                }
                Ok(())
            }
            ContentType::Handshake => self.handshake(content, out),
            ContentType::Alert => {
                let &[_, description] = content else {
                    return Err(malformed(InvalidMessage::InvalidEmptyPayload));
                };
                match AlertDescription::from(description) {
                    AlertDescription::CloseNotify => *closed = true,
                    // It is followed by close_notify (RFC 8446 §6.1).
                    AlertDescription::UserCanceled => (),
                    alert => return Err(Fault(Error::AlertReceived(alert), None)),
                }
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    /// Takes the next part of the handshake messages that come after the handshake (RFC 8446 §4.6).
    fn handshake(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        if content.is_empty() {
            return Err(unexpected());
        }
        let mut held = mem::take(&mut self.message);
        held.extend_from_slice(content);
        let mut rest = &held[..];
        while let &[kind, high, middle, low, ref behind @ ..] = rest {
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            if length > MOST_MESSAGE {
                return Err(malformed(InvalidMessage::HandshakePayloadTooLarge));
            }
            let Some((message, behind)) = behind.split_at_checked(length) else {
                break;
            };
            rest = behind;
            match HandshakeType::from(kind) {
                HandshakeType::NewSessionTicket => {
                    let taken = self.kernel.handle_new_session_ticket(message);
                    taken.map_err(|error| Fault(error, Some(AlertDescription::DecodeError)))?;
                    self.tickets += 1;
                }
                HandshakeType::KeyUpdate => {
                    // The key changes between two records (RFC 8446 §5.1).
                    if !rest.is_empty() {
                        let error = PeerMisbehaved::KeyEpochWithPendingFragment;
                        let alert = AlertDescription::UnexpectedMessage;
                        return Err(Fault(error.into(), Some(alert)));
                    }
                    self.key_update(message, out)?;
                }
                _ => return Err(unexpected()),
            }
        }
        let done = held.len() - rest.len();
        held.drain(..done);
        self.message = held;
        Ok(())
    }

    fn key_update(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let asks = match message {
            [0] => false,
            [1] => true,
            _ => return Err(malformed(InvalidMessage::InvalidKeyUpdate)),
        };
        self.updates += 1;
        if self.updates > MOST_UPDATES {
            let error = PeerMisbehaved::TooManyKeyUpdateRequests;
            let alert = AlertDescription::UnexpectedMessage;
            return Err(Fault(error.into(), Some(alert)));
        }
        let failed = |error| Fault(error, Some(AlertDescription::InternalError));
        let secrets = self.kernel.update_rx_secret().map_err(failed)?;
        self.opening = Opening::new(self.suite, secrets).map_err(failed)?;
        if asks && !self.closed {
            self.renew(out).map_err(failed)?;
        }
        Ok(())
    }

    /// Seals what follows with another key, and says so to the peer.
    fn renew(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        // A message of one byte: update_not_requested.
        let message = [u8::from(HandshakeType::KeyUpdate), 0, 0, 1, 0];
        self.sealing.seal(ContentType::Handshake, &message, out)?;
        self.sealing = Sealing::new(self.kernel.update_tx_secret()?)?;
        Ok(())
    }

    /// Seals `plaintext` into records of up to 16 KiB, appended to `out`.
    pub(super) fn seal(&mut self, plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        for content in plaintext.chunks(RECORD_PLAINTEXT) {
            // One is left for the message that says so.
            if self.sealing.sequence + 1 >= self.limit {
                self.renew(out)?;
            }
            self.sealing
                .seal(ContentType::ApplicationData, content, out)?;
        }
        Ok(())
    }

    /// Appends close_notify to `out`.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        self.alert(1, AlertDescription::CloseNotify, out);
    }

    /// Appends an alert, unless nothing can be sealed any more: then nobody waits for it.
    fn alert(&mut self, level: u8, description: AlertDescription, out: &mut Vec<u8>) {
        let content = [level, u8::from(description)];
        if !self.closed {
            self.closed = true;
            let _ = self.sealing.seal(ContentType::Alert, &content, out);
        }
    }
}

impl Opening {
    fn new(
        suite: &'static Tls13CipherSuite,
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
    ) -> Result<Self, Error> {
        let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = secrets
        else {
            return Err(unknown_cipher());
        };
        Ok(Self {
            decrypter: suite.aead_alg.decrypter(key, iv),
            sequence,
        })
    }

    /// The content of a record and its type, without padding.
    fn open<'a>(&mut self, sealed: &'a mut [u8]) -> Result<(ContentType, &'a [u8]), Fault> {
        let (kind, version) = (ContentType::ApplicationData, ProtocolVersion::TLSv1_2);
        let message = InboundOpaqueMessage::new(kind, version, sealed);
        let opened = self.decrypter.decrypt(message, self.sequence);
        let plain = opened.map_err(|error| {
            let alert = match error {
                Error::DecryptError => AlertDescription::BadRecordMac,
                Error::PeerSentOversizedRecord => AlertDescription::RecordOverflow,
                _ => AlertDescription::UnexpectedMessage,
            };
            Fault(error, Some(alert))
        })?;
        self.sequence += 1;
        Ok((plain.typ, plain.payload))
    }
}

impl Sealing {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(unknown_cipher()),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| unknown_cipher())?;
        Ok(Self {
            key: LessSafeKey::new(key),
            iv,
            sequence,
        })
    }

    /// Appends a record with up to 16 KiB of content to `out`.
    fn seal(&mut self, kind: ContentType, content: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let length = content.len() + 1 + TAG;
        // The header is what is authenticated beside the content.
        let header = make_tls13_aad(length);
        out.reserve(HEADER + length);
        out.extend_from_slice(&header);
        let start = out.len();
        out.extend_from_slice(content);
        out.push(u8::from(kind));
        let nonce = AeadNonce::assume_unique_for_key(Nonce::new(&self.iv, self.sequence).0);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), &mut out[start..])
            .map_err(|_| Error::EncryptError)?;
        out.extend_from_slice(tag.as_ref());
        self.sequence += 1;
        Ok(())
    }
}

fn unexpected() -> Fault {
    let error = InvalidMessage::UnexpectedMessage("it has no place behind the handshake");
    Fault(error.into(), Some(AlertDescription::UnexpectedMessage))
}

fn malformed(error: InvalidMessage) -> Fault {
    Fault(error.into(), Some(AlertDescription::DecodeError))
}

fn unknown_cipher() -> Error {
    Error::General("the cipher suite has no keys that can be taken over".into())
}

#[cfg(test)]
mod tests;
