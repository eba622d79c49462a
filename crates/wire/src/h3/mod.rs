//! HTTP/3 (RFC 9114) over any QUIC that offers [`QuicStreams`].
//!
//! **The invariant**: hand every byte, end, reset and stop of the peer's streams to the
//! [`Connection`] in the order of each stream, and [`Connection::writable`] when QUIC says so; then
//! let QUIC transmit. When a call returns a [`ConnectionError`], every outstanding request has been
//! reported; close QUIC with its code.

pub mod code;
mod control;
mod end;
mod exchange;
mod frame;
mod peer;
mod section;
mod sending;
mod table;
mod upload;

use crate::request::MethodKind;
use crate::{
    ConnectionError, ErrorKind, Events, Refused, Request, StreamError, StreamId, Unprocessed,
};
use control::ControlStream;
use exchange::Carried;
use peer::{Control, PeerStreams};
use section::{Fault, Sections};
pub(crate) use sending::Opening;
use sending::Sending;
use table::Table;

/// The streams of a QUIC connection, as HTTP/3 needs them. `transport::quic` implements it.
pub trait QuicStreams {
    /// Opens a bidirectional stream, `None` when the peer grants no more now.
    fn open_bi(&mut self) -> Option<u64>;
    /// Opens a unidirectional stream, `None` when the peer grants no more now.
    fn open_uni(&mut self) -> Option<u64>;
    /// Writes as much of `bytes` as flow control takes, and says how much; 0 on a stopped stream.
    fn write(&mut self, stream: u64, bytes: &[u8]) -> usize;
    /// As [`Self::write`], for bytes that are written again and again: the same `key` always comes
    /// with the same bytes, so that an implementation may keep them in a form of its own.
    fn write_repeated(&mut self, stream: u64, _key: u64, bytes: &[u8]) -> usize {
        self.write(stream, bytes)
    }
    /// Bytes of all datagrams that have been put together so far. Content that has been written is in
    /// there, or waits for the congestion control.
    fn transmitted(&self) -> u64;
    /// Ends our direction of the stream.
    fn finish(&mut self, stream: u64);
    /// RESET_STREAM.
    fn reset(&mut self, stream: u64, code: u64);
    /// STOP_SENDING.
    fn stop(&mut self, stream: u64, code: u64);
}

/// Bounds on what a peer may make us keep.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// SETTINGS_MAX_FIELD_SECTION_SIZE: one field section, uncompressed, in bytes.
    pub field_section: u64,
    /// Most requests outstanding at a time, whatever the peer grants.
    pub max_streams: u32,
}

impl Default for Config {
    /// Field sections of 256 KiB, as Chromium takes them.
    fn default() -> Self {
        Self {
            field_section: 256 << 10,
            max_streams: u32::MAX,
        }
    }
}

/// The peer's SETTINGS; defaults before they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSettings {
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY, in bytes.
    pub qpack_max_table_capacity: u64,
    /// SETTINGS_QPACK_BLOCKED_STREAMS.
    pub qpack_blocked_streams: u64,
    /// `None`: unlimited.
    pub max_field_section_size: Option<u64>,
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220 §3): whether the peer takes [`crate::Content::Switched`].
    pub connect_protocol: bool,
    /// Whether the SETTINGS frame has arrived.
    pub received: bool,
}

/// The client's end of one connection.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    peer: PeerSettings,
    peer_streams: PeerStreams,
    control: ControlStream,
    exchanges: Table,
    sections: Sections,
    outstanding: usize,
    closing: bool,
    failed: bool,
    sent_field_bytes: u64,
    content_taken: u64,
    carried: Carried,
}

impl Connection {
    /// Opens the control stream (SETTINGS, a reserved setting and frame). Call when the handshake is
    /// done.
    pub fn new(config: Config, quic: &mut impl QuicStreams) -> Self {
        let mut connection = Self {
            config,
            peer: PeerSettings::default(),
            peer_streams: PeerStreams::default(),
            control: ControlStream::new(config.field_section),
            exchanges: Table::default(),
            sections: Sections::new(config.field_section),
            outstanding: 0,
            closing: false,
            failed: false,
            sent_field_bytes: 0,
            content_taken: 0,
            carried: Carried::default(),
        };
        connection.control.advance(quic);
        connection
    }

