//! One attempt to connect over QUIC.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use trilane_connection::{Quic, QuicConfig};
use trilane_socket::{Unmade, udp};
use trilane_wire::h3;

use super::{Step, qlog};
use crate::connection::Ready;
use crate::link::{self, Link, Socket, Turn};
use crate::slots::Slots;
use crate::{ConnectOptions, Error, Facts, Kind, Setup};

/// Reads of one step.
const READS: usize = 16;

/// One attempt to connect over QUIC.
pub(super) struct UdpAttempt {
    /// Taken when the attempt is ready.
    parts: Option<(Socket, Link, Slots)>,
    peer: SocketAddr,
    local: Option<SocketAddr>,
    began: Instant,
}

impl UdpAttempt {
    pub(super) fn open(
        peer: SocketAddr,
        options: &ConnectOptions,
        began: Instant,
    ) -> Result<Self, Error> {
        let Some(tls) = &options.tls else {
            return Err(Error::new(Kind::Local, "HTTP/3 needs https"));
        };
        let socket =
            udp::Socket::connect(peer, options.source).map_err(|Unmade { what, error }| {
                Error::new(Kind::Connect, format!("{what}: {error}"))
            })?;
        let name = options.server_name.as_ref().unwrap_or(&options.host);
        let config = QuicConfig {
            quic: qlog::logged(tls.quic()?, &format!("{name} at {peer}"))?,
            h3: h3::Config::default(),
            server_name: name.trim_matches(['[', ']']).to_owned(),
        };
        let quic =
            Quic::new(&config, peer, Instant::now()).map_err(|error| link::quic_failure(&error))?;
        let local = socket.local_address();
        let parts = (
            Socket::Datagram(socket),
            Link::Quic(Box::new(quic)),
            Slots::default(),
        );
        Ok(Self {
            parts: Some(parts),
            peer,
            local,
            began,
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
        if !matches!(link, Link::Quic(quic) if quic.is_connected()) {
            return Step::Pending;
        }
        let Some((socket, link, slots)) = self.parts.take() else {
            return Step::Pending;
        };
        Step::Ready(Box::new(Ready {
            facts: Facts {
                peer: Some(self.peer),
                local: self.local,
                tls: link.tls(),
                setup: Setup {
                    quic: Some(self.began.elapsed()),
                    ..Setup::default()
                },
            },
            socket,
            link,
            slots,
            proxy_fields: None,
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
