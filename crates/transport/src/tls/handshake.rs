//! The handshake of one connection by rustls' unbuffered API, and all records of TLS 1.2.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{HandshakeKind, ProtocolVersion};
use rustls_pki_types::ServerName;

use super::records::{Opened, RECORD_PLAINTEXT, Records};
use super::{Config, Info};

/// What a record adds to its plaintext, rounded up: header 5, explicit nonce or content type 8, tag
/// 16 bytes.
const RECORD_OVERHEAD: usize = 32;

/// A record of TLS 1.3 without its content (RFC 8446 §5.2): header 5, content type 1, tag 16 bytes.
const EMPTY_RECORD: usize = 22;

/// A connection whose records rustls reads and writes.
pub(super) struct Handshake {
    rustls: UnbufferedClientConnection,
    /// Whether the server has taken early data, where it was offered; `Some(false)` before it is known.
    early_data: Option<bool>,
    /// Whether Encrypted Client Hello is offered: whoever rejects that does not get to the end.
    ech: bool,
}

impl Handshake {
    pub(super) fn new(config: &Config, name: ServerName<'static>) -> Result<Self, rustls::Error> {
        Ok(Self {
            rustls: UnbufferedClientConnection::new(config.rustls().clone(), name)?,
            early_data: None,
            ech: config.offers_ech(),
        })
    }

    /// Whether application data cannot be sent yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.rustls.is_handshaking()
    }

    /// Whether early data has been offered.
    pub(super) fn offered_early_data(&self) -> bool {
        self.early_data.is_some()
    }

    /// Tickets of TLS 1.3 that have come; `None` where another version was agreed.
    pub(super) fn tickets(&self) -> Option<u32> {
        (self.rustls.protocol_version() == Some(ProtocolVersion::TLSv1_3))
            .then(|| self.rustls.tls13_tickets_received())
    }

    /// What was agreed; `None` while handshaking.
    pub(super) fn info(&self) -> Option<Info> {
        if self.is_under_way() {
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
            ech: self.ech,
        })
    }

    /// The server's certificates in DER, its own first; empty while handshaking.
    pub(super) fn certificates(&self) -> Vec<Vec<u8>> {
        let certificates = self.rustls.peer_certificates().unwrap_or_default();
        certificates.iter().map(|der| der.to_vec()).collect()
    }

    /// Whether rustls can be left between two records of which `rest` is the beginning of the second:
    /// by TLS 1.3, and where it holds no part of a message.
    pub(super) fn may_be_left(&self, rest: &[u8]) -> bool {
        let complete = matches!(rest, [_, _, _, high, low, content @ ..]
            if content.len() >= usize::from(u16::from_be_bytes([*high, *low])));
        !self.is_under_way() && self.tickets().is_some() && !complete
    }

    /// Leaves the records to come to the caller.
    pub(super) fn leave(self) -> Result<Records, rustls::Error> {
        Records::new(self.rustls)
    }

    /// Takes complete records and messages from the front of `bytes`. `bytes` must begin with what an
    /// earlier call did not take: rustls remembers where it is in that. On an error the alert to send is
    /// in `out`.
    pub(super) fn receive(
        &mut self,
        bytes: &mut [u8],
        plaintext: &mut impl FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<Opened, rustls::Error> {
        let (mut done, mut closed) = (0, false);
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
                        break;
                    }
                    data.done();
                }
                Ok(ConnectionState::PeerClosed) => closed = true,
                Ok(_) => break,
                Err(error) => {
                    self.flush_alert(out);
                    return Err(error);
                }
            }
        }
        Ok(Opened {
            bytes: done,
            closed,
        })
    }

    /// Seals `plaintext` into records, appended to `out`. `held` is what [`Self::receive`] has not taken.
    pub(super) fn send(
        &mut self,
        plaintext: &[u8],
        held: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        let records = plaintext.len().div_ceil(RECORD_PLAINTEXT);
        let room = plaintext.len() + records * RECORD_OVERHEAD;
        self.write(room, held, out, |traffic, room| {
            traffic.encrypt(plaintext, room)
        })
    }

    /// Appends close_notify to `out`.
    pub(super) fn close(&mut self, held: &mut [u8], out: &mut Vec<u8>) -> Result<(), Unsent> {
        self.write(RECORD_OVERHEAD, held, out, |traffic, room| {
            traffic.queue_close_notify(room)
        })
    }

    /// Seals the beginning of `plaintext` into a record of early data, appended to `out`, and says how
    /// many bytes that was.
    pub(super) fn send_early(
        &mut self,
        plaintext: &[u8],
        held: &mut [u8],
        out: &mut Vec<u8>,
    ) -> usize {
        let plaintext = &plaintext[..plaintext.len().min(RECORD_PLAINTEXT)];
        // rustls has seen `held` before and found nothing complete in it: nothing to discard.
        let Ok(ConnectionState::TransmitTlsData(mut transmit)) =
            self.rustls.process_tls_records(held).state
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

    /// Calls `write` with `room` bytes behind the end of `out`, or with as many as it needs. It says
    /// how many it has written.
    fn write(
        &mut self,
        mut room: usize,
        held: &mut [u8],
        out: &mut Vec<u8>,
        mut write: impl FnMut(
            &mut WriteTraffic<'_, ClientConnectionData>,
            &mut [u8],
        ) -> Result<usize, EncryptError>,
    ) -> Result<(), Unsent> {
        loop {
            // rustls has seen `held` before and found nothing complete in it: nothing to discard.
            match self.rustls.process_tls_records(held).state {
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
                            return Err(Unsent::KeysUsedUp);
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, out),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => (),
                Ok(_) => return Err(Unsent::NotOpen),
                Err(error) => return Err(Unsent::Failed(error)),
            }
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
}

/// Why nothing was sealed.
pub(super) enum Unsent {
    /// So many records were sealed that the keys are not safe any more, and TLS 1.2 has no others.
    KeysUsedUp,
    /// The handshake is under way, or the connection is over.
    NotOpen,
    /// What rustls says.
    Failed(rustls::Error),
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
