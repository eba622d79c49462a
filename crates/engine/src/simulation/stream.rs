//! A scripted server's end of one byte stream, speaking HTTP/1.1 or HTTP/2.

use std::collections::BTreeMap;
use std::time::Duration;

use trilane_conformance::{Said, StreamPlay};
use trilane_wire::websocket;

use super::Happening;
use super::script::{Ending, Seen, Serve};
use super::websocket::Session;

/// What happens after which time.
type Planned = Vec<(Duration, Happening)>;

/// The server's end of one connection.
#[derive(Debug)]
pub(super) struct StreamServer {
    serve: Serve,
    play: Option<StreamPlay>,
    is_h2: bool,
    received: Vec<u8>,
    /// HTTP/2: whether the preface has come, and an acknowledgement of the SETTINGS.
    greeted: bool,
    settled: bool,
    requests: usize,
    answered: usize,
    last_answered: u32,
    over: bool,
    room: usize,
    /// Bytes that the client has sent.
    taken: u64,
    /// By stream; over HTTP/1.1 the one of the connection.
    sessions: BTreeMap<u32, Session>,
    /// What the client does not read, it has not been handed.
    pub(super) held: bool,
}

/// What the client wants of the server.
enum Asked {
    Nothing,
    Greeting,
    Answer(Vec<u8>),
    /// A request, with its stream in HTTP/2.
    Request(u32),
    /// A session, with its stream in HTTP/2 and its key in HTTP/1.1.
    Session(u32, Vec<u8>),
    /// What is said in it.
    Said(u32, Vec<u8>),
    /// A stream is reset.
    Reset,
    /// A PING, with what it has in it.
    Ping(Vec<u8>),
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// What a case of the conformance suite says, a millisecond after it was asked.
fn happening(said: Said) -> (Duration, Happening) {
    let happening = match said {
        Said::Bytes(bytes) => Happening::Bytes(bytes, 0),
        Said::End => Happening::End,
        Said::Reset => Happening::Reset,
    };
    (Duration::from_millis(1), happening)
}

impl StreamServer {
    pub(super) fn new(serve: Serve, is_h2: bool) -> Self {
        Self {
            room: serve.room,
            play: serve.plays.map(StreamPlay::new),
            serve,
            is_h2,
            received: Vec::new(),
            greeted: false,
            settled: false,
            requests: 0,
            answered: 0,
            last_answered: 0,
            over: false,
            taken: 0,
            sessions: BTreeMap::new(),
            held: false,
        }
    }

    /// Takes what the socket has room for, and says how much that was. A full socket has room again
    /// when its client is told so.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        self.taken += taken as u64;
        self.received.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Bytes that the client has sent and that were not acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.taken.saturating_sub(self.serve.acknowledges)
    }

    /// Whether the socket takes nothing more now; asked once, it has room again.
    pub(super) fn is_full(&mut self) -> bool {
        let full = self.room == 0;
        if full {
            self.room = self.serve.room;
        }
        full
    }

    /// Reads what the client has sent, so long `at` after the begin.
    pub(super) fn read(&mut self, at: Duration, seen: &mut Seen) -> Planned {
        if let Some(play) = &mut self.play {
            let said = play.receive(&std::mem::take(&mut self.received), &mut seen.played);
            return said.into_iter().map(happening).collect();
        }
        let mut planned = Vec::new();
        while !self.over {
            let asked = if self.is_h2 {
                self.next_frame()
            } else {
                self.next_h1()
            };
            match asked {
                None => break,
                Some(Asked::Nothing) => (),
                Some(Asked::Greeting) => {
                    let settings = self.settings();
                    self.say(Duration::ZERO, &settings, 0, &mut planned);
                }
                Some(Asked::Answer(frame)) => self.say(Duration::ZERO, &frame, 0, &mut planned),
                Some(Asked::Request(id)) => self.respond(id, at, seen, &mut planned),
                Some(Asked::Session(id, key)) => self.accept(id, &key, seen, &mut planned),
                Some(Asked::Reset) => seen.resets += 1,
                Some(Asked::Ping(payload)) => {
                    seen.pings += 1;
                    let answer = frame(6, 1, 0, &payload);
                    self.say(Duration::ZERO, &answer, 0, &mut planned);
                }
                Some(Asked::Said(id, bytes)) => self.hear(id, &bytes, seen, &mut planned),
            }
        }
        planned
    }

