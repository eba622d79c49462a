//! HTTP/3 on QUIC: where `wire::h3` and a QUIC connection meet.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use trilane_wire::{
    ConnectionError, Events, FieldList, Refused, Request, StreamId, Unfinished, Upload, h3,
};

use super::{Config, Connection, Endpoint, Error, ErrorKind, Event, Read, Routed, Transmit};

/// One HTTP/3 connection: QUIC's events become calls of [`h3::Connection`], whose events go to the
/// caller's sink.
///
/// The caller's turn: [`Self::receive`] or [`Self::handle_timeout`], [`Self::send`] as
/// [`Self::capacity`] allows, [`Self::transmit`] until `None`, wait for the socket or for
/// [`Self::timeout`].
#[derive(Debug)]
pub struct H3Session {
    quic: Connection,
    config: h3::Config,
    /// From the end of the handshake on, or from the beginning where early data may be sent.
    h3: Option<h3::Connection>,
    /// Whether the handshake is under way, and requests go in early data.
    early: bool,
    /// Whether QUIC refused a stream and has not granted one since.
    blocked: bool,
    error: Option<Error>,
    pieces: Vec<Bytes>,
    /// The streams that are not read.
    paused: Vec<u64>,
}

impl H3Session {
    /// Begins the handshake with `remote`, whose certificate must be for `server_name`.
    pub fn connect(
        quic: &Config,
        h3: h3::Config,
        remote: SocketAddr,
        server_name: &str,
        now: Instant,
    ) -> Result<Self, Error> {
        Ok(Self::on(
            Connection::connect(quic, remote, server_name, now)?,
            h3,
        ))
    }

    /// HTTP/3 on a connection that has just begun its handshake.
    pub fn on(mut quic: Connection, h3: h3::Config) -> Self {
        let early = quic.offered_early_data();
        Self {
            config: h3,
            h3: early.then(|| h3::Connection::new(h3, &mut quic)),
            early,
            quic,
            blocked: false,
            error: None,
            pieces: Vec::new(),
            paused: Vec::new(),
        }
    }

    /// Takes what the socket received at once; see [`Connection::receive`].
    pub fn receive<E: Events>(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        ecn: u8,
        batch: BytesMut,
        segment_size: usize,
        events: &mut E,
    ) {
        self.quic.receive(now, remote, ecn, batch, segment_size);
        self.drive(now, events);
    }

    /// Takes a datagram that a shared socket received; [`Self::process`] acts on it.
    pub fn take(&mut self, datagram: Routed) {
        self.quic.take(datagram);
    }

    /// Acts on what was taken.
    pub fn process<E: Events>(&mut self, now: Instant, events: &mut E) {
        self.drive(now, events);
    }

    /// See [`Endpoint::settle`], which comes before [`Self::transmit`] on a shared socket.
    pub fn settle_with(&mut self, endpoint: &mut Endpoint) {
        endpoint.settle(&mut self.quic);
    }

    /// See [`Endpoint::forget`].
    pub fn leave(&mut self, endpoint: &mut Endpoint) {
        endpoint.forget(&mut self.quic);
    }

    /// The time of [`Self::timeout`] has come.
    pub fn handle_timeout<E: Events>(&mut self, now: Instant, events: &mut E) {
        self.quic.handle_timeout(now);
        self.drive(now, events);
    }

    /// The socket reported that nobody listens at the other end (ECONNREFUSED), which it does once,
    /// to the next send or receive.
    pub fn unreachable<E: Events>(&mut self, now: Instant, events: &mut E) {
        self.quic.unreachable(now);
        self.drive(now, events);
    }

    /// Sends a request; see [`h3::Connection::send`]. `Full` while handshaking, unless
    /// [`Self::is_early`].
    pub fn send(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        if self.is_closing() {
            return Err(Refused::Draining);
        }
        let Some(h3) = &mut self.h3 else {
            return Err(Refused::Full);
        };
        let result = h3.send(request, slot, &mut self.quic);
        // With room by our own limit it was QUIC that refused.
        self.blocked |= result == Err(Refused::Full) && h3.capacity() > 0;
        result
    }

    /// See [`Connection::ping`].
    pub fn ping(&mut self) {
        self.quic.ping();
    }

