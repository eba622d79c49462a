//! A connection with its socket: reading, writing, and what its end means to a caller.

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use trilane_connection::{HEADROOM, Over, Quic, Stream};
use trilane_socket::stream::Flushed;
use trilane_socket::{Moved, stream, udp};
use trilane_transport::quic;
use trilane_wire::{ConnectionError, FieldList, Refused, Request, StreamId, Unprocessed, Upload};

use crate::slots::{self, Sink, Slots};
use crate::{Error, Kind, TlsInfo, Version, keeper};

/// What one read of a byte stream takes at most, in bytes.
const BUFFER: usize = 128 * 1024;
/// Content of requests is not handed over while more than this waits for the socket, in bytes.
const OUT_LIMIT: usize = 256 * 1024;

thread_local! {
    /// Where a thread receives bytes, for all of its connections.
    static BYTES: RefCell<Box<[u8]>> = RefCell::new(vec![0; HEADROOM + BUFFER].into_boxed_slice());
    /// Where a thread receives datagrams, for all of its connections.
    static DATAGRAMS: RefCell<udp::Inbox> = RefCell::new(udp::Inbox::default());
    /// Where a thread puts datagrams together.
    static SENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The file descriptor. It outlives every wait for it, by the [`Descriptors`] that who waits holds.
#[derive(Debug)]
pub(crate) enum Socket {
    Stream(OwnedFd),
    Datagram(udp::Socket),
    /// The caller carries the bytes, or nobody any more.
    None,
}

/// What a connection has open in this process.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub(crate) socket: Socket,
    /// Wakes the thread that polls the socket, when what it polls for has changed. `None` once the
    /// connection was closed.
    pub(crate) bell: Option<OwnedFd>,
}

impl Descriptors {
    /// Those of a connection that was closed.
    pub(crate) fn none() -> Self {
        Self {
            socket: Socket::None,
            bell: None,
        }
    }

    /// Wakes the thread that polls.
    pub(crate) fn ring(&self) {
        if let Some(bell) = &self.bell {
            // A bell that is full has rung.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    pub(crate) fn silence(&self) {
        if let Some(bell) = &self.bell {
            // Nothing to read: somebody else has heard it.
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
    }
}

impl Socket {
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Socket::Stream(fd) => Some(fd.as_fd()),
            Socket::Datagram(socket) => Some(socket.as_fd()),
            Socket::None => None,
        }
    }

    pub(crate) fn raw(&self) -> Option<RawFd> {
        self.fd().map(|fd| fd.as_raw_fd())
    }

