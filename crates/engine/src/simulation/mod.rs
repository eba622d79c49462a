//! Scripted servers in virtual time, in the place of the system's sockets: nothing is waited for, and
//! a run of minutes takes a moment.

mod quic;
mod script;
mod stream;
mod websocket;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rustix::io::Errno;
use trilane_connection::{Batch, HEADROOM, Over, Quic, Stream, Taken};
use trilane_socket::stream::{Flushed, Options};
use trilane_socket::{Moved, Unmade};

use crate::io::{Completion, System};
use crate::route::Address;
use crate::sys::TcpInfo;

use quic::{QuicServer, Reply};
pub(crate) use script::{Early, Ending, Latency, Seen, Serve, Story};
use stream::StreamServer;
pub(crate) use websocket::Conversation;

/// Looks at the clock between two polls: a worker that takes more goes round in a circle.
const MOST_LOOKS: u64 = 1_000_000;
/// Polls in a row of which nothing comes and in which no millisecond passes.
const MOST_POLLS: u32 = 10_000;
/// Bits of the number of a socket that say its place; those above say which of the connections there it is.
const PLACE_BITS: u32 = 16;
/// The longest run, in virtual time.
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(Debug)]
enum Happening {
    Connected(Result<(), Errno>),
    Room,
    /// Bytes, with which so many responses are complete.
    Bytes(Vec<u8>, u64),
    End,
    Reset,
    Datagram(Vec<u8>),
    /// At the server, over QUIC.
    Reply(Reply),
    /// At the server, over QUIC.
    Timer,
}

/// What one connection has of a place's socket, and who is at the other end.
#[derive(Debug)]
struct Socket {
    /// Which of all connections it is, and to which port.
    number: u64,
    port: u16,
    /// Over QUIC: when the connection began.
    since: Option<Instant>,
    server: Server,
}

#[derive(Debug)]
enum Server {
    Stream(Box<StreamServer>),
    Quic(Box<QuicServer>),
    /// Nobody listens to datagrams.
    Nobody,
    /// Somebody who says nothing gets datagrams.
    Deaf,
}

/// What takes time on the worker's machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slow {
    /// How much later than its time the worker wakes.
    pub(crate) waking: Duration,
    /// How long it takes to read what the kernel counted on a connection.
    pub(crate) reading: Duration,
    /// When after the begin the worker is stopped, and how long for.
    pub(crate) stop: Option<(Duration, Duration)>,
}

/// The sockets of one worker.
#[derive(Debug)]
pub(crate) struct Simulation {
    now: Cell<Instant>,
    begun: Instant,
    looks: Cell<u64>,
    slow: Slow,
    /// Since when, and how many.
    idle: (Instant, u32),
    is_h2: bool,
    stories: Vec<Story>,
    /// By place, and over QUIC by the number of the connection above that.
    sockets: BTreeMap<u32, Socket>,
    /// What the UDP sockets are connected to, by place.
    bound: BTreeMap<u32, SocketAddr>,
    connections: u64,
    /// What is to happen, by when and in which order, with its connection.
    agenda: BTreeMap<(Instant, u64), (u32, u64, Happening)>,
    order: u64,
    received: Vec<u8>,
    datagram: Option<Batch>,
    /// What is to be thrown away, by place.
    discards: BTreeMap<u32, u64>,
    scratch: Vec<u8>,
    seen: Rc<RefCell<Seen>>,
}

impl Simulation {
    /// Connections have these stories in turn; `is_h2` says what byte streams speak.
    pub(crate) fn new(
        begun: Instant,
        is_h2: bool,
        stories: Vec<Story>,
        seen: Rc<RefCell<Seen>>,
    ) -> Self {
        Self {
            now: Cell::new(begun),
            begun,
            looks: Cell::new(0),
            slow: Slow::default(),
            idle: (begun, 0),
            is_h2,
            stories,
            sockets: BTreeMap::new(),
            bound: BTreeMap::new(),
            connections: 0,
            agenda: BTreeMap::new(),
            order: 0,
            received: Vec::new(),
            datagram: None,
            discards: BTreeMap::new(),
            scratch: Vec::new(),
            seen,
        }
    }

