//! The UDP sockets that the HTTP/3 connections of a worker share, and whose each datagram is.
//!
//! There is one for each address that connections go to, and each that they come from, connected like those of
//! single connections: the kernel tells of a closed port then. Their places are behind those of connections.

use std::net::SocketAddr;
use std::time::Instant;

use trilane_connection::{Batch, Quic, QuicConfig};
use trilane_transport::quic::{Endpoint, Error, Routed};

use crate::context::{Gone, unmade};
use crate::io::System;
use crate::plan::{Plan, Transport};
use crate::route::Address;

/// How many sockets connections share at most that go to these addresses of each origin.
pub(crate) fn sockets(plan: &Plan, addresses: &[Vec<Address>]) -> usize {
    if !plan.quic_shared_socket {
        return 0;
    }
    let origins = plan.origins.iter().zip(addresses);
    origins
        .map(|(origin, addresses)| addresses.len() * origin.route.sources.len().max(1))
        .sum()
}

/// The shared sockets of one worker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) endpoint: Endpoint,
    /// By the number of a connection, the place that it is in.
    places: Vec<u32>,
    sockets: Vec<Socket>,
    /// The place of the first socket.
    first: u32,
    /// Places that have been handed datagrams and have not looked at them.
    pub(crate) handed: Vec<u32>,
    /// Places that have looked at datagrams and have not answered.
    pub(crate) unanswered: Vec<u32>,
}

#[derive(Debug)]
struct Socket {
    peer: SocketAddr,
    source: Option<SocketAddr>,
    is_open: bool,
    /// Datagrams that the kernel has dropped, as far as they have been counted.
    drops: u32,
}

impl Shared {
    /// For connections in so many places, where the plan has them share sockets.
    pub(crate) fn new(plan: &Plan, places: usize) -> Option<Box<Self>> {
        // What they share has nothing to do with the origin.
        let Transport::Quic(config) = &plan.origins.first()?.transport else {
            return None;
        };
        plan.quic_shared_socket.then(|| {
            Box::new(Self {
                endpoint: Endpoint::new(&config.quic),
                places: Vec::with_capacity(places),
                sockets: Vec::new(),
                first: places as u32,
                handed: Vec::with_capacity(places),
                unanswered: Vec::with_capacity(places),
            })
        })
    }

    /// Begins a connection in a place; says where the socket is that it shares.
    pub(crate) fn connect(
        &mut self,
        place: u32,
        peer: SocketAddr,
        source: Option<SocketAddr>,
        config: &QuicConfig,
        now: Instant,
        system: &mut dyn System,
    ) -> Result<(u32, Result<Quic, Error>), Gone> {
        let mut known = self.sockets.iter();
        let known = known.position(|socket| (socket.peer, socket.source) == (peer, source));
        let at = known.unwrap_or_else(|| {
            self.sockets.push(Socket {
                peer,
                source,
                is_open: false,
                drops: 0,
            });
            self.sockets.len() - 1
        });
        let at_place = self.first + at as u32;
        let socket = &mut self.sockets[at];
        if !socket.is_open {
            let opened = system.open_datagrams(at_place, peer, source);
            opened.map_err(|failed| unmade(failed, source))?;
            (socket.is_open, socket.drops) = (true, 0);
        }
        let quic = Quic::sharing(config, &mut self.endpoint, peer, now);
        if let Ok(quic) = &quic {
            let number = quic.quic().number();
            if self.places.len() <= number {
                self.places.resize(number + 1, place);
            }
            self.places[number] = place;
        }
        Ok((at_place, quic))
    }

    /// Whether a socket that connections share is at this place.
    pub(crate) fn is_at(&self, place: u32) -> bool {
        place >= self.first
    }

    /// Hands the datagrams that a socket received to the places of their connections.
    pub(crate) fn receive(
        &mut self,
        socket: u32,
        now: Instant,
        batch: Batch,
        mut deliver: impl FnMut(u32, Routed),
    ) {
        let Some(known) = self.sockets.get((socket - self.first) as usize) else {
            return;
        };
        let Batch {
            bytes,
            segment_size,
            ecn,
        } = batch;
        let places = &self.places;
        self.endpoint.receive(
            now,
            known.peer,
            ecn,
            bytes,
            segment_size,
            |number, datagram| {
                deliver(places[number], datagram);
            },
        );
    }

    /// Datagrams that the kernel has dropped since the last call, as the socket was full.
    pub(crate) fn dropped(&mut self, socket: u32, system: &dyn System) -> u32 {
        let known = self.sockets.get_mut((socket - self.first) as usize);
        let (Some(known), Some(drops)) = (known, system.dropped_datagrams(socket)) else {
            return 0;
        };
        drops.wrapping_sub(std::mem::replace(&mut known.drops, drops))
    }

    /// A socket has failed: the next connection opens it anew.
    pub(crate) fn close(&mut self, socket: u32, system: &mut dyn System) {
        if let Some(known) = self.sockets.get_mut((socket - self.first) as usize) {
            known.is_open = false;
            system.close(socket, None);
        }
    }
}
