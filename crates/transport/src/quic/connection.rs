//! One client connection.

mod streams;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ConnectionError, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, ReadError,
    StreamEvent, VarInt,
};

use self::streams::{Repeated, incoming};
use super::crypto::HandshakeData;
use super::{Config, Error, PeerParameters, Routed, Stats};
use crate::tls;

/// What happened on a connection. Streams are named by their id (RFC 9000 §2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is done: streams can be opened.
    Connected,
    /// The peer opened a unidirectional stream: read it.
    Opened(u64),
    /// A stream has data, its end or its reset to read.
    Readable(u64),
    /// A stream that took no more bytes takes some again.
    Writable(u64),
    /// Every byte of a finished stream has been acknowledged.
    Finished(u64),
    /// The peer asked us to send no more on a stream.
    Stopped {
        /// The stream.
        stream: u64,
        /// The application's error code.
        code: u64,
    },
    /// The peer grants more streams.
    Available {
        /// Bidirectional ones, or unidirectional ones.
        bidirectional: bool,
    },
    /// The connection has ended, other than by [`Connection::close`]. The last event.
    Lost(Error),
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// More may follow.
    Open,
    /// The stream has ended.
    Finished,
    /// The peer reset the stream, with this error code.
    Reset(u64),
    /// There is no such stream, or not any more.
    Closed,
}

/// Datagrams to send, written one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Bytes in all.
    pub len: usize,
    /// Bytes of each datagram but the last, which may be shorter; `len` where there is one.
    pub segment_size: usize,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
}

/// The client's end of one QUIC connection.
pub struct Connection {
    /// Of one on a UDP socket of its own; those that share a socket share it: [`super::Endpoint`].
    endpoint: Option<Endpoint>,
    /// None when the endpoint has forgotten the connection.
    handle: Option<ConnectionHandle>,
    number: usize,
    inner: quinn_proto::Connection,
    handshake_deadline: Option<Instant>,
    /// For the words of an error: whom we meant, and what was offered.
    server_name: String,
    tls: Arc<rustls::ClientConfig>,
    words: tls::Words,
    /// What [`Self::poll`] will report as lost.
    lost: Option<Error>,
    /// Whether the loss has been reported, or will be.
    ended: bool,
    /// Whether the peer may have opened streams that have not been reported.
    opened: bool,
    repeated: Repeated,
    /// Bytes of datagrams so far.
    transmitted: u64,
    /// What quinn-proto would answer by itself: nothing that a client sends.
    unsent: Vec<u8>,
}

impl Connection {
    /// Begins the handshake with `remote`, whose certificate must be for `server_name` (DNS name or
    /// IP address), on a UDP socket of the connection's own.
    pub fn connect(
        config: &Config,
        remote: SocketAddr,
        server_name: &str,
        now: Instant,
    ) -> Result<Self, Error> {
        let mut endpoint = config.new_endpoint();
        let begun = Self::begin(config, &mut endpoint, remote, server_name, now)?;
        Ok(Self {
            endpoint: Some(endpoint),
            ..begun
        })
    }

    /// As [`Self::connect`], a connection that `endpoint` knows.
    pub(super) fn begin(
        config: &Config,
        endpoint: &mut Endpoint,
        remote: SocketAddr,
        server_name: &str,
        now: Instant,
    ) -> Result<Self, Error> {
        let (handle, inner) = endpoint
            .connect(now, config.client.clone(), remote, server_name)
            .map_err(Error::connect)?;
        Ok(Self {
            endpoint: None,
            handle: Some(handle),
            number: handle.0,
            inner,
            handshake_deadline: now.checked_add(config.handshake_timeout),
            server_name: server_name.into(),
            tls: Arc::clone(&config.tls),
            words: config.words,
            lost: None,
            ended: false,
            opened: false,
            repeated: Repeated::default(),
            transmitted: 0,
            unsent: Vec::new(),
        })
    }