    /// On a machine that is slow.
    pub(crate) fn slow(self, slow: Slow) -> Self {
        Self { slow, ..self }
    }

    /// What happens next, but for bytes that are left in their socket.
    fn next_due(&self) -> Option<(Instant, u64)> {
        let mut agenda = self.agenda.iter();
        let next = agenda.find(|(_, (place, _, happening))| {
            let reads = !matches!(happening, Happening::Connected(_) | Happening::Room);
            !reads || !self.is_held(*place)
        });
        next.map(|(key, _)| *key)
    }

    fn is_held(&self, place: u32) -> bool {
        let socket = self.sockets.get(&place);
        matches!(socket, Some(Socket { server: Server::Stream(server), .. }) if server.held)
    }

    fn plan(&mut self, place: u32, planned: impl IntoIterator<Item = (Duration, Happening)>) {
        let Some(socket) = self.sockets.get(&place) else {
            return;
        };
        for (after, happening) in planned {
            self.order += 1;
            let key = (self.now.get() + after, self.order);
            self.agenda.insert(key, (place, socket.number, happening));
        }
    }

    /// The story of the next connection.
    fn next_story(&mut self) -> Story {
        let story = self.stories[self.connections as usize % self.stories.len()].clone();
        self.connections += 1;
        self.seen.borrow_mut().connects += 1;
        story
    }

    fn open(&mut self, place: u32, port: u16, since: Option<Instant>, server: Server) {
        let number = self.connections;
        let socket = Socket {
            number,
            port,
            since,
            server,
        };
        let earlier = self.sockets.insert(place, socket);
        assert!(earlier.is_none(), "place {place} has a socket");
    }

    /// Nothing more happens on a connection.
    fn forget(&mut self, place: u32) {
        if let Some(socket) = self.sockets.remove(&place) {
            self.agenda
                .retain(|_, (_, connection, _)| *connection != socket.number);
        }
    }

    /// The number of the socket that has the server of a QUIC connection, which it meets with its first
    /// datagram.
    fn meet(&mut self, place: u32, connection: &Quic) -> u32 {
        let number = connection.quic().number() as u32;
        let (place, port) = (place | number << PLACE_BITS, self.bound[&place].port());
        let since = Some(connection.since());
        if self.sockets.get(&place).map(|socket| socket.since) != Some(since) {
            self.forget(place);
            let server = match self.next_story().at(port) {
                Story::Refuse | Story::Listen(_) => Server::Nobody,
                Story::Deaf => Server::Deaf,
                Story::Serve(serve) => Server::Quic(Box::new(QuicServer::new(serve, self.begun))),
            };
            self.open(place, port, since, server);
        }
        place
    }

    /// Lets the QUIC server of a place act.
    fn at_server(
        &mut self,
        place: u32,
        act: impl FnOnce(&mut QuicServer, Instant, &mut Seen) -> Vec<(Duration, Happening)>,
    ) {
        if let Some(socket) = self.sockets.get_mut(&place)
            && let Server::Quic(server) = &mut socket.server
        {
            let (port, now) = (socket.port, self.now.get());
            let mut seen = self.seen.borrow_mut();
            let planned = seen.counting(port, |seen| act(server, now, seen));
            drop(seen);
            self.plan(place, planned);
        }
    }
}

fn port(peer: &Address) -> u16 {
    match peer {
        Address::Ip(peer) => peer.port(),
        Address::Unix(_) => 0,
    }
}

impl System for Simulation {
    fn now(&self) -> Instant {
        self.looks.set(self.looks.get() + 1);
        assert!(self.looks.get() < MOST_LOOKS, "the worker does not poll");
        self.now.get()
    }