    /// Writes streamed content; see [`h3::Connection::write`].
    pub fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.h3
            .as_mut()
            .map_or(0, |h3| h3.write(stream, bytes, &mut self.quic))
    }

    /// Ends streamed content; see [`h3::Connection::finish`].
    pub fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> Result<(), Unfinished> {
        self.h3
            .as_mut()
            .map_or(Ok(()), |h3| h3.finish(stream, trailers, &mut self.quic))
    }

    /// How far the content of a request is.
    pub fn upload(&self, stream: StreamId) -> Upload {
        self.h3
            .as_ref()
            .map_or(Upload::Stopped, |h3| h3.upload(stream))
    }

    /// Leaves what arrives on a request's stream with QUIC, unread: the peer sends no more than one
    /// window of the stream. That counts for the window of the connection too, which should hold
    /// several.
    pub fn pause(&mut self, stream: StreamId) {
        let StreamId { number, .. } = stream;
        if number & 3 == 0 && !self.paused.contains(&number) {
            self.paused.push(number);
        }
    }

    /// Reads a paused stream at once, and goes on with it as with others.
    pub fn resume<E: Events>(&mut self, now: Instant, stream: StreamId, events: &mut E) {
        if self.unpause(stream.number) {
            let result = self.handle(Event::Readable(stream.number), events);
            self.settle(now, result);
            self.drive(now, events);
        }
    }

    /// Cancels a request; nothing more is reported for it.
    pub fn cancel(&mut self, stream: StreamId) {
        self.unpause(stream.number);
        if let Some(h3) = &mut self.h3 {
            h3.cancel(stream, &mut self.quic);
        }
    }

    /// Ends the connection with H3_NO_ERROR. What is outstanding is not reported; one more
    /// `transmit` tells the peer.
    pub fn close(&mut self, now: Instant) {
        self.quic.close(now, h3::code::NO_ERROR, "");
    }

    /// Writes datagrams to send; see [`Connection::transmit`].
    pub fn transmit(
        &mut self,
        now: Instant,
        max_segments: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.quic.transmit(now, max_segments, out)
    }

    /// When [`Self::handle_timeout`] has to be called, whatever else happens.
    pub fn timeout(&mut self) -> Option<Instant> {
        self.quic.timeout()
    }

    /// How many more requests may be sent, as far as is known: QUIC does not tell how many streams
    /// the peer grants, only when none is left.
    pub fn capacity(&self) -> usize {
        match &self.h3 {
            Some(h3) if !self.blocked && !self.is_closing() => h3.capacity(),
            _ => 0,
        }
    }

    /// Requests sent and not yet ended.
    pub fn outstanding(&self) -> usize {
        self.h3.as_ref().map_or(0, h3::Connection::outstanding)
    }

    /// Whether the handshake is done, and requests can be sent, now or when others have ended.
    pub fn is_connected(&self) -> bool {
        self.h3.is_some() && !self.early && !self.quic.is_closed()
    }

    /// Whether the handshake is under way, and requests go in early data. Whoever sends them has to
    /// bear that they may be replayed (RFC 8470). Those that the server rejects are reported as not
    /// processed.
    pub fn is_early(&self) -> bool {
        self.early && !self.quic.is_closed()
    }

    /// Whether the connection takes no more requests, now or later (GOAWAY, closed, lost).
    pub fn is_closing(&self) -> bool {
        self.quic.is_closed() || self.h3.as_ref().is_some_and(h3::Connection::is_closing)
    }

    /// Fails what is outstanding on a connection that has ended: whoever hears of it may want to know
    /// [`Self::error`] by then.
    pub fn abandon<E: Events>(&mut self, events: &mut E) {
        if let Some(h3) = &mut self.h3 {
            h3.eof(events);
        }
    }

    /// Why the connection has ended, unless by [`Self::close`]. Call [`Self::abandon`] then.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The QUIC connection.
    pub fn quic(&self) -> &Connection {
        &self.quic
    }

    /// The HTTP/3 connection, once the handshake is done.
    pub fn h3(&self) -> Option<&h3::Connection> {
        self.h3.as_ref()
    }

    fn drive<E: Events>(&mut self, now: Instant, events: &mut E) {
        while let Some(event) = self.quic.poll() {
            let result = self.handle(event, events);
            self.settle(now, result);
        }
    }

    fn settle(&mut self, now: Instant, result: Result<(), ConnectionError>) {
        if let Err(error) = result {
            self.quic.close(now, error.code, error.reason);
            self.error = Some(error.into());
        }
    }

    /// Whether the stream was paused.
    fn unpause(&mut self, stream: u64) -> bool {
        let at = self.paused.iter().position(|&other| other == stream);
        if let Some(at) = at {
            self.paused.swap_remove(at);
        }
        at.is_some()
    }

    fn handle<E: Events>(&mut self, event: Event, events: &mut E) -> Result<(), ConnectionError> {
        let Self {
            quic, h3, pieces, ..
        } = self;
        if event == Event::Connected {
            self.early = false;
            match h3 {
                // RFC 9114 §7.2.4.2: the server's SETTINGS are those of before, or wider.
                Some(_) if !quic.rejected_early_data() => (),
                Some(h3) => {
                    self.blocked = false;
                    h3.restart(quic, events);
                }
                None => self.h3 = Some(h3::Connection::new(self.config, quic)),
            }
            return Ok(());
        }
        if let Event::Lost(error) = event {
            // What arrived before is reported before.
            for stream in std::mem::take(&mut self.paused) {
                self.handle(Event::Readable(stream), events)?;
            }
            self.error = Some(error);
            return Ok(());
        }
        let Some(h3) = h3 else {
            return Ok(());
        };
        match event {
            // `resume` reads it.
            Event::Readable(stream) if self.paused.contains(&stream) => {}
            Event::Opened(stream) | Event::Readable(stream) => {
                let read = quic.read(stream, pieces);
                let fin = read == Read::Finished;
                let last = pieces.len();
                for (index, piece) in pieces.drain(..).enumerate() {
                    let fin = fin && index + 1 == last;
                    h3.receive(stream, &piece, fin, events, quic)?;
                }
                match read {
                    Read::Finished if last == 0 => h3.receive(stream, &[], true, events, quic)?,
                    Read::Reset(code) => h3.reset(stream, code, events, quic)?,
                    _ => {}
                }
            }
            Event::Writable(stream) => h3.writable(stream, quic),
            Event::Stopped { stream, code } => h3.stopped(stream, code, events, quic)?,
            Event::Available { bidirectional } => {
                self.blocked &= !bidirectional;
                if !bidirectional {
                    h3.grant_uni(quic);
                }
            }
            Event::Connected | Event::Finished(_) | Event::Lost(_) => {}
        }
        Ok(())
    }
}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Self {
        let kind = match error.kind {
            trilane_wire::ErrorKind::Limit => ErrorKind::Limit,
            _ => ErrorKind::Protocol,
        };
        Self {
            kind,
            code: Some(error.code),
            reason: error.reason.into(),
        }
    }
}