    /// Sends in pieces; the last completes so many responses.
    fn say(&self, after: Duration, bytes: &[u8], responses: u64, planned: &mut Planned) {
        let pieces: Vec<_> = bytes.chunks(self.serve.pieces.max(1)).collect();
        let last = pieces.len() - 1;
        for (index, piece) in pieces.into_iter().enumerate() {
            let complete = if index == last { responses } else { 0 };
            planned.push((after, Happening::Bytes(piece.to_vec(), complete)));
        }
    }

    fn respond(&mut self, id: u32, at: Duration, seen: &mut Seen, planned: &mut Planned) {
        self.requests += 1;
        seen.most_on_one = seen.most_on_one.max(self.requests);
        if self.is_h2 && !self.settled {
            seen.unsettled = seen.unsettled.max(self.requests);
            let allowed = self.serve.streams.unwrap_or(u32::MAX) as usize;
            if self.serve.strict && self.requests > allowed {
                self.over = true;
                planned.push((Duration::ZERO, Happening::End));
                return;
            }
        }
        let delay = self.serve.takes(seen.taken, at);
        if self.is_h2 && self.serve.refuses(self.requests) {
            return self.say(delay, &frame(3, 0, id, &7u32.to_be_bytes()), 0, planned);
        }
        if self.answered < self.serve.answers {
            self.answered += 1;
            self.last_answered = id;
            seen.taken += 1;
            if let Some((count, every)) = self.serve.events {
                return self.stream_events(id, delay, count, every, planned);
            }
            let response = if self.is_h2 {
                // `:status: 200` is entry 8 of the static table (RFC 7541, Appendix A).
                frame(1, 0x5, id, &[0x88])
            } else {
                let content = match self.serve.length(self.answered) {
                    Some(length) => "x".repeat(length as usize),
                    None => "ok".to_owned(),
                };
                let length = content.len();
                let surplus = self.serve.surplus;
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{content}{surplus}")
                    .into_bytes()
            };
            return self.say(delay, &response, 1, planned);
        }
        self.over = true;
        let goaway = self.serve.ending == Ending::Goaway && self.is_h2;
        if !goaway {
            seen.taken += 1;
        }
        match self.serve.ending {
            Ending::Silence => (),
            Ending::Reset => planned.push((delay, Happening::Reset)),
            Ending::Nonsense => self.say(delay, b"no HTTP at all\r\n\r\n", 0, planned),
            Ending::Close | Ending::Goaway => {
                if goaway {
                    let mut payload = self.last_answered.to_be_bytes().to_vec();
                    payload.extend_from_slice(&[0; 4]);
                    self.say(delay, &frame(7, 0, 0, &payload), 0, planned);
                }
                planned.push((delay, Happening::End));
            }
        }
    }

    /// Accepts a session.
    fn accept(&mut self, id: u32, key: &[u8], seen: &mut Seen, planned: &mut Planned) {
        self.requests += 1;
        seen.most_on_one = seen.most_on_one.max(self.requests);
        seen.taken += 1;
        self.sessions.insert(id, Session::default());
        let response = if self.is_h2 {
            frame(1, 0x4, id, &[0x88])
        } else {
            let accept = websocket::accept(key);
            let accept = String::from_utf8_lossy(&accept);
            format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes()
        };
        self.say(Duration::ZERO, &response, 0, planned);
    }

    /// Hears what the client says in a session, and answers.
    fn hear(&mut self, id: u32, bytes: &[u8], seen: &mut Seen, planned: &mut Planned) {
        let conversation = self.serve.conversation;
        let Some((conversation, session)) = conversation.zip(self.sessions.get_mut(&id)) else {
            return;
        };
        let (said, ends) = session.hear(&conversation, bytes, seen);
        if session.is_deaf(&conversation) {
            if !self.is_h2 {
                (self.room, self.serve.room) = (0, 0);
            }
        } else if self.is_h2 && !bytes.is_empty() {
            let length = (bytes.len() as u32).to_be_bytes();
            let opened = [frame(8, 0, 0, &length), frame(8, 0, id, &length)].concat();
            self.say(Duration::ZERO, &opened, 0, planned);
        }
        if said.is_empty() {
            return;
        }
        let said = if self.is_h2 {
            let mut pieces = said.chunks(16_384).peekable();
            let mut frames = Vec::new();
            while let Some(piece) = pieces.next() {
                let is_last = ends && pieces.peek().is_none();
                frames.extend(frame(0, u8::from(is_last), id, piece));
            }
            frames
        } else {
            said
        };
        self.say(self.serve.delay, &said, 0, planned);
    }

