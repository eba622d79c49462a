//! UDP sockets, connected to their peers, so that the kernel tells when nobody listens at the other end.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use trilane_connection::{Batch, Quic, Taken};
use trilane_transport::quic::{ReceiveBuffer, Transmit};

use crate::{Moved, Unmade};

/// Datagrams of one send: 65,507 bytes are what UDP carries in one call, 1452 what the largest
/// datagram has (`quic::Options::mtu_discovery`). The kernel refuses more as a whole.
const MOST_SEGMENTS: usize = 65_507 / 1452;
/// Room for what a burst of responses brings, in bytes, as far as the system grants it.
const SOCKET_BUFFER: usize = 4 << 20;

/// A UDP socket.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    peer: SocketAddr,
}

/// Batches of datagrams that one read takes. A server sends a large body in many of them.
const BATCHES: usize = 4;

/// Where datagrams are received.
#[derive(Debug, Default)]
pub struct Inbox {
    buffers: [ReceiveBuffer; BATCHES],
    batches: [Option<Batch>; BATCHES],
}

impl Inbox {
    /// Takes the batches of the last read, in their order.
    pub fn take(&mut self) -> impl Iterator<Item = Batch> {
        self.batches.iter_mut().filter_map(Option::take)
    }
}

/// How a read ended.
#[derive(Debug)]
pub enum Received {
    /// Datagrams are there: [`Inbox::take`].
    Datagrams {
        /// Whether the socket may have more: what came after this read wakes who waits for it.
        more: bool,
    },
    /// The socket has no more now.
    Nothing,
    /// Nobody listens at the other end.
    Unreachable,
    /// The socket has failed.
    Failed(std::io::Error),
}

impl Socket {
    /// A socket that is connected to `peer`, from `source` where that is given.
    pub fn connect(peer: SocketAddr, source: Option<SocketAddr>) -> Result<Self, Unmade> {
        let failed = |what: &str| {
            let what = format!("{what} for {peer}");
            move |error| Unmade { what, error }
        };
        let any = match (source, peer) {
            (Some(source), _) => source,
            (None, SocketAddr::V4(_)) => ([0, 0, 0, 0], 0).into(),
            (None, SocketAddr::V6(_)) => ([0u16; 8], 0).into(),
        };
        let socket = UdpSocket::bind(any).map_err(failed("no UDP socket"))?;
        socket.connect(peer).map_err(failed("no route"))?;
        let state = UdpSocketState::new((&socket).into()).map_err(failed("no UDP socket"))?;
        // What the system grants is less, perhaps; QUIC sends again what is dropped, and the engine
        // counts and judges drops.
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
        Ok(Self {
            socket,
            state,
            peer,
        })
    }

    /// Our end's address.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Sends what `quic` has to send, as far as the socket takes it. True where the kernel told that
    /// nobody listens: tell the connection so.
    pub fn flush(
        &self,
        quic: &mut Quic,
        now: Instant,
        scratch: &mut Vec<u8>,
        moved: &mut Moved,
    ) -> bool {
        let segments = self.state.max_gso_segments().min(MOST_SEGMENTS);
        quic.transmit(now, segments, scratch, |bytes, shape| {
            moved.calls += 1;
            let taken = self.send(bytes, shape);
            if taken == Taken::Sent {
                moved.bytes += bytes.len() as u64;
            }
            taken
        })
    }

    /// Sends datagrams. A batch that the socket refuses for another reason than a full buffer is as good
    /// as lost on the way: QUIC sends its content again.
    pub fn send(&self, bytes: &[u8], shape: Transmit) -> Taken {
        let sent = self.state.try_send(
            (&self.socket).into(),
            &quinn_udp::Transmit {
                destination: self.peer,
                ecn: EcnCodepoint::from_bits(shape.ecn),
                contents: bytes,
                segment_size: (shape.segment_size < bytes.len()).then_some(shape.segment_size),
                src_ip: None,
            },
        );
        match sent {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Taken::Full,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Taken::Unreachable,
            _ => Taken::Sent,
        }
    }

    /// Reads once: up to four batches. The inbox must have been emptied.
    pub fn receive(&self, inbox: &mut Inbox, moved: &mut Moved) -> Received {
        let mut meta = [RecvMeta::default(); BATCHES];
        loop {
            let mut spaces = inbox
                .buffers
                .each_mut()
                .map(|buffer| IoSliceMut::new(buffer.space()));
            moved.calls += 1;
            let received = self
                .state
                .recv((&self.socket).into(), &mut spaces, &mut meta);
            return match received {
                Ok(count) => {
                    let batches = inbox.batches.iter_mut().zip(&mut inbox.buffers);
                    for ((batch, buffer), meta) in batches.zip(&meta[..count]) {
                        moved.bytes += meta.len as u64;
                        *batch = Some(Batch {
                            bytes: buffer.take(meta.len),
                            segment_size: meta.stride,
                            ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
                        });
                    }
                    // One that was not filled has emptied the socket. Where an error ended it instead, the
                    // next send or read tells of it.
                    let more = count == BATCHES;
                    Received::Datagrams { more }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => Received::Nothing,
                    ErrorKind::ConnectionRefused => Received::Unreachable,
                    ErrorKind::Interrupted => continue,
                    _ => Received::Failed(error),
                },
            };
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