    /// Opens a stream with `request`; `Full` where QUIC grants no stream now. What flow control does
    /// not take stays inside and follows by [`Self::writable`]; streamed content follows by
    /// [`Self::write`].
    pub fn send(
        &mut self,
        request: &Request,
        slot: u32,
        quic: &mut impl QuicStreams,
    ) -> Result<StreamId, Refused> {
        if self.closing {
            return Err(Refused::Draining);
        }
        if self.outstanding >= self.config.max_streams as usize {
            return Err(Refused::Full);
        }
        let size = request.section_size();
        if let Some(limit) = self.peer.max_field_section_size.filter(|&max| size > max) {
            return Err(Refused::TooLarge { size, limit });
        }
        let is_connect = request.kind() == MethodKind::Upgrade;
        if is_connect && !self.peer.connect_protocol {
            // RFC 9220 §3: not before the peer has said that it may.
            return Err(if self.peer.received {
                Refused::NoConnectProtocol
            } else {
                Refused::Full
            });
        }
        let opening = request.h3_opening();
        let Some(number) = quic.open_bi() else {
            return Err(Refused::Full);
        };

        let exchange = self.exchanges.insert(number, slot, request.is_head());
        exchange.is_connect = is_connect;
        exchange.transmitted_before = quic.transmitted();
        let written = if request.is_repeated() {
            quic.write_repeated(number, request.id(), &opening.bytes)
        } else {
            quic.write(number, &opening.bytes)
        };
        let content = request.body().len() as u64;
        let rest = if written == opening.bytes.len() && !opening.body_follows {
            quic.finish(number);
            None
        } else {
            let mut sending = Sending::new(&opening.bytes[written..], request);
            let done = sending.advance(number, quic);
            (!done).then_some(sending)
        };
        self.content_taken += exchange.give(content, rest);
        self.outstanding += 1;
        self.sent_field_bytes += request.qpack_section().len() as u64;
        Ok(StreamId { number, slot })
    }

    /// Takes all of `bytes` of one stream of the peer's; `fin` where they are its last.
    pub fn receive<E: Events>(
        &mut self,
        stream: u64,
        bytes: &[u8],
        fin: bool,
        events: &mut E,
        quic: &mut impl QuicStreams,
    ) -> Result<(), ConnectionError> {
        if self.failed {
            return Ok(());
        }
        // RFC 9000 §2.1: the low bits say who opened the stream, and in which directions.
        match stream & 3 {
            0 => self.receive_response(stream, bytes, fin, events, quic),
            3 => self.receive_peer(stream, bytes, fin, events, quic),
            1 => self.fail(
                ConnectionError {
                    kind: ErrorKind::Protocol,
                    code: code::STREAM_CREATION_ERROR,
                    reason: "a bidirectional stream of the server's",
                },
                events,
            ),
            _ => Ok(()),
        }
    }

    /// The peer reset its direction of a stream.
    pub fn reset<E: Events>(
        &mut self,
        stream: u64,
        code: u64,
        events: &mut E,
        quic: &mut impl QuicStreams,
    ) -> Result<(), ConnectionError> {
        if self.failed {
            return Ok(());
        }
        if stream & 3 == 3 {
            return self
                .peer_streams
                .closed(stream)
                .or_else(|error| self.fail(error, events));
        }
        let Some(exchange) = self.exchanges.get_mut(stream).filter(|e| !e.has_ended()) else {
            return Ok(());
        };
        if code == code::NO_ERROR && exchange.is_complete_but_for_fin() {
            self.carried.transmitted = quic.transmitted();
            exchange.end(&mut self.carried, events);
            self.ended(stream);
            return Ok(());
        }
        let rejected = code == code::REQUEST_REJECTED;
        let error = StreamError {
            kind: ErrorKind::Reset,
            unprocessed: if rejected {
                Unprocessed::Proved
            } else {
                Unprocessed::Unknown
            },
            code: Some(code),
            reason: if rejected {
                "the server rejected the request"
            } else {
                "the server reset the stream"
            },
        };
        self.abandon(stream, error, code::REQUEST_CANCELLED, events, quic);
        Ok(())
    }

    /// The peer sent STOP_SENDING for our direction of a stream.
    pub fn stopped<E: Events>(
        &mut self,
        stream: u64,
        code: u64,
        events: &mut E,
        quic: &mut impl QuicStreams,
    ) -> Result<(), ConnectionError> {
        if self.failed {
            return Ok(());
        }
        if self.control.id == Some(stream) {
            let error = ConnectionError {
                kind: ErrorKind::Protocol,
                code: code::CLOSED_CRITICAL_STREAM,
                reason: "the peer stopped our control stream",
            };
            return self.fail(error, events);
        }
        // RFC 9000 §3.5: answered by a reset with the same code. The response goes on (RFC 9114 §4.1).
        quic.reset(stream, code);
        if let Some(exchange) = self.exchanges.get_mut(stream) {
            exchange.stop();
            if exchange.has_ended() {
                self.exchanges.remove(stream);
            }
        }
        Ok(())
    }

    /// The peer grants unidirectional streams.
    pub fn grant_uni(&mut self, quic: &mut impl QuicStreams) {
        self.control.advance(quic);
    }

    /// QUIC can take more bytes of a stream that could not take all.
    pub fn writable(&mut self, stream: u64, quic: &mut impl QuicStreams) {
        if self.control.id == Some(stream) {
            self.control.advance(quic);
            return;
        }
        let Some(exchange) = self.exchanges.get_mut(stream) else {
            return;
        };
        if exchange.advance(quic, &mut self.content_taken) && exchange.has_ended() {
            self.exchanges.remove(stream);
        }
    }

