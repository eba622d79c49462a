//! A connection over QUIC, speaking HTTP/3.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::BytesMut;
use trilane_transport::quic::{self, Endpoint, H3Session, Routed, Transmit};
use trilane_wire::h3::QuicStreams as _;
use trilane_wire::{Events, FieldList, Refused, Request, StreamId, Unfinished, Upload, h3};

/// Streamed content is handed to QUIC in pieces of this size, in bytes.
const PIECE: usize = 64 * 1024;

/// How a connection over QUIC is made; shared by all connections of one origin.
#[derive(Clone, Debug)]
pub struct QuicConfig {
    /// Certificates, windows and timeouts.
    pub quic: quic::Config,
    /// What HTTP/3 announces and keeps.
    pub h3: h3::Config,
    /// The name that the certificate must be for.
    pub server_name: String,
}

/// What a UDP socket received at once.
#[derive(Debug)]
pub struct Batch {
    /// The datagrams, one after the other.
    pub bytes: BytesMut,
    /// Bytes of each but the last, which may be shorter.
    pub segment_size: usize,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
}

/// What a socket did with datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It took them, or refused them for a reason that is as good as a loss on the way.
    Sent,
    /// It is full: they are kept.
    Full,
    /// It told that nobody listens at the other end, which a kernel does once, to whichever call
    /// comes next.
    Unreachable,
}

/// One connection over QUIC.
#[derive(Debug)]
pub struct Quic {
    session: H3Session,
    peer: SocketAddr,
    since: Instant,
    /// A batch that the socket did not take, with its shape.
    unsent: Option<(Vec<u8>, Transmit)>,
    /// Whether something was done that may have left datagrams to send.
    dirty: bool,
    /// Bytes of field sections and content handed to QUIC since the last transmission, or more.
    gathered: usize,
}

impl Quic {
    /// Begins the handshake with `peer`.
    pub fn new(config: &QuicConfig, peer: SocketAddr, now: Instant) -> Result<Self, quic::Error> {
        let QuicConfig {
            quic,
            h3,
            server_name,
        } = config;
        let session = H3Session::connect(quic, *h3, peer, server_name, now)?;
        Ok(Self::with(session, peer, now))
    }

    /// As [`Self::new`], on a socket that others share: `endpoint` says which datagrams are for the connection.
    /// [`Self::take`] and [`Self::process`] stand in for [`Self::receive`] then, [`Self::settle_with`] comes
    /// before [`Self::transmit`], and [`Self::leave`] when the connection goes.
    pub fn sharing(
        config: &QuicConfig,
        endpoint: &mut Endpoint,
        peer: SocketAddr,
        now: Instant,
    ) -> Result<Self, quic::Error> {
        let quic = endpoint.connect(&config.quic, peer, &config.server_name, now)?;
        Ok(Self::with(H3Session::on(quic, config.h3), peer, now))
    }

    fn with(session: H3Session, peer: SocketAddr, now: Instant) -> Self {
        Self {
            session,
            peer,
            since: now,
            unsent: None,
            dirty: true,
            gathered: 0,
        }
    }

    /// Takes a datagram that a shared socket received.
    pub fn take(&mut self, datagram: Routed) {
        self.dirty = true;
        self.session.take(datagram);
    }

    /// Acts on what was taken.
    pub fn process<E: Events>(&mut self, now: Instant, events: &mut E) {
        self.session.process(now, events);
    }

    /// Carries messages between the connection and the endpoint that it shares.
    pub fn settle_with(&mut self, endpoint: &mut Endpoint) {
        self.session.settle_with(endpoint);
    }

    /// The connection goes: the endpoint that it shared forgets it.
    pub fn leave(&mut self, endpoint: &mut Endpoint) {
        self.session.leave(endpoint);
    }

    /// Takes what the socket of the connection received.
    pub fn receive<E: Events>(&mut self, now: Instant, batch: Batch, events: &mut E) {
        self.dirty = true;
        let Batch {
            bytes,
            segment_size,
            ecn,
        } = batch;
        self.session
            .receive(now, self.peer, ecn, bytes, segment_size, events);
    }

    /// The time of [`Self::timeout`] has come.
    pub fn handle_timeout<E: Events>(&mut self, now: Instant, events: &mut E) {
        self.dirty = true;
        self.session.handle_timeout(now, events);
    }

    /// The socket told that nobody listens at the other end.
    pub fn unreachable<E: Events>(&mut self, now: Instant, events: &mut E) {
        self.session.unreachable(now, events);
    }

    /// Gives `send` every datagram that is due, in batches of up to `segments` of one size, put
    /// together in `scratch`. True where the socket told that nobody listens: see
    /// [`Self::unreachable`].
    pub fn transmit(
        &mut self,
        now: Instant,
        segments: usize,
        scratch: &mut Vec<u8>,
        mut send: impl FnMut(&[u8], Transmit) -> Taken,
    ) -> bool {
        let mut unreachable = false;
        if let Some((bytes, shape)) = self.unsent.take() {
            match send(&bytes, shape) {
                Taken::Sent => (),
                Taken::Unreachable => unreachable = true,
                Taken::Full => {
                    self.unsent = Some((bytes, shape));
                    return false;
                }
            }
        }
        self.dirty = false;
        self.gathered = 0;
        while let Some(shape) = self.session.transmit(now, segments, scratch) {
            match send(&scratch[..shape.len], shape) {
                Taken::Sent => (),
                Taken::Unreachable => unreachable = true,
                Taken::Full => {
                    self.unsent = Some((scratch[..shape.len].to_vec(), shape));
                    break;
                }
            }
        }
        unreachable
    }

