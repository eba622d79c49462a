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

/// A place's socket, and who is at the other end.
#[derive(Debug)]
struct Socket {
    /// Which of all connections it is.
    number: u64,
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
    sockets: BTreeMap<u32, Socket>,
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

    fn open(&mut self, place: u32, server: Server) {
        let number = self.connections;
        let earlier = self.sockets.insert(place, Socket { number, server });
        assert!(earlier.is_none(), "place {place} has a socket");
    }

    /// Lets the QUIC server of a place act.
    fn at_server(
        &mut self,
        place: u32,
        act: impl FnOnce(&mut QuicServer, Instant, &mut Seen) -> Vec<(Duration, Happening)>,
    ) {
        let socket = self.sockets.get_mut(&place);
        if let Some(Server::Quic(server)) = socket.map(|socket| &mut socket.server) {
            let planned = act(server, self.now.get(), &mut self.seen.borrow_mut());
            self.plan(place, planned);
        }
    }
}

fn is_at(peer: &Address, port: u16) -> bool {
    matches!(peer, Address::Ip(peer) if peer.port() == port)
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
        let story = self.next_story();
        let outcome = match &story {
            Story::Refuse => Some(Err(Errno::CONNREFUSED)),
            Story::Deaf => None,
            Story::Listen(port, _) if !is_at(peer, *port) => Some(Err(Errno::CONNREFUSED)),
            Story::Serve(_) | Story::Listen(..) => Some(Ok(())),
        };
        let serve = match story {
            Story::Serve(serve) | Story::Listen(_, serve) => serve,
            Story::Refuse | Story::Deaf => Serve::well(),
        };
        let server = StreamServer::new(serve, self.is_h2);
        self.open(place, Server::Stream(Box::new(server)));
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
        let server = match self.next_story() {
            Story::Refuse => Server::Nobody,
            Story::Deaf => Server::Deaf,
            Story::Listen(port, _) if port != peer.port() => Server::Nobody,
            Story::Serve(serve) | Story::Listen(_, serve) => {
                Server::Quic(Box::new(QuicServer::new(serve, self.begun)))
            }
        };
        self.open(place, server);
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
        let socket = self.sockets.get_mut(&place);
        if let Some(Server::Stream(server)) = socket.map(|socket| &mut socket.server) {
            let at = self.now.get() - self.begun;
            let planned = server.read(at, &mut self.seen.borrow_mut());
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
        if let Some(socket) = self.sockets.remove(&place) {
            self.agenda
                .retain(|_, (_, connection, _)| *connection != socket.number);
        }
    }

    fn poll(&mut self, until: Instant) -> io::Result<()> {
        self.looks.set(0);
        self.idle.1 += 1;
        let due = self.next_due().map_or(until, |(at, _)| at.min(until));
        if due > self.now.get() {
            self.now.set(due + self.slow.waking);
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
            return Some((place, completion));
        }
    }

    fn datagrams(&mut self) -> Option<Batch> {
        self.datagram.take()
    }

    fn received(&mut self) -> &mut [u8] {
        &mut self.received
    }

    fn finish(&mut self) {}

    fn tcp_info(&self, _place: u32) -> Option<TcpInfo> {
        self.now.set(self.now.get() + self.slow.reading);
        None
    }

    fn congestion_control(&self, _place: u32) -> Option<String> {
        None
    }

    fn dropped_datagrams(&self, _place: u32) -> Option<u32> {
        None
    }
}