    /// Cancels a request (H3_REQUEST_CANCELLED both ways); nothing more is reported for it.
    pub fn cancel(&mut self, stream: StreamId, quic: &mut impl QuicStreams) {
        if let Some(exchange) = self.exchanges.get_mut(stream.number) {
            if !exchange.has_ended() {
                self.outstanding -= 1;
                quic.stop(stream.number, code::REQUEST_CANCELLED);
            }
            quic.reset(stream.number, code::REQUEST_CANCELLED);
            self.exchanges.remove(stream.number);
        }
    }

    /// How many more requests may be sent, as far as the limits of our own go; `send` may still find
    /// that QUIC grants no stream.
    pub fn capacity(&self) -> usize {
        if self.closing {
            0
        } else {
            self.config.max_streams as usize - self.outstanding
        }
    }

    /// Requests sent and not yet ended.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether the connection takes no more requests, now or later (GOAWAY, failed).
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// The peer's SETTINGS.
    pub fn peer_settings(&self) -> PeerSettings {
        self.peer
    }

    /// Bytes of request field sections sent: compressed.
    pub fn sent_field_bytes(&self) -> u64 {
        self.sent_field_bytes
    }

    /// Bytes of request content that QUIC has taken.
    pub fn content_taken(&self) -> u64 {
        self.content_taken
    }

    fn receive_response<E: Events>(
        &mut self,
        stream: u64,
        bytes: &[u8],
        fin: bool,
        events: &mut E,
        quic: &mut impl QuicStreams,
    ) -> Result<(), ConnectionError> {
        let Some(exchange) = self.exchanges.get_mut(stream).filter(|e| !e.has_ended()) else {
            // Cancelled or failed: what was on its way when we stopped the stream.
            return Ok(());
        };
        self.carried.transmitted = quic.transmitted();
        let (carried, sections) = (&mut self.carried, &mut self.sections);
        match exchange.receive(bytes, fin, carried, sections, events) {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.ended(stream);
                Ok(())
            }
            Err(Fault::Stream(error)) => {
                let code = error.code.unwrap_or(code::MESSAGE_ERROR);
                self.abandon(stream, error, code, events, quic);
                Ok(())
            }
            Err(Fault::Connection(error)) => self.fail(error, events),
        }
    }

    fn receive_peer<E: Events>(
        &mut self,
        stream: u64,
        mut bytes: &[u8],
        fin: bool,
        events: &mut E,
        quic: &mut impl QuicStreams,
    ) -> Result<(), ConnectionError> {
        loop {
            match self.peer_streams.receive(stream, &mut bytes, fin, quic) {
                Ok(None) => return Ok(()),
                Ok(Some(Control::Settings(settings))) => self.peer = settings,
                Ok(Some(Control::Goaway(id))) => self.goaway(id, events, quic),
                Err(error) => return self.fail(error, events),
            }
        }
    }

    fn goaway<E: Events>(&mut self, id: u64, events: &mut E, quic: &mut impl QuicStreams) {
        self.closing = true;
        let error = StreamError {
            kind: ErrorKind::Goaway,
            unprocessed: Unprocessed::Proved,
            code: None,
            reason: "the server is going away and did not process the request",
        };
        for number in self.exchanges.numbers_from(id) {
            self.abandon(number, error, code::REQUEST_CANCELLED, events, quic);
        }
    }

    /// The response has been reported in full.
    fn ended(&mut self, stream: u64) {
        self.outstanding -= 1;
        // A server may answer before it has read the request: the rest of our body still follows
        // unless it asks us to stop (RFC 9114 §4.1).
        if self
            .exchanges
            .get_mut(stream)
            .is_some_and(|exchange| exchange.sending.is_none())
        {
            self.exchanges.remove(stream);
        }
    }

    /// Ends both directions of a request's stream with `code` and reports `error`.
    fn abandon<E: Events>(
        &mut self,
        stream: u64,
        error: StreamError,
        code: u64,
        events: &mut E,
        quic: &mut impl QuicStreams,
    ) {
        quic.reset(stream, code);
        if let Some(exchange) = self.exchanges.get_mut(stream).filter(|e| !e.has_ended()) {
            quic.stop(stream, code);
            events.fail(exchange.id(), error);
            self.outstanding -= 1;
        }
        self.exchanges.remove(stream);
    }

    fn fail<E: Events>(
        &mut self,
        error: ConnectionError,
        events: &mut E,
    ) -> Result<(), ConnectionError> {
        self.closing = true;
        self.failed = true;
        let ConnectionError { kind, code, reason } = error;
        let of_stream = |_| StreamError {
            kind,
            unprocessed: Unprocessed::Unknown,
            code: Some(code),
            reason,
        };
        self.fail_outstanding(of_stream, events);
        Err(error)
    }
}
