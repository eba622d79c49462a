//! What carries a connection: a byte stream with or without TLS, or QUIC.

mod codec;
mod quic;
mod stream;

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use quinn_udp::UdpSocketState;
use trilane_wire::{FieldList, Refused, Request, StreamId, Upload};

pub(crate) use codec::Codec;
pub(crate) use quic::{QuicLink, failure as quic_failure};
pub(crate) use stream::StreamLink;

use crate::slots::Slots;
use crate::{Error, Version};

/// The file descriptor, which outlives every wait for it.
#[derive(Debug)]
pub(crate) enum Socket {
    Stream(OwnedFd),
    Datagram(UdpSocket, UdpSocketState),
    /// The caller carries the bytes.
    Memory,
}

impl Socket {
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Socket::Stream(fd) => Some(fd.as_fd()),
            Socket::Datagram(socket, _) => Some(socket.as_fd()),
            Socket::Memory => None,
        }
    }

    pub(crate) fn raw(&self) -> Option<RawFd> {
        self.fd().map(|fd| fd.as_raw_fd())
    }
}

/// How a turn of reading ended.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The socket has no more now.
    Drained,
    /// There may be more.
    More,
    /// The connection is over; what was outstanding has been told.
    Over(Error),
}

/// The state machine of one connection.
#[derive(Debug)]
pub(crate) enum Link {
    Stream(Box<StreamLink>),
    Quic(Box<QuicLink>),
}

/// Calls the same method of whichever link it is.
macro_rules! each {
    ($link:expr, $name:ident => $call:expr) => {
        match $link {
            Link::Stream($name) => $call,
            Link::Quic($name) => $call,
        }
    };
}

impl Link {
    pub(crate) fn version(&self) -> Version {
        each!(self, link => link.version())
    }

    /// How many more requests it takes now.
    pub(crate) fn capacity(&self) -> usize {
        each!(self, link => link.capacity())
    }

    /// Requests sent and not yet ended.
    pub(crate) fn outstanding(&self) -> usize {
        each!(self, link => link.outstanding())
    }

    /// Whether it takes no more requests, now or later.
    pub(crate) fn is_closing(&self) -> bool {
        each!(self, link => link.is_closing())
    }

    pub(crate) fn submit(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        each!(self, link => link.submit(request, slot))
    }

    /// Resets one request. False where its version has no way to: the connection has to go.
    pub(crate) fn cancel(&mut self, stream: StreamId) -> bool {
        each!(self, link => link.cancel(stream))
    }

    /// Takes content of a request, as much as may be sent now.
    pub(crate) fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        each!(self, link => link.write(stream, bytes))
    }

    /// Ends the content of a request. False where less than announced was written.
    pub(crate) fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> bool {
        each!(self, link => link.finish(stream, trailers))
    }

    /// Whether the peer still takes content of a request.
    pub(crate) fn upload(&self, stream: StreamId) -> Upload {
        each!(self, link => link.upload(stream))
    }

    /// Stops the peer from sending more of one response than it has been granted.
    pub(crate) fn pause(&mut self, stream: StreamId) {
        each!(self, link => link.pause(stream));
    }

    /// Lets it send again.
    pub(crate) fn resume(&mut self, stream: StreamId, slots: &mut Slots) {
        each!(self, link => link.resume(stream, slots));
    }

    /// Whether reading makes sense: an HTTP/1.1 response that nobody takes is left in the socket.
    pub(crate) fn may_read(&self) -> bool {
        each!(self, link => link.may_read())
    }

    /// Writes what there is as far as the socket takes it.
    pub(crate) fn flush(&mut self, socket: &Socket, slots: &mut Slots) {
        each!(self, link => link.flush(socket, slots));
    }

    /// Whether something is left that the socket did not take.
    pub(crate) fn has_unsent(&self) -> bool {
        each!(self, link => link.has_unsent())
    }

    /// Bytes of requests that wait to leave.
    pub(crate) fn gathered(&self) -> usize {
        match self {
            Link::Stream(link) => link.gathered(),
            Link::Quic(link) => link.gathered(),
        }
    }

    /// Whether more content may be handed over without filling memory.
    pub(crate) fn has_room(&self) -> bool {
        each!(self, link => link.has_room())
    }

    /// Reads once.
    pub(crate) fn read(&mut self, socket: &Socket, slots: &mut Slots) -> Turn {
        each!(self, link => link.read(socket, slots))
    }

    /// When [`Self::handle_timeout`] has to be called, whatever else happens.
    pub(crate) fn timeout(&mut self) -> Option<Instant> {
        match self {
            Link::Stream(_) => None,
            Link::Quic(link) => link.timeout(),
        }
    }

    /// The time of [`Self::timeout`] has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant, slots: &mut Slots) -> Turn {
        match self {
            Link::Stream(_) => Turn::Drained,
            Link::Quic(link) => link.handle_timeout(now, slots),
        }
    }

    /// Says goodbye; nothing more is sent or reported.
    pub(crate) fn close(&mut self, socket: &Socket) {
        each!(self, link => link.close(socket));
    }

    /// The peer's limits, as far as they are known.
    pub(crate) fn settings(&self) -> Vec<(&'static str, u64)> {
        each!(self, link => link.settings())
    }
}