    /// Ends both directions of a stream, of which the peer learns at once.
    pub(crate) fn shut(&self) {
        if let Socket::Stream(fd) = self {
            // An error says that the peer has ended it already.
            let _ = shutdown(fd, Shutdown::Both);
        }
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
    Stream(Box<Stream>),
    Quic(Box<Quic>),
}

/// Calls the same method of whichever connection it is.
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
        match self {
            Link::Stream(stream) => stream.version().unwrap_or(Version::H1),
            Link::Quic(_) => Version::H3,
        }
    }

    /// How many more requests it takes now.
    pub(crate) fn capacity(&self) -> usize {
        each!(self, link => link.capacity())
    }

    /// HTTP/2: whether the peer has yet to say how many requests it allows at a time.
    pub(crate) fn awaits_settings(&self) -> bool {
        match self {
            Link::Stream(link) => link.h2().is_some_and(|h2| !h2.peer_settings().received),
            Link::Quic(_) => false,
        }
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
        each!(self, link => link.send(request, slot))
    }

    /// Resets one request. False where its version has no way to: the connection has to go.
    pub(crate) fn cancel(&mut self, stream: StreamId) -> bool {
        match self {
            Link::Stream(link) => link.cancel(stream),
            Link::Quic(link) => {
                link.cancel(stream);
                true
            }
        }
    }

    /// Takes content of a request, as much as may be sent now.
    pub(crate) fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        each!(self, link => link.write(stream, bytes))
    }

    /// Ends the content of a request. False where less than announced was written.
    pub(crate) fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> bool {
        each!(self, link => link.finish(stream, trailers).is_ok())
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
        match self {
            Link::Stream(link) => link.resume(stream),
            Link::Quic(link) => link.resume(Instant::now(), stream, &mut Sink(slots)),
        }
    }

    /// Whether reading makes sense: an HTTP/1.1 response that nobody takes is left in the socket.
    pub(crate) fn may_read(&self) -> bool {
        match self {
            Link::Stream(link) => link.may_read(),
            Link::Quic(_) => true,
        }
    }

    /// Whether something is left that the socket did not take.
    pub(crate) fn has_unsent(&self) -> bool {
        each!(self, link => link.has_output())
    }

    /// Bytes of requests that wait to leave.
    pub(crate) fn gathered(&self) -> usize {
        each!(self, link => link.gathered())
    }

    /// Whether more content may be handed over without filling memory.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Link::Stream(link) => link.gathered() < OUT_LIMIT,
            Link::Quic(link) => !link.is_blocked(),
        }
    }

    /// Writes what there is as far as the socket takes it.
    pub(crate) fn flush(&mut self, socket: &Socket, slots: &mut Slots) {
        let moved = &mut Moved::default();
        match (self, socket) {
            (Link::Stream(link), Socket::Stream(fd)) => {
                // A session that has failed cannot seal; reading tells why.
                stream::flush(fd, link, moved).map_or_else(|_| link.broke(), |_| ());
            }
            (Link::Quic(link), Socket::Datagram(socket)) => {
                let now = Instant::now();
                if SENT.with_borrow_mut(|scratch| socket.flush(link, now, scratch, moved)) {
                    link.unreachable(now, &mut Sink(slots));
                }
            }
            _ => (),
        }
    }

    /// Reads once.
    pub(crate) fn read(&mut self, socket: &Socket, slots: &mut Slots) -> Turn {
        match (self, socket) {
            (Link::Stream(link), Socket::Stream(fd)) => {
                BYTES.with_borrow_mut(|buffer| read_stream(link, fd, buffer, slots))
            }
            (Link::Quic(link), Socket::Datagram(socket)) => {
                DATAGRAMS.with_borrow_mut(|buffer| read_datagrams(link, socket, buffer, slots))
            }
            _ => Turn::Drained,
        }
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
            Link::Quic(link) => {
                link.handle_timeout(now, &mut Sink(slots));
                unless_lost(link, slots, Turn::Drained)
            }
        }
    }

    /// Asks the peer by a PING whether it is there, and gives what [`Self::has_answered`] wants to know.
    /// `None` where the version has no such question.
    pub(crate) fn ping(&mut self) -> Option<u64> {
        match self {
            Link::Stream(link) => link.ping().then_some(0),
            Link::Quic(link) => Some(link.ping()),
        }
    }

    /// Whether the peer has answered since [`Self::ping`] gave this number.
    pub(crate) fn has_answered(&self, before: u64) -> bool {
        match self {
            Link::Stream(link) => link.h2().is_none_or(|h2| h2.unanswered_pings() == 0),
            Link::Quic(link) => link.acknowledgements() > before,
        }
    }

    /// Says goodbye; nothing more is sent or reported.
    pub(crate) fn close(&mut self, socket: &Socket) {
        match self {
            Link::Stream(link) => link.close(),
            Link::Quic(link) => link.close(Instant::now()),
        }
        self.flush(socket, &mut Slots::default());
        if let (Link::Stream(link), Socket::Stream(_)) = (self, socket) {
            link.broke();
            // Wakes who polls it.
            socket.shut();
        }
    }

    /// The peer's limits, as far as they are known.
    pub(crate) fn settings(&self) -> Vec<(&'static str, u64)> {
        match self {
            Link::Stream(link) => h2_settings(link),
            Link::Quic(link) => h3_settings(link),
        }
    }

    /// The agreement of TLS, with the server's certificates.
    pub(crate) fn tls(&self) -> Option<TlsInfo> {
        let (info, certificates) = match self {
            Link::Stream(link) => (link.tls_info()?, link.certificates()),
            Link::Quic(link) => (link.quic().tls()?, link.quic().certificates()),
        };
        Some(TlsInfo {
            certificates,
            ..TlsInfo::from(info)
        })
    }
}

fn read_stream(link: &mut Stream, fd: &OwnedFd, buffer: &mut [u8], slots: &mut Slots) -> Turn {
    let end = match stream::receive(fd, &mut buffer[HEADROOM..], &mut Moved::default()) {
        stream::Received::Bytes(length) => HEADROOM + length,
        stream::Received::Nothing => return Turn::Drained,
        stream::Received::End => return Turn::Over(eof(link, None, slots)),
        stream::Received::Failed(error) => return Turn::Over(eof(link, Some(error), slots)),
    };
    let begin = link.restore(buffer, HEADROOM);
    let now = Instant::now();
    slots.heard = Some(now);
    let received = link.receive(now, &mut buffer[begin..end], &mut Sink(slots));
    match received {
        Ok(_) if link.peer_closed() => {
            // What is due before our own end.
            let _ = stream::flush(fd, link, &mut Moved::default());
            Turn::Over(eof(link, None, slots))
        }
        Ok(_) if end == buffer.len() => Turn::More,
        Ok(_) => Turn::Drained,
        Err(over) => {
            last_words(link, fd);
            Turn::Over(failure(over, None))
        }
    }
}