    /// Answers with events, each a while after the one before, the first with the head.
    fn stream_events(
        &self,
        id: u32,
        delay: Duration,
        count: u32,
        every: Duration,
        planned: &mut Planned,
    ) {
        if self.serve.calls {
            return self.stream_messages(id, delay, count, every, planned);
        }
        const EVENT: &[u8] = b"data: x\n\n";
        for number in 0..count {
            let is_last = number + 1 == count;
            let mut bytes = match (number, self.is_h2) {
                (0, true) => frame(1, 0x4, id, &[0x88]),
                (0, false) => {
                    let length = EVENT.len() * count as usize;
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes()
                }
                _ => Vec::new(),
            };
            if self.is_h2 {
                bytes.extend(frame(0, u8::from(is_last), id, EVENT));
            } else {
                bytes.extend(EVENT);
            }
            let complete = u64::from(is_last);
            self.say(delay + every * number, &bytes, complete, planned);
        }
    }

    /// Answers a gRPC call with messages in the same way, empty ones but for `content`, and behind the last with
    /// status OK.
    fn stream_messages(
        &self,
        id: u32,
        delay: Duration,
        count: u32,
        every: Duration,
        planned: &mut Planned,
    ) {
        let length = self.serve.content.unwrap_or(0);
        let prefix = [&[0], &length.to_be_bytes()[..]].concat();
        let message = [prefix, vec![0; length as usize]].concat();
        for number in 0..count {
            let mut bytes = Vec::new();
            if number == 0 {
                // `:status: 200`, and `content-type` with a value of its own (RFC 7541 §6.2.2).
                let head = [&[0x88, 0x0f, 0x10, 16], &b"application/grpc"[..]].concat();
                bytes.extend(frame(1, 0x4, id, &head));
            }
            bytes.extend(frame(0, 0, id, &message));
            let is_last = number + 1 == count;
            if is_last {
                let trailers = [&[0x00, 11], &b"grpc-status"[..], &[1, b'0']].concat();
                bytes.extend(frame(1, 0x5, id, &trailers));
            }
            self.say(delay + every * number, &bytes, u64::from(is_last), planned);
        }
    }

    /// Takes a request of HTTP/1.1 that has no content.
    fn next_h1(&mut self) -> Option<Asked> {
        if self.sessions.contains_key(&0) {
            let said = std::mem::take(&mut self.received);
            return (!said.is_empty()).then_some(Asked::Said(0, said));
        }
        let end = self
            .received
            .windows(4)
            .position(|four| four == b"\r\n\r\n")?;
        let head: Vec<u8> = self.received.drain(..end + 4).collect();
        if self.serve.conversation.is_none() {
            return Some(Asked::Request(0));
        }
        let head = String::from_utf8_lossy(&head);
        let key = head
            .lines()
            .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
        Some(Asked::Session(0, key.unwrap_or_default().into()))
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
                (1, _) if self.serve.conversation.is_some() => Asked::Session(stream, Vec::new()),
                (1, _) => Asked::Request(stream),
                (0, _) => Asked::Said(stream, payload),
                (3, _) => {
                    self.sessions.remove(&stream);
                    Asked::Reset
                }
                (4, 0) => Asked::Answer(frame(4, 1, 0, &[])),
                (4, _) => {
                    self.settled = true;
                    Asked::Nothing
                }
                (6, 0) => Asked::Ping(payload),
                _ => Asked::Nothing,
            })
        }
    }

    fn settings(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let connect = self.serve.conversation.map(|_| 1);
        let settings = [
            (3u16, self.serve.streams),
            (6, self.serve.section),
            (8, connect),
        ];
        for (id, value) in settings {
            if let Some(value) = value {
                payload.extend_from_slice(&id.to_be_bytes());
                payload.extend_from_slice(&value.to_be_bytes());
            }
        }
        frame(4, 0, 0, &payload)
    }
}