    fn open_stream(
        &mut self,
        place: u32,
        peer: &Address,
        _options: Options<'_>,
    ) -> Result<(), Unmade> {
        let port = port(peer);
        let story = self.next_story().at(port);
        let outcome = match &story {
            Story::Refuse => Some(Err(Errno::CONNREFUSED)),
            Story::Deaf => None,
            Story::Serve(_) | Story::Listen(_) => Some(Ok(())),
        };
        let serve = match story {
            Story::Serve(serve) => serve,
            Story::Refuse | Story::Deaf | Story::Listen(_) => Serve::well(),
        };
        let server = StreamServer::new(serve, self.is_h2);
        self.open(place, port, None, Server::Stream(Box::new(server)));
        let connected = outcome.map(Happening::Connected);
        self.plan(
            place,
            connected.map(|happening| (Duration::from_millis(1), happening)),
        );
        Ok(())
    }

    fn open_datagrams(
        &mut self,
        place: u32,
        peer: SocketAddr,
        _source: Option<SocketAddr>,
    ) -> Result<(), Unmade> {
        let earlier = self.bound.insert(place, peer);
        assert!(earlier.is_none(), "place {place} has a socket");
        self.seen.borrow_mut().udp_sockets += 1;
        Ok(())
    }

    fn send(
        &mut self,
        place: u32,
        connection: &mut Stream,
        moved: &mut Moved,
    ) -> Result<Flushed, Over> {
        let mut flushed = Flushed::All;
        while let bytes @ [_, ..] = connection.transmit()? {
            let socket = self.sockets.get_mut(&place);
            let Some(Server::Stream(server)) = socket.map(|socket| &mut socket.server) else {
                return Ok(Flushed::Broken);
            };
            let taken = server.take(bytes);
            connection.sent(taken);
            moved.calls += 1;
            moved.bytes += taken as u64;
            if server.is_full() {
                self.plan(place, [(Duration::from_millis(1), Happening::Room)]);
                flushed = Flushed::Full;
                break;
            }
        }
        if let Some(socket) = self.sockets.get_mut(&place)
            && let Server::Stream(server) = &mut socket.server
        {
            let at = self.now.get() - self.begun;
            let port = socket.port;
            let mut seen = self.seen.borrow_mut();
            let planned = seen.counting(port, |seen| server.read(at, seen));
            drop(seen);
            self.plan(place, planned);
        }
        Ok(flushed)
    }

    fn send_datagrams(
        &mut self,
        place: u32,
        connection: &mut Quic,
        now: Instant,
        moved: &mut Moved,
    ) -> bool {
        let place = self.meet(place, connection);
        let mut datagrams = Vec::new();
        connection.transmit(now, 1, &mut self.scratch, |bytes, _| {
            datagrams.push(bytes.to_vec());
            Taken::Sent
        });
        let socket = self.sockets.get(&place);
        let nobody = matches!(
            socket,
            Some(Socket {
                server: Server::Nobody,
                ..
            })
        );
        let unreachable = nobody && !datagrams.is_empty();
        for datagram in datagrams {
            moved.calls += 1;
            moved.bytes += datagram.len() as u64;
            self.at_server(place, |server, now, seen| {
                server.receive(now, &datagram, seen)
            });
        }
        if unreachable {
            // That ends the connection; the next may have its number in the same instant.
            self.forget(place);
        }
        unreachable
    }

    fn hold(&mut self, place: u32, held: bool) {
        let socket = self.sockets.get_mut(&place);
        if let Some(Server::Stream(server)) = socket.map(|socket| &mut socket.server) {
            server.held = held;
        }
    }

    fn discard(&mut self, place: u32, bytes: u64) {
        self.discards.insert(place, bytes);
    }

    fn close(&mut self, place: u32, _last_words: Option<Vec<u8>>) {
        self.discards.remove(&place);
        self.bound.remove(&place);
        self.forget(place);
    }

