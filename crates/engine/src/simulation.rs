//! Scripted servers in virtual time, in the place of the system's sockets: nothing is waited for, and
//! a run of minutes takes a moment.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use trilane_connection::{HEADROOM, Over, Quic, Stream};
use trilane_socket::stream::{Flushed, Options};
use trilane_socket::{Moved, Unmade};

use crate::route::Address;
use crate::sys::TcpInfo;
use crate::system::{Completion, System};

/// Looks at the clock between two polls: a worker that takes more goes round in a circle.
const MOST_LOOKS: u64 = 1_000_000;
/// Polls in a row of which nothing comes and in which no millisecond passes.
const MOST_POLLS: u32 = 10_000;
/// The longest run, in virtual time.
const LONGEST: Duration = Duration::from_secs(3600);

/// How a server's end of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It sends its last byte.
    Close,
    /// It resets the connection.
    Reset,
    /// It says nothing more, and keeps the connection.
    Silence,
    /// HTTP/2: it sends GOAWAY, which names the last request that was answered, and closes. HTTP/1.1:
    /// as `Close`.
    Goaway,
    /// It sends what is no HTTP.
    Nonsense,
}

/// What a server does with one connection.
#[derive(Clone, Debug)]
pub(crate) enum Story {
    /// Nobody listens.
    Refuse,
    /// The connect is never answered.
    Deaf,
    /// It answers requests.
    Serve(Serve),
    /// It answers requests on this port, and nobody listens on others.
    Listen(u16, Serve),
}

/// How a server answers.
#[derive(Clone, Debug)]
pub(crate) struct Serve {
    /// How long each answer takes.
    pub(crate) delay: Duration,
    /// How many requests it answers before the ending.
    pub(crate) answers: usize,
    pub(crate) ending: Ending,
    /// Bytes that it sends at once.
    pub(crate) pieces: usize,
    /// Bytes that the socket takes at once; it has room again after a millisecond.
    pub(crate) room: usize,
    /// HTTP/2: SETTINGS_MAX_CONCURRENT_STREAMS.
    pub(crate) streams: Option<u32>,
    /// HTTP/2: SETTINGS_MAX_HEADER_LIST_SIZE.
    pub(crate) section: Option<u32>,
    /// HTTP/2: every so-manieth request is refused with REFUSED_STREAM.
    pub(crate) refuses: Option<usize>,
}

impl Serve {
    /// A server that answers everything at once.
    pub(crate) fn well() -> Self {
        Self {
            delay: Duration::from_millis(1),
            answers: usize::MAX,
            ending: Ending::Close,
            pieces: usize::MAX,
            room: usize::MAX,
            streams: None,
            section: None,
            refuses: None,
        }
    }
}

/// What the servers have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connects: u64,
    /// Requests that came and were not refused by a proof that nothing was done for them.
    pub(crate) taken: u64,
    /// Complete responses that the client has been handed.
    pub(crate) answered: u64,
}

#[derive(Debug)]
enum Happening {
    Connected(Result<(), Errno>),
    Room,
    /// Bytes, with which so many responses are complete.
    Bytes(Vec<u8>, u64),
    End,
    Reset,
}

/// The server's end of one connection.
#[derive(Debug)]
struct Server {
    serve: Serve,
    number: u64,
    is_h2: bool,
    received: Vec<u8>,
    /// HTTP/2: whether the preface has come.
    greeted: bool,
    requests: usize,
    answered: usize,
    last_answered: u32,
    over: bool,
    room: usize,
    held: bool,
}

/// The sockets of one worker.
#[derive(Debug)]
pub(crate) struct Simulation {
    now: Instant,
    begun: Instant,
    looks: Cell<u64>,
    /// Since when, and how many.
    idle: (Instant, u32),
    is_h2: bool,
    stories: Vec<Story>,
    places: BTreeMap<u32, Server>,
    connections: u64,
    /// What is to happen, by when and in which order, with its connection.
    agenda: BTreeMap<(Instant, u64), (u32, u64, Happening)>,
    order: u64,
    received: Vec<u8>,
    seen: Rc<RefCell<Seen>>,
}

impl Simulation {
    /// Connections have these stories in turn.
    pub(crate) fn new(
        begun: Instant,
        is_h2: bool,
        stories: Vec<Story>,
        seen: Rc<RefCell<Seen>>,
    ) -> Self {
        Self {
            now: begun,
            begun,
            looks: Cell::new(0),
            idle: (begun, 0),
            is_h2,
            stories,
            places: BTreeMap::new(),
            connections: 0,
            agenda: BTreeMap::new(),
            order: 0,
            received: Vec::new(),
            seen,
        }
    }

    /// What happens next, but for bytes that are left in their socket.
    fn next_due(&self) -> Option<(Instant, u64)> {
        let mut agenda = self.agenda.iter();
        let next = agenda.find(|(_, (place, _, happening))| {
            let reads = !matches!(happening, Happening::Connected(_) | Happening::Room);
            !reads || self.places.get(place).is_none_or(|server| !server.held)
        });
        next.map(|(key, _)| *key)
    }

