//! Connections that share a UDP socket: which of them a datagram is for.

use std::fmt;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointEvent};

use super::connection::next_datagram;
use super::{Config, Connection, Error};

/// What the connections on one socket, or on several, share: their connection ids, by which datagrams find
/// them (RFC 9000 §5.2).
///
/// The turn of a connection here: [`Self::receive`] hands out its datagrams, which
/// [`Connection::take`] takes; [`Self::settle`] comes before each `transmit`; and when it goes,
/// [`Self::forget`] frees what it had.
pub struct Endpoint {
    inner: quinn_proto::Endpoint,
    /// What quinn-proto would answer by itself: nothing that a client sends.
    unsent: Vec<u8>,
}

/// A datagram that is for one connection.
#[derive(Debug)]
pub struct Routed(pub(super) ConnectionEvent);

impl Endpoint {
    /// Without connections.
    pub fn new(config: &Config) -> Self {
        Self {
            inner: config.new_endpoint(),
            unsent: Vec::new(),
        }
    }

    /// As [`Connection::connect`], a connection whose [`Connection::number`] no other has until it is forgotten.
    pub fn connect(
        &mut self,
        config: &Config,
        remote: SocketAddr,
        server_name: &str,
        now: Instant,
    ) -> Result<Connection, Error> {
        Connection::begin(config, &mut self.inner, remote, server_name, now)
    }

    /// Takes what a socket received from `remote` at once: datagrams of `segment_size` bytes, the last one
    /// possibly shorter, with the ECN bits `ecn`. Those of known connections are handed to `deliver` with the
    /// connection's number; others are dropped, as those are that come late for a connection that has gone.
    pub fn receive(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        ecn: u8,
        mut batch: BytesMut,
        segment_size: usize,
        mut deliver: impl FnMut(usize, Routed),
    ) {
        let ecn = EcnCodepoint::from_bits(ecn);
        while let Some(datagram) = next_datagram(&mut batch, segment_size) {
            self.unsent.clear();
            let (inner, unsent) = (&mut self.inner, &mut self.unsent);
            let event = inner.handle(now, remote, None, ecn, datagram, unsent);
            if let Some(DatagramEvent::ConnectionEvent(ConnectionHandle(number), event)) = event {
                deliver(number, Routed(event));
            }
        }
    }

    /// Carries messages between a connection and the ids: new ones, mostly.
    pub fn settle(&mut self, connection: &mut Connection) {
        connection.settle_with(&mut self.inner);
    }

    /// The connection is over, or given up: its ids are nobody's, and its number is free.
    pub fn forget(&mut self, connection: &mut Connection) {
        self.settle(connection);
        if let Some(handle) = connection.leave() {
            self.inner.handle_event(handle, EndpointEvent::drained());
        }
    }

    /// Connections that have not been forgotten.
    pub fn connections(&self) -> usize {
        self.inner.open_connections()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}