    fn poll(&mut self, until: Instant) -> io::Result<()> {
        self.looks.set(0);
        self.idle.1 += 1;
        let due = self.next_due().map_or(until, |(at, _)| at.min(until));
        if due > self.now.get() {
            self.now.set(due + self.slow.waking);
        }
        if let Some((at, length)) = self.slow.stop
            && self.now.get() >= self.begun + at
        {
            self.slow.stop = None;
            self.now.set(self.now.get() + length);
        }
        if self.now.get() > self.idle.0 + Duration::from_millis(1) {
            self.idle = (self.now.get(), 0);
        }
        assert!(self.idle.1 < MOST_POLLS, "the worker polls without waiting");
        assert!(
            self.now.get() - self.begun < LONGEST,
            "the run does not end"
        );
        Ok(())
    }

    fn next(&mut self, moved: &mut Moved) -> Option<(u32, Completion)> {
        loop {
            let key = self.next_due().filter(|(at, _)| *at <= self.now.get())?;
            let (place, number, happening) = self.agenda.remove(&key)?;
            self.idle = (self.now.get(), 0);
            moved.calls += 1;
            let completion = match happening {
                Happening::Connected(outcome) => Completion::Connected(outcome),
                Happening::Room => Completion::Room,
                Happening::Bytes(mut bytes, responses)
                    if self.discards.get(&place).is_some_and(|left| *left > 0) =>
                {
                    let left = self.discards.entry(place).or_default();
                    let count = bytes.len().min(*left as usize);
                    *left -= count as u64;
                    bytes.drain(..count);
                    if bytes.is_empty() {
                        self.seen.borrow_mut().answered += responses;
                    } else {
                        // Read next.
                        let rest = Happening::Bytes(bytes, responses);
                        self.agenda.insert(key, (place, number, rest));
                    }
                    moved.bytes += count as u64;
                    self.seen.borrow_mut().discarded += count as u64;
                    Completion::Discarded(count)
                }
                Happening::Bytes(bytes, responses) => {
                    self.seen.borrow_mut().answered += responses;
                    moved.bytes += bytes.len() as u64;
                    self.received = vec![0; HEADROOM];
                    self.received.extend_from_slice(&bytes);
                    Completion::Received(bytes.len())
                }
                Happening::End => Completion::End,
                Happening::Reset => Completion::Failed(Errno::CONNRESET),
                Happening::Datagram(bytes) => {
                    moved.bytes += bytes.len() as u64;
                    self.datagram = Some(Batch {
                        segment_size: bytes.len(),
                        bytes: BytesMut::from(&bytes[..]),
                        ecn: 0,
                    });
                    Completion::Datagrams
                }
                Happening::Reply(reply) => {
                    self.at_server(place, |server, now, seen| server.reply(now, reply, seen));
                    continue;
                }
                Happening::Timer => {
                    self.at_server(place, |server, now, _| server.on_timer(now));
                    continue;
                }
            };
            return Some((place & ((1 << PLACE_BITS) - 1), completion));
        }
    }

    fn datagrams(&mut self) -> Option<Batch> {
        self.datagram.take()
    }

    fn received(&mut self) -> &mut [u8] {
        &mut self.received
    }

    fn finish(&mut self) {}

    fn local_address(&self, _place: u32) -> Option<SocketAddr> {
        None
    }

    fn tcp_info(&self, _place: u32) -> Option<TcpInfo> {
        self.now.set(self.now.get() + self.slow.reading);
        None
    }

    fn unacknowledged(&self, place: u32) -> Option<u64> {
        match &self.sockets.get(&place)?.server {
            Server::Stream(server) => Some(server.unacknowledged()),
            Server::Quic(_) | Server::Nobody | Server::Deaf => None,
        }
    }

    fn congestion_control(&self, _place: u32) -> Option<String> {
        None
    }

    fn dropped_datagrams(&self, _place: u32) -> Option<u32> {
        None
    }
}