    fn plan(&mut self, place: u32, after: Duration, happening: Happening) {
        let number = self.places.get(&place).map_or(0, |server| server.number);
        let at = self.now + after;
        self.order += 1;
        self.agenda
            .insert((at, self.order), (place, number, happening));
    }

    /// Sends in pieces; the last completes so many responses.
    fn answer(&mut self, place: u32, after: Duration, bytes: &[u8], responses: u64) {
        let Some(server) = self.places.get(&place) else {
            return;
        };
        let pieces: Vec<_> = bytes.chunks(server.serve.pieces.max(1)).collect();
        let last = pieces.len() - 1;
        for (index, piece) in pieces.into_iter().enumerate() {
            let complete = if index == last { responses } else { 0 };
            self.plan(place, after, Happening::Bytes(piece.to_vec(), complete));
        }
    }

    /// The server reads what the client has sent.
    fn read(&mut self, place: u32) {
        while let Some(server) = self.places.get_mut(&place).filter(|server| !server.over) {
            let request = if server.is_h2 {
                server.next_frame()
            } else {
                server.next_h1()
            };
            match request {
                None => break,
                Some(Asked::Nothing) => (),
                Some(Asked::Greeting) => {
                    let settings = server.settings();
                    self.answer(place, Duration::ZERO, &settings, 0);
                }
                Some(Asked::Answer(frame)) => self.answer(place, Duration::ZERO, &frame, 0),
                Some(Asked::Request(id)) => self.respond(place, id),
            }
        }
    }

    fn respond(&mut self, place: u32, id: u32) {
        let Some(server) = self.places.get_mut(&place) else {
            return;
        };
        server.requests += 1;
        let delay = server.serve.delay;
        let refused = server.is_h2
            && server
                .serve
                .refuses
                .is_some_and(|every| server.requests.is_multiple_of(every));
        if refused {
            let refusal = frame(3, 0, id, &7u32.to_be_bytes());
            return self.answer(place, delay, &refusal, 0);
        }
        if server.answered < server.serve.answers {
            server.answered += 1;
            server.last_answered = id;
            let response = if server.is_h2 {
                // `:status: 200` is entry 8 of the static table (RFC 7541, Appendix A).
                frame(1, 0x5, id, &[0x88])
            } else {
                b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec()
            };
            self.seen.borrow_mut().taken += 1;
            return self.answer(place, delay, &response, 1);
        }
        server.over = true;
        let (ending, last) = (server.serve.ending, server.last_answered);
        let goaway = ending == Ending::Goaway && server.is_h2;
        if !goaway {
            self.seen.borrow_mut().taken += 1;
        }
        match ending {
            Ending::Silence => (),
            Ending::Reset => self.plan(place, delay, Happening::Reset),
            Ending::Nonsense => self.answer(place, delay, b"no HTTP at all\r\n\r\n", 0),
            Ending::Close | Ending::Goaway => {
                if goaway {
                    let mut payload = last.to_be_bytes().to_vec();
                    payload.extend_from_slice(&[0; 4]);
                    self.answer(place, delay, &frame(7, 0, 0, &payload), 0);
                }
                self.plan(place, delay, Happening::End);
            }
        }
    }
}

fn is_at(peer: &Address, port: u16) -> bool {
    matches!(peer, Address::Ip(peer) if peer.port() == port)
}

/// What the client wants of the server.
enum Asked {
    Nothing,
    Greeting,
    Answer(Vec<u8>),
    /// A request, with its stream in HTTP/2.
    Request(u32),
}

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

impl Server {
    /// Takes a request of HTTP/1.1 that has no content.
    fn next_h1(&mut self) -> Option<Asked> {
        let end = self
            .received
            .windows(4)
            .position(|four| four == b"\r\n\r\n")?;
        self.received.drain(..end + 4);
        Some(Asked::Request(0))
    }

    /// Takes the preface, or a frame.
    fn next_frame(&mut self) -> Option<Asked> {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        if !self.greeted {
            self.received.starts_with(PREFACE).then(|| {
                self.received.drain(..PREFACE.len());
                self.greeted = true;
                Asked::Greeting
            })
        } else {
            let header: [u8; 9] = *self.received.first_chunk()?;
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
            if self.received.len() < 9 + length {
                return None;
            }
            let payload: Vec<u8> = self.received.drain(..9 + length).skip(9).collect();
            Some(match (header[3], header[4] & 1) {
                (1, _) => Asked::Request(stream),
                (4, 0) => Asked::Answer(frame(4, 1, 0, &[])),
                (6, 0) => Asked::Answer(frame(6, 1, 0, &payload)),
                _ => Asked::Nothing,
            })
        }
    }

