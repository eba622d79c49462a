//! A connection over QUIC, on a UDP socket of its own that is connected to the peer.

use std::cell::RefCell;
use std::io::{ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::time::Instant;

use quinn_udp::{EcnCodepoint, RecvMeta};
use trilane_transport::quic::{self, H3Session, ReceiveBuffer};
use trilane_wire::{FieldList, Refused, Request, StreamId, Upload};

use super::{Socket, Turn};
use crate::slots::{Sink, Slots};
use crate::{Error, Kind, Version};

/// Datagrams of one send: 65,507 bytes are what UDP carries in one call, 1452 what the largest
/// datagram has (`quic::Options::mtu_discovery`). The kernel refuses more as a whole.
const MOST_SEGMENTS: usize = 65_507 / 1452;
/// Content of requests is handed to QUIC in pieces of this size.
const UPLOAD_PIECE: usize = 64 * 1024;

thread_local! {
    /// Where a thread receives, for all of its connections.
    static RECEIVED: RefCell<ReceiveBuffer> = RefCell::new(ReceiveBuffer::new());
    /// Where a thread puts datagrams together.
    static SENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The state of a connection on QUIC.
#[derive(Debug)]
pub(crate) struct QuicLink {
    session: H3Session,
    peer: SocketAddr,
    /// A batch that the socket did not take, with its shape.
    unsent: Option<(Vec<u8>, quic::Transmit)>,
    /// Whether something was done that may have left datagrams to send.
    dirty: bool,
    /// Bytes of field sections and content handed to QUIC since the last flush, or more.
    gathered: usize,
    /// Whether the loss of the connection has been told.
    over: bool,
}

impl QuicLink {
    /// A connection of which the handshake has begun.
    pub(crate) fn new(session: H3Session, peer: SocketAddr) -> Self {
        Self {
            session,
            peer,
            unsent: None,
            dirty: true,
            gathered: 0,
            over: false,
        }
    }

    /// Whether the handshake is done.
    pub(crate) fn is_connected(&self) -> bool {
        self.session.is_connected()
    }

    pub(crate) fn version(&self) -> Version {
        Version::H3
    }

    pub(crate) fn capacity(&self) -> usize {
        self.session.capacity()
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.session.outstanding()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.session.is_closing()
    }

    pub(crate) fn submit(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        self.dirty = true;
        self.gathered += request.decoded_bytes() + request.body().len();
        self.session.send(request, slot)
    }

    pub(crate) fn cancel(&mut self, stream: StreamId) -> bool {
        self.dirty = true;
        self.session.cancel(stream);
        true
    }

    pub(crate) fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.dirty = true;
        let mut taken = 0;
        for piece in bytes.chunks(UPLOAD_PIECE) {
            let length = self.session.write(stream, piece);
            taken += length;
            if length < piece.len() {
                break;
            }
        }
        taken
    }

    pub(crate) fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> bool {
        self.dirty = true;
        self.session.finish(stream, trailers).is_ok()
    }

    pub(crate) fn upload(&self, stream: StreamId) -> Upload {
        self.session.upload(stream)
    }

    pub(crate) fn pause(&mut self, stream: StreamId) {
        self.session.pause(stream);
    }

    pub(crate) fn resume(&mut self, stream: StreamId, slots: &mut Slots) {
        self.dirty = true;
        self.session
            .resume(Instant::now(), stream, &mut Sink(slots));
    }

    pub(crate) fn may_read(&self) -> bool {
        true
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent.is_some() || self.dirty
    }

    pub(crate) fn gathered(&self) -> usize {
        self.gathered
    }

    pub(crate) fn has_room(&self) -> bool {
        self.unsent.is_none()
    }

    pub(crate) fn timeout(&mut self) -> Option<Instant> {
        self.session.timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, slots: &mut Slots) -> Turn {
        self.dirty = true;
        self.session.handle_timeout(now, &mut Sink(slots));
        self.turn(Turn::Drained)
    }

    /// `otherwise`, unless the connection has ended.
    fn turn(&mut self, otherwise: Turn) -> Turn {
        if self.over {
            return Turn::Drained;
        }
        match self.session.error() {
            None => otherwise,
            Some(error) => {
                self.over = true;
                Turn::Over(failure(error))
            }
        }
    }

    /// Sends every datagram that is due, in batches by segmentation offload.
    pub(crate) fn flush(&mut self, socket: &Socket, slots: &mut Slots) {
        let Socket::Datagram(_, state) = socket else {
            return;
        };
        if let Some((bytes, shape)) = self.unsent.take()
            && !self.send(&bytes, shape, socket, slots)
        {
            self.unsent = Some((bytes, shape));
            return;
        }
        self.dirty = false;
        self.gathered = 0;
        let segments = state.max_gso_segments().min(MOST_SEGMENTS);
        let now = Instant::now();
        SENT.with_borrow_mut(|out| {
            while let Some(shape) = self.session.transmit(now, segments, out) {
                if !self.send(&out[..shape.len], shape, socket, slots) {
                    self.unsent = Some((out[..shape.len].to_vec(), shape));
                    break;
                }
            }
        });
    }

    /// Whether the socket took the batch. One that it refuses for another reason than a full buffer
    /// is as good as lost on the way: QUIC sends its content again.
    fn send(
        &mut self,
        bytes: &[u8],
        shape: quic::Transmit,
        socket: &Socket,
        slots: &mut Slots,
    ) -> bool {
        let Socket::Datagram(socket, state) = socket else {
            return true;
        };
        let sent = state.try_send(
            socket.into(),
            &quinn_udp::Transmit {
                destination: self.peer,
                ecn: EcnCodepoint::from_bits(shape.ecn),
                contents: bytes,
                segment_size: (shape.segment_size < bytes.len()).then_some(shape.segment_size),
                src_ip: None,
            },
        );
        match sent {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            // The kernel tells a closed port once, to whichever call comes next.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.session.unreachable(Instant::now(), &mut Sink(slots));
            }
            _ => (),
        }
        true
    }

    pub(crate) fn read(&mut self, socket: &Socket, slots: &mut Slots) -> Turn {
        let Socket::Datagram(socket, state) = socket else {
            return Turn::Drained;
        };
        RECEIVED.with_borrow_mut(|buffer| {
            let mut meta = [RecvMeta::default()];
            let received = {
                let mut space = [IoSliceMut::new(buffer.space())];
                state.recv(socket.into(), &mut space, &mut meta)
            };
            match received {
                Ok(_) => {
                    let [meta] = meta;
                    let batch = buffer.take(meta.len);
                    let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
                    self.dirty = true;
                    self.session.receive(
                        Instant::now(),
                        self.peer,
                        ecn,
                        batch,
                        meta.stride,
                        &mut Sink(slots),
                    );
                    self.turn(Turn::More)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.turn(Turn::Drained),
                Err(error) if error.kind() == ErrorKind::Interrupted => Turn::More,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    self.session.unreachable(Instant::now(), &mut Sink(slots));
                    self.turn(Turn::More)
                }
                Err(error) => {
                    self.over = true;
                    let message = format!("receiving from {} over UDP failed: {error}", self.peer);
                    Turn::Over(Error::new(Kind::Closed, message))
                }
            }
        })
    }

    pub(crate) fn close(&mut self, socket: &Socket) {
        self.over = true;
        self.session.close(Instant::now());
        self.flush(socket, &mut Slots::default());
        self.dirty = false;
    }

    pub(crate) fn settings(&self) -> Vec<(&'static str, u64)> {
        let Some(peer) = self.session.h3().map(|h3| h3.peer_settings()) else {
            return Vec::new();
        };
        if !peer.received {
            return Vec::new();
        }
        let mut known = vec![
            ("qpack_max_table_capacity", peer.qpack_max_table_capacity),
            ("qpack_blocked_streams", peer.qpack_blocked_streams),
        ];
        known.extend(
            peer.max_field_section_size
                .map(|value| ("max_field_section_size", value)),
        );
        known
    }

    /// The agreement of TLS, with the server's certificates.
    pub(crate) fn tls(&self) -> Option<crate::TlsInfo> {
        let quic = self.session.quic();
        let mut info = crate::TlsInfo::from(quic.tls()?);
        info.certificates = quic.certificates();
        Some(info)
    }
}

pub(crate) fn failure(error: &quic::Error) -> Error {
    let kind = match error.kind {
        quic::ErrorKind::Options => Kind::Connect,
        quic::ErrorKind::HandshakeTimeout => Kind::ConnectTimeout,
        quic::ErrorKind::Refused => Kind::Refused,
        quic::ErrorKind::Tls => return crate::tls::failure(&error.reason),
        quic::ErrorKind::Version => Kind::Version,
        quic::ErrorKind::IdleTimeout | quic::ErrorKind::Closed => Kind::Closed,
        quic::ErrorKind::Reset => Kind::Reset,
        quic::ErrorKind::Protocol => Kind::Protocol,
        quic::ErrorKind::Limit => Kind::Limit,
    };
    Error {
        code: error.code,
        ..Error::new(kind, error.to_string())
    }
}
