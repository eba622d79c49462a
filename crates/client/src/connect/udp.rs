//! One attempt to connect over QUIC.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use quinn_udp::UdpSocketState;
use trilane_transport::quic::H3Session;
use trilane_wire::h3;

use super::Step;
use crate::connection::Ready;
use crate::link::{Link, QuicLink, Socket, Turn};
use crate::slots::Slots;
use crate::{ConnectOptions, Error, Kind};

/// Room for what a burst of responses brings, in bytes, as far as the system grants it.
const SOCKET_BUFFER: usize = 4 << 20;
/// Reads of one step.
const READS: usize = 16;

/// One attempt to connect over QUIC.
pub(super) struct UdpAttempt {
    /// Taken when the attempt is ready.
    parts: Option<(Socket, QuicLink, Slots)>,
    peer: SocketAddr,
    local: Option<SocketAddr>,
}

impl UdpAttempt {
    pub(super) fn open(peer: SocketAddr, options: &ConnectOptions) -> Result<Self, Error> {
        let failed = |error: std::io::Error| {
            Error::new(Kind::Connect, format!("no UDP socket for {peer}: {error}"))
        };
        let any: SocketAddr = match (options.source, peer) {
            (Some(source), _) => source,
            (None, SocketAddr::V4(_)) => ([0, 0, 0, 0], 0).into(),
            (None, SocketAddr::V6(_)) => ([0u16; 8], 0).into(),
        };
        let socket = UdpSocket::bind(any).map_err(failed)?;
        socket.connect(peer).map_err(failed)?;
        let local = socket.local_addr().ok();
        let state = UdpSocketState::new((&socket).into()).map_err(failed)?;
        // What the system grants is less, perhaps; QUIC sends again what is dropped.
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
        let Some(tls) = &options.tls else {
            return Err(Error::new(Kind::Local, "HTTP/3 needs https"));
        };
        let name = options.server_name.as_ref().unwrap_or(&options.host);
        let name = name.trim_matches(['[', ']']);
        let config = tls.quic()?;
        let session =
            H3Session::connect(&config, h3::Config::default(), peer, name, Instant::now())
                .map_err(|error| crate::link::quic_failure(&error))?;
        let parts = (
            Socket::Datagram(socket, state),
            QuicLink::new(session, peer),
            Slots::default(),
        );
        Ok(Self {
            parts: Some(parts),
            peer,
            local,
        })
    }

    pub(super) fn step(&mut self) -> Step {
        let Some((socket, link, slots)) = &mut self.parts else {
            return Step::Pending;
        };
        if let Some(due) = link.timeout() {
            let now = Instant::now();
            if due <= now
                && let Turn::Over(error) = link.handle_timeout(now, slots)
            {
                return Step::Failed(self.about(error));
            }
        }
        link.flush(socket, slots);
        for _ in 0..READS {
            match link.read(socket, slots) {
                Turn::More => (),
                Turn::Drained => break,
                Turn::Over(error) => return Step::Failed(self.about(error)),
            }
        }
        link.flush(socket, slots);
        if !link.is_connected() {
            return Step::Pending;
        }
        let Some((socket, link, slots)) = self.parts.take() else {
            return Step::Pending;
        };
        Step::Ready(Box::new(Ready {
            tls: link.tls(),
            socket,
            link: Link::Quic(Box::new(link)),
            slots,
            peer: Some(self.peer),
            local: self.local,
        }))
    }

    fn about(&self, error: Error) -> Error {
        Error {
            message: format!("{} over UDP: {}", self.peer, error.message),
            ..error
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.parts.as_ref().and_then(|(socket, ..)| socket.fd())
    }

    pub(super) fn wants_write(&self) -> bool {
        self.parts
            .as_ref()
            .is_some_and(|(_, link, _)| link.has_unsent())
    }

    pub(super) fn timeout(&mut self) -> Option<Instant> {
        self.parts.as_mut().and_then(|(_, link, _)| link.timeout())
    }
}