/// Sends what the protocol asks for where a connection has failed, and has the keeper wait until the
/// peer can have read it.
fn last_words(link: &mut Stream, fd: &OwnedFd) {
    if !link.has_output() {
        return;
    }
    link.close();
    // A session that cannot seal has no more words.
    let flushed = stream::flush(fd, link, &mut Moved::default());
    if let Ok(Flushed::All | Flushed::Full) = flushed {
        let mut unsent = Vec::new();
        while let Ok(bytes @ [_, ..]) = link.transmit() {
            let length = bytes.len();
            unsent.extend_from_slice(bytes);
            link.sent(length);
        }
        keeper::linger(fd, unsent);
    }
    link.broke();
}

fn read_datagrams(
    link: &mut Quic,
    socket: &udp::Socket,
    inbox: &mut udp::Inbox,
    slots: &mut Slots,
) -> Turn {
    match socket.receive(inbox, &mut Moved::default()) {
        udp::Received::Datagrams { .. } => {
            let now = Instant::now();
            slots.heard = Some(now);
            for batch in inbox.take() {
                link.receive(now, batch, &mut Sink(slots));
            }
            unless_lost(link, slots, Turn::More)
        }
        udp::Received::Nothing => unless_lost(link, slots, Turn::Drained),
        udp::Received::Unreachable => {
            link.unreachable(Instant::now(), &mut Sink(slots));
            unless_lost(link, slots, Turn::More)
        }
        udp::Received::Failed(error) => {
            let message = format!("receiving from {} over UDP failed: {error}", link.peer());
            Turn::Over(Error::new(Kind::Closed, message))
        }
    }
}

/// `otherwise`, unless the connection has ended.
fn unless_lost(link: &mut Quic, slots: &mut Slots, otherwise: Turn) -> Turn {
    let Some(error) = link.error().map(quic_failure) else {
        return otherwise;
    };
    link.abandon(&mut Sink(slots));
    Turn::Over(error)
}

/// The peer has ended its direction, or the socket failed.
pub(crate) fn eof(link: &mut Stream, cause: Option<Errno>, slots: &mut Slots) -> Error {
    failure(link.eof(cause.is_some(), &mut Sink(slots)), cause)
}

/// What the end of a connection means to a caller; `cause` is the socket's.
pub(crate) fn failure(over: Over, cause: Option<Errno>) -> Error {
    match over {
        Over::Protocol(error) => connection_error(error),
        Over::Tls(error) => crate::tls::failure(&error.0),
        Over::Version(version) => {
            let message = format!("the server agreed on {} alone", version.name());
            Error::new(Kind::Version, message)
        }
        Over::Tunnel(status, reason) => Error {
            code: status.map(u64::from),
            ..Error::new(Kind::Proxy, reason)
        },
        Over::Ended(_) | Over::Early(_) => match cause {
            None => Error::new(Kind::Closed, "the server closed the connection"),
            Some(Errno::CONNRESET | Errno::PIPE) => {
                Error::new(Kind::Reset, "the server reset the connection")
            }
            Some(error) => Error::new(Kind::Closed, format!("the connection failed: {error}")),
        },
    }
}

fn connection_error(error: ConnectionError) -> Error {
    Error {
        kind: slots::kind(error.kind),
        message: slots::told(error.kind, error.to_string()),
        stream_id: None,
        code: Some(error.code).filter(|&code| code != 0),
        unprocessed: Unprocessed::Unknown,
    }
}

pub(crate) fn quic_failure(error: &quic::Error) -> Error {
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

fn h2_settings(link: &Stream) -> Vec<(&'static str, u64)> {
    let Some(peer) = link.h2().map(|h2| h2.peer_settings()) else {
        return Vec::new();
    };
    if !peer.received {
        return Vec::new();
    }
    let mut known = vec![
        ("header_table_size", peer.header_table_size.into()),
        ("initial_window_size", peer.initial_window_size.into()),
        ("max_frame_size", peer.max_frame_size.into()),
    ];
    let optional = [
        ("max_concurrent_streams", peer.max_concurrent_streams),
        ("max_header_list_size", peer.max_header_list_size),
    ];
    for (name, value) in optional {
        known.extend(value.map(|value| (name, u64::from(value))));
    }
    known
}

fn h3_settings(link: &Quic) -> Vec<(&'static str, u64)> {
    let Some(peer) = link.peer_settings() else {
        return Vec::new();
    };
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