    /// Says goodbye with H3_NO_ERROR; one more [`Self::transmit`] tells the peer.
    pub fn close(&mut self, now: Instant) {
        self.dirty = true;
        self.session.close(now);
    }

    /// When [`Self::handle_timeout`] has to be called, whatever else happens.
    pub fn timeout(&mut self) -> Option<Instant> {
        self.session.timeout()
    }

    /// When the handshake began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// The other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Fails what is outstanding on a connection that has ended.
    pub fn abandon<E: Events>(&mut self, events: &mut E) {
        self.session.abandon(events);
    }

    /// Why the connection has ended, unless by [`Self::close`]. What is outstanding has not been told
    /// then: see [`Self::abandon`].
    pub fn error(&self) -> Option<&quic::Error> {
        self.session.error()
    }

    /// Whether the handshake is done, and the connection not over.
    pub fn is_connected(&self) -> bool {
        self.session.is_connected()
    }

    /// Whether requests may be sent before the handshake is done, in early data: see
    /// [`H3Session::is_early`].
    pub fn is_early(&self) -> bool {
        self.session.is_early()
    }

    /// Whether the peer has shown that it speaks HTTP/3: it has sent SETTINGS.
    pub fn is_ready(&self) -> bool {
        self.peer_settings().is_some()
    }

    /// The peer's SETTINGS, once they have come.
    pub fn peer_settings(&self) -> Option<h3::PeerSettings> {
        let settings = self.session.h3()?.peer_settings();
        settings.received.then_some(settings)
    }

    /// The HTTP/3 connection, once the handshake is done.
    pub fn h3(&self) -> Option<&h3::Connection> {
        self.session.h3()
    }

    /// The QUIC connection: what it counted, and what TLS agreed on.
    pub fn quic(&self) -> &quic::Connection {
        self.session.quic()
    }

    /// How many more requests [`Self::send`] takes now, as far as is known.
    pub fn capacity(&self) -> usize {
        self.session.capacity()
    }

    /// Requests sent and not yet ended.
    pub fn outstanding(&self) -> usize {
        self.session.outstanding()
    }

    /// Whether the connection takes no more requests, now or later.
    pub fn is_closing(&self) -> bool {
        self.session.is_closing()
    }

    /// Whether nothing more can happen: it takes no more requests, and none is outstanding.
    pub fn is_finished(&self) -> bool {
        self.is_closing() && self.outstanding() == 0
    }

    /// Whether datagrams wait for the socket.
    pub fn is_blocked(&self) -> bool {
        self.unsent.is_some()
    }

    /// Whether [`Self::transmit`] may have something.
    pub fn has_output(&self) -> bool {
        self.is_blocked() || self.dirty
    }

    /// About the bytes that were handed to QUIC since the last transmission.
    pub fn gathered(&self) -> usize {
        self.gathered
    }

    /// Bytes of request content that have left, at most: what QUIC has taken, which the server's windows
    /// allow, as far as the datagrams so far can carry it. How much of it still waits for the
    /// congestion control, QUIC does not tell.
    pub fn content_sent(&self) -> u64 {
        let taken = self.h3().map_or(0, h3::Connection::content_taken);
        taken.min(self.quic().transmitted())
    }

    /// Sends a request, whose stream carries `slot`.
    pub fn send(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        self.dirty = true;
        self.gathered += request.decoded_bytes() + request.body().len();
        self.session.send(request, slot)
    }

    /// Resets one request; nothing more is reported for it.
    pub fn cancel(&mut self, stream: StreamId) {
        self.dirty = true;
        self.session.cancel(stream);
    }

    /// Asks the peer by a PING whether it is there, and says how many acknowledgements came before its answer.
    pub fn ping(&mut self) -> u64 {
        self.dirty = true;
        self.session.ping();
        self.acknowledgements()
    }

    /// How many acknowledgements have come from the peer.
    pub fn acknowledgements(&self) -> u64 {
        self.quic().stats().received_acks
    }

    /// Takes streamed content, as much as may be sent now, and says how much.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.dirty = true;
        let mut taken = 0;
        for piece in bytes.chunks(PIECE) {
            let length = self.session.write(stream, piece);
            taken += length;
            if length < piece.len() {
                break;
            }
        }
        taken
    }

    /// Ends streamed content.
    pub fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> Result<(), Unfinished> {
        self.dirty = true;
        self.session.finish(stream, trailers)
    }

    /// Whether the peer still takes content of a request.
    pub fn upload(&self, stream: StreamId) -> Upload {
        self.session.upload(stream)
    }

    /// Stops the peer from sending more of one response than it has been granted.
    pub fn pause(&mut self, stream: StreamId) {
        self.session.pause(stream);
    }

    /// Reads a paused response at once, and lets the peer send again.
    pub fn resume<E: Events>(&mut self, now: Instant, stream: StreamId, events: &mut E) {
        self.dirty = true;
        self.session.resume(now, stream, events);
    }
}
