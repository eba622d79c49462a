//! What a worker asks of the system, in one place. A socket belongs to a place of the worker's: it is
//! opened, sent on and closed there, and what becomes of it is told as completions: a read is done
//! when it is told. So the same worker runs on epoll, or on peers that are scripted, in virtual time.

mod epoll;
mod socket;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use rustix::io::Errno;
use trilane_connection::{Batch, Over, Quic, Stream};
use trilane_socket::stream::{Flushed, Options};
use trilane_socket::{Moved, Unmade};

use crate::route::Address;
use crate::sys::TcpInfo;

/// The system for so many places.
pub(crate) fn open(places: usize) -> Result<Box<dyn System>, String> {
    match epoll::Epoll::new(places) {
        Ok(epoll) => Ok(Box::new(epoll)),
        Err(error) => Err(format!("epoll is not available: {error}")),
    }
}

/// What has happened on a socket.
#[derive(Debug)]
pub(crate) enum Completion {
    /// TCP: the connection is there, or why it is not.
    Connected(Result<(), Errno>),
    /// A socket that was full takes more.
    Room,
    /// TCP: so many bytes have come; see [`System::received`].
    Received(usize),
    /// TCP: so many bytes have come and were thrown away; see [`System::discard`].
    Discarded(usize),
    /// TCP: the peer has ended its direction.
    End,
    /// TCP: the socket has failed.
    Failed(Errno),
    /// UDP: datagrams have come; see [`System::datagrams`].
    Datagrams,
    /// UDP: nobody listens at the other end.
    Unreachable,
    /// UDP: the socket has failed.
    NoDatagrams(io::Error),
}

/// The system calls of one worker. A `place` is the number of one of its places for a connection; each
/// has one socket at most.
pub(crate) trait System: fmt::Debug {
    /// The time.
    fn now(&self) -> Instant;

    /// Begins a connection over a byte stream; [`Completion::Connected`] follows.
    fn open_stream(
        &mut self,
        place: u32,
        peer: &Address,
        options: Options<'_>,
    ) -> Result<(), Unmade>;

    /// Makes a UDP socket that is connected to `peer`.
    fn open_datagrams(
        &mut self,
        place: u32,
        peer: SocketAddr,
        source: Option<SocketAddr>,
    ) -> Result<(), Unmade>;

    /// Sends what the connection has to send. Where the socket is full [`Completion::Room`] follows.
    fn send(
        &mut self,
        place: u32,
        connection: &mut Stream,
        moved: &mut Moved,
    ) -> Result<Flushed, Over>;

    /// Sends the datagrams that are due. True where nobody listens at the other end. Where the socket
    /// is full [`Completion::Room`] follows.
    fn send_datagrams(
        &mut self,
        place: u32,
        connection: &mut Quic,
        now: Instant,
        moved: &mut Moved,
    ) -> bool;

    /// Whether what the peer sends is left in the socket.
    fn hold(&mut self, place: u32, held: bool);

    /// Has the next `bytes` that come from the peer thrown away, where the system can.
    fn discard(&mut self, place: u32, bytes: u64);

    /// Closes the socket of a place, if it has one. With last words, of which these have not gone yet,
    /// it stays for a moment, so that the peer can read them.
    fn close(&mut self, place: u32, last_words: Option<Vec<u8>>);

    /// Waits until something has happened or the time is `until`.
    fn poll(&mut self, until: Instant) -> io::Result<()>;

    /// The next of what has happened, until there is no more: then it is time to poll.
    fn next(&mut self, moved: &mut Moved) -> Option<(u32, Completion)>;

    /// The next of the datagrams that the last completion told of, until there are no more.
    fn datagrams(&mut self) -> Option<Batch>;

    /// The bytes that the last completion told of, behind [`trilane_connection::HEADROOM`] bytes. They are there until
    /// the next.
    fn received(&mut self) -> &mut [u8];

    /// Waits until peers have read last words, or will not.
    fn finish(&mut self);

    /// Our end's address, where the socket of a place has one.
    fn local_address(&self, place: u32) -> Option<SocketAddr>;

    /// What the kernel has counted on a TCP connection.
    fn tcp_info(&self, place: u32) -> Option<TcpInfo>;

    /// Bytes that were sent on a TCP connection and that its other end has not acknowledged.
    fn unacknowledged(&self, place: u32) -> Option<u64>;

    /// The congestion control of a TCP connection.
    fn congestion_control(&self, place: u32) -> Option<String>;

    /// Datagrams that the kernel has dropped because a UDP socket was full.
    fn dropped_datagrams(&self, place: u32) -> Option<u32>;
}