    /// Takes what the socket of the connection received from `remote` at once: datagrams of
    /// `segment_size` bytes, the last one possibly shorter, with the ECN bits `ecn`.
    pub fn receive(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        ecn: u8,
        mut batch: BytesMut,
        segment_size: usize,
    ) {
        let Some(endpoint) = &mut self.endpoint else {
            return;
        };
        let ecn = EcnCodepoint::from_bits(ecn);
        while let Some(datagram) = next_datagram(&mut batch, segment_size) {
            self.unsent.clear();
            let event = endpoint.handle(now, remote, None, ecn, datagram, &mut self.unsent);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.inner.handle_event(event);
            }
        }
        self.settle();
    }

    /// Takes a datagram that a shared socket received.
    pub fn take(&mut self, datagram: Routed) {
        self.inner.handle_event(datagram.0);
    }

    /// Which of the connections it is that share an endpoint.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Writes datagrams to send into `out`, replacing its content: up to `max_segments` of one size,
    /// for one system call with segmentation offload. `None` when there is nothing to send now.
    pub fn transmit(
        &mut self,
        now: Instant,
        max_segments: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        out.clear();
        let transmit = self.inner.poll_transmit(now, max_segments.max(1), out)?;
        self.transmitted += transmit.size as u64;
        Some(Transmit {
            len: transmit.size,
            segment_size: transmit.segment_size.unwrap_or(transmit.size),
            ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
        })
    }

    /// When [`Self::handle_timeout`] has to be called, whatever else happens.
    pub fn timeout(&mut self) -> Option<Instant> {
        match (self.inner.poll_timeout(), self.handshake_deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The time of [`Self::timeout`] has come. Harmless when called too early.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self
            .handshake_deadline
            .is_some_and(|deadline| deadline <= now)
        {
            self.handshake_deadline = None;
            if self.is_handshaking() && !self.inner.is_closed() {
                self.lose(Error::handshake_timeout());
                self.inner.close(now, VarInt::from_u32(0), Bytes::new());
            }
        }
        self.inner.handle_timeout(now);
        self.settle();
    }

    /// The socket reported that nobody listens at the other end (ECONNREFUSED), which it does once,
    /// to the next send or receive.
    pub fn unreachable(&mut self, now: Instant) {
        if !self.inner.is_closed() {
            self.lose(Error::unreachable());
            self.inner.close(now, VarInt::from_u32(0), Bytes::new());
            self.settle();
        }
    }

    /// What happened since the last call.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            // One event of quinn-proto's stands for any number of streams.
            if self.opened {
                match self.inner.streams().accept(Dir::Uni) {
                    Some(id) => return Some(Event::Opened(id.into())),
                    None => self.opened = false,
                }
            }
            let Some(event) = self.inner.poll() else {
                return self.lost.take().map(Event::Lost);
            };
            return Some(match event {
                quinn_proto::Event::Connected => {
                    self.handshake_deadline = None;
                    Event::Connected
                }
                quinn_proto::Event::ConnectionLost { reason } => {
                    let error = self.describe(reason);
                    self.lose(error);
                    continue;
                }
                quinn_proto::Event::Stream(StreamEvent::Opened { .. }) => {
                    // Bidirectional ones are not granted.
                    self.opened = true;
                    continue;
                }
                quinn_proto::Event::Stream(StreamEvent::Readable { id }) => {
                    Event::Readable(id.into())
                }
                quinn_proto::Event::Stream(StreamEvent::Writable { id }) => {
                    Event::Writable(id.into())
                }
                quinn_proto::Event::Stream(StreamEvent::Finished { id }) => {
                    Event::Finished(id.into())
                }
                quinn_proto::Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    Event::Stopped {
                        stream: id.into(),
                        code: error_code.into_inner(),
                    }
                }
                quinn_proto::Event::Stream(StreamEvent::Available { dir }) => Event::Available {
                    bidirectional: dir == Dir::Bi,
                },
                quinn_proto::Event::HandshakeDataReady
                | quinn_proto::Event::DatagramReceived
                | quinn_proto::Event::DatagramsUnblocked => continue,
            });
        }
    }

    /// Appends everything that a stream has to `pieces`, in order and without copying.
    pub fn read(&mut self, stream: u64, pieces: &mut Vec<Bytes>) -> Read {
        let Some(id) = incoming(stream) else {
            return Read::Closed;
        };
        let mut stream = self.inner.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return Read::Closed;
        };
        let read = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => pieces.push(chunk.bytes),
                Ok(None) => break Read::Finished,
                Err(ReadError::Blocked) => break Read::Open,
                Err(ReadError::Reset(code)) => break Read::Reset(code.into_inner()),
            }
        };
        // Whether a window update is due, `transmit` finds out by itself.
        let _ = chunks.finalize();
        read
    }

    /// Sends a PING (RFC 9000 §19.2), which the peer acknowledges where it is there.
    pub fn ping(&mut self) {
        self.inner.ping();
    }

    /// Ends the connection with an application's error code (RFC 9114 §8.1). Nothing more is
    /// reported; one more `transmit` tells the peer.
    pub fn close(&mut self, now: Instant, code: u64, reason: &'static str) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        self.ended = true;
        self.handshake_deadline = None;
        self.inner
            .close(now, code, Bytes::from_static(reason.as_bytes()));
        self.settle();
    }

    /// Whether the handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    /// Whether the connection has ended, by either side.
    pub fn is_closed(&self) -> bool {
        self.ended || self.inner.is_closed()
    }

    /// Whether the connection can be forgotten: nothing of it can arrive any more.
    pub fn is_drained(&self) -> bool {
        self.inner.is_drained()
    }

    /// What TLS agreed on; `None` while handshaking.
    pub fn tls(&self) -> Option<tls::Info> {
        let info = self.handshake_data()?.info?;
        Some(tls::Info {
            early_data: self
                .offered_early_data()
                .then(|| self.inner.accepted_0rtt()),
            ..info
        })
    }

    /// Whether streams could be opened before the handshake was done, and what was written on them
    /// has left as early data.
    pub fn offered_early_data(&self) -> bool {
        self.inner.has_0rtt()
    }

    /// Whether the server may be about to send the first ticket for later connections: what it answers
    /// may overtake that.
    pub fn awaits_ticket(&self) -> bool {
        self.handshake_data().is_some_and(|data| data.tickets == 0)
    }

    /// Whether the handshake is done, and the server had rejected the early data in it: all streams
    /// opened before have been forgotten, and none of what they carried has been processed
    /// (RFC 9001 §4.6.2).
    pub fn rejected_early_data(&self) -> bool {
        self.offered_early_data() && !self.is_handshaking() && !self.inner.accepted_0rtt()
    }

    /// The server's certificates in DER, its own first; empty while handshaking.
    pub fn certificates(&self) -> Vec<Vec<u8>> {
        let chain = self.inner.crypto_session().peer_identity();
        let chain = chain.and_then(|chain| chain.downcast().ok());
        chain.map_or_else(Vec::new, |chain| *chain)
    }

    /// The peer's transport parameters; `None` while handshaking.
    pub fn peer_parameters(&self) -> Option<PeerParameters> {
        let parameters = self.inner.crypto_session().transport_parameters().ok()??;
        Some(PeerParameters::read(&parameters))
    }

    /// What has been counted so far.
    pub fn stats(&self) -> Stats {
        self.inner.stats().into()
    }

    fn handshake_data(&self) -> Option<Box<HandshakeData>> {
        self.inner
            .crypto_session()
            .handshake_data()?
            .downcast()
            .ok()
    }

    fn describe(&self, reason: ConnectionError) -> Error {
        if let ConnectionError::TimedOut = reason
            && self.is_handshaking()
        {
            return Error::handshake_timeout();
        }
        let ours = self.handshake_data().and_then(|data| data.error);
        Error::lost(reason, |theirs| {
            let error = ours.unwrap_or(theirs);
            tls::describe(
                &error,
                &self.server_name,
                &self.tls.alpn_protocols,
                // QUIC has no other (RFC 9001 §4.2): nothing else can be allowed, nor does a server answer so.
                None,
                &self.words,
            )
            .0
        })
    }

    fn lose(&mut self, error: Error) {
        self.handshake_deadline = None;
        if !self.ended {
            self.ended = true;
            self.lost = Some(error);
        }
    }

    /// Carries messages between the halves of quinn-proto: new connection ids, mostly. On a shared socket
    /// whoever has the endpoint does.
    fn settle(&mut self) {
        if let Some(endpoint) = &mut self.endpoint {
            carry(endpoint, &mut self.handle, &mut self.inner);
        }
    }

    pub(super) fn settle_with(&mut self, endpoint: &mut Endpoint) {
        carry(endpoint, &mut self.handle, &mut self.inner);
    }

    /// By what the endpoint knows the connection, if it still does: not any more.
    pub(super) fn leave(&mut self) -> Option<ConnectionHandle> {
        self.handle.take()
    }
}

/// Carries messages between a connection and the endpoint that knows it by `handle`.
fn carry(
    endpoint: &mut Endpoint,
    handle: &mut Option<ConnectionHandle>,
    connection: &mut quinn_proto::Connection,
) {
    while let (Some(known), Some(event)) = (*handle, connection.poll_endpoint_events()) {
        if event.is_drained() {
            *handle = None;
        }
        if let Some(event) = endpoint.handle_event(known, event) {
            connection.handle_event(event);
        }
    }
}

/// The next datagram of those that a socket received at once.
pub(super) fn next_datagram(batch: &mut BytesMut, segment_size: usize) -> Option<BytesMut> {
    if batch.is_empty() {
        return None;
    }
    let length = if segment_size == 0 {
        batch.len()
    } else {
        segment_size.min(batch.len())
    };
    Some(batch.split_to(length))
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("remote", &self.inner.remote_address())
            .field("handshaking", &self.is_handshaking())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