    fn settings(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        for (id, value) in [(3u16, self.serve.streams), (6, self.serve.section)] {
            if let Some(value) = value {
                payload.extend_from_slice(&id.to_be_bytes());
                payload.extend_from_slice(&value.to_be_bytes());
            }
        }
        frame(4, 0, 0, &payload)
    }
}

impl System for Simulation {
    fn now(&self) -> Instant {
        self.looks.set(self.looks.get() + 1);
        assert!(self.looks.get() < MOST_LOOKS, "the worker does not poll");
        self.now
    }

    fn open_stream(
        &mut self,
        place: u32,
        peer: &Address,
        _options: Options<'_>,
    ) -> Result<(), Unmade> {
        let story = self.stories[self.connections as usize % self.stories.len()].clone();
        self.connections += 1;
        self.seen.borrow_mut().connects += 1;
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
        let server = Server {
            room: serve.room,
            serve,
            number: self.connections,
            is_h2: self.is_h2,
            received: Vec::new(),
            greeted: false,
            requests: 0,
            answered: 0,
            last_answered: 0,
            over: false,
            held: false,
        };
        let earlier = self.places.insert(place, server);
        assert!(earlier.is_none(), "place {place} has a socket");
        if let Some(outcome) = outcome {
            self.plan(
                place,
                Duration::from_millis(1),
                Happening::Connected(outcome),
            );
        }
        Ok(())
    }

    fn open_datagrams(
        &mut self,
        _place: u32,
        _peer: SocketAddr,
        _source: Option<SocketAddr>,
    ) -> Result<(), Unmade> {
        Err(Unmade {
            what: "no datagrams".to_owned(),
            error: io::ErrorKind::Unsupported.into(),
        })
    }

    fn send(
        &mut self,
        place: u32,
        connection: &mut Stream,
        moved: &mut Moved,
    ) -> Result<Flushed, Over> {
        let mut flushed = Flushed::All;
        while let bytes @ [_, ..] = connection.transmit()? {
            let Some(server) = self.places.get_mut(&place) else {
                return Ok(Flushed::Broken);
            };
            let taken = bytes.len().min(server.room);
            server.room -= taken;
            server.received.extend_from_slice(&bytes[..taken]);
            connection.sent(taken);
            moved.calls += 1;
            moved.bytes += taken as u64;
            if server.room == 0 {
                server.room = server.serve.room;
                self.plan(place, Duration::from_millis(1), Happening::Room);
                flushed = Flushed::Full;
                break;
            }
        }
        self.read(place);
        Ok(flushed)
    }

    fn send_datagrams(
        &mut self,
        _place: u32,
        _connection: &mut Quic,
        _now: Instant,
        _moved: &mut Moved,
    ) -> bool {
        false
    }

    fn hold(&mut self, place: u32, held: bool) {
        if let Some(server) = self.places.get_mut(&place) {
            server.held = held;
        }
    }

    fn close(&mut self, place: u32, _last_words: Option<Vec<u8>>) {
        if let Some(server) = self.places.remove(&place) {
            self.agenda
                .retain(|_, (_, connection, _)| *connection != server.number);
        }
    }

    fn poll(&mut self, until: Instant) -> io::Result<()> {
        self.looks.set(0);
        self.idle.1 += 1;
        let due = self.next_due().map_or(until, |(at, _)| at.min(until));
        self.now = due.max(self.now);
        if self.now > self.idle.0 + Duration::from_millis(1) {
            self.idle = (self.now, 0);
        }
        assert!(self.idle.1 < MOST_POLLS, "the worker polls without waiting");
        assert!(self.now - self.begun < LONGEST, "the run does not end");
        Ok(())
    }

    fn next(&mut self, moved: &mut Moved) -> Option<(u32, Completion)> {
        let key = self.next_due().filter(|(at, _)| *at <= self.now)?;
        let (place, _, happening) = self.agenda.remove(&key)?;
        self.idle = (self.now, 0);
        moved.calls += 1;
        let completion = match happening {
            Happening::Connected(outcome) => Completion::Connected(outcome),
            Happening::Room => Completion::Room,
            Happening::Bytes(bytes, responses) => {
                self.seen.borrow_mut().answered += responses;
                moved.bytes += bytes.len() as u64;
                self.received = vec![0; HEADROOM];
                self.received.extend_from_slice(&bytes);
                Completion::Received(bytes.len())
            }
            Happening::End => Completion::End,
            Happening::Reset => Completion::Failed(Errno::CONNRESET),
        };
        Some((place, completion))
    }

    fn received(&mut self) -> &mut [u8] {
        &mut self.received
    }

    fn finish(&mut self) {}

    fn tcp_info(&self, _place: u32) -> Option<TcpInfo> {
        None
    }

    fn congestion_control(&self, _place: u32) -> Option<String> {
        None
    }

    fn dropped_datagrams(&self, _place: u32) -> Option<u32> {
        None
    }
}
