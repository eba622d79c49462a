//! What a scripted server does over QUIC, speaking HTTP/3.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use trilane_conformance::QuicPlay;
use trilane_quic_peer::{Identity, QuicPeer, StreamId, TransportConfig};

use super::Happening;
use super::script::{Early, Ending, Seen, Serve};

/// From the server to the client; what the client sends is there at once.
const WAY: Duration = Duration::from_millis(1);
/// HEADERS with `:status: 200` (RFC 9204, Appendix A: 25), DATA with two bytes.
const ANSWER: &[u8] = b"\x01\x03\x00\x00\xd9\x00\x02ok";
/// HEADERS with `:status: 425` (RFC 9204, Appendix A: 70).
const TOO_EARLY: &[u8] = b"\x01\x04\x00\x00\xff\x07";
/// RFC 9114 §8.1.
const H3_NO_ERROR: u32 = 0x100;
const H3_INTERNAL_ERROR: u32 = 0x102;
const H3_REQUEST_REJECTED: u32 = 0x10b;

/// What happens after which time.
type Planned = Vec<(Duration, Happening)>;

/// What a server does when a request has taken its time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    Answer(StreamId),
    TooEarly(StreamId),
    Refuse(StreamId),
    /// No request from this one on was processed.
    Goaway(u64),
    Close(u32),
    /// DATA on the control stream.
    Nonsense,
}

/// The server's end of one connection.
#[derive(Debug)]
pub(super) struct QuicServer {
    serve: Serve,
    begun: Instant,
    peer: QuicPeer,
    play: Option<QuicPlay>,
    requests: usize,
    answered: usize,
    /// The request behind the last that was answered.
    next_request: u64,
    over: bool,
    /// When [`Self::on_timer`] will be called.
    timer: Option<Instant>,
}

impl QuicServer {
    /// Since `begun` there are servers.
    pub(super) fn new(serve: Serve, begun: Instant) -> Self {
        // A certificate that nobody has to believe; making one takes longer than most runs.
        static KNOWING: OnceLock<Identity> = OnceLock::new();
        static FORGETFUL: OnceLock<Identity> = OnceLock::new();
        let identity = match serve.early {
            Early::Rejects => FORGETFUL.get_or_init(|| Identity::forgetful("a.example")),
            Early::Takes | Early::Answers425 => KNOWING.get_or_init(|| Identity::new("a.example")),
        };
        let mut transport = TransportConfig::default();
        if let Some(streams) = serve.streams {
            transport.max_concurrent_bidi_streams(streams.into());
        }
        let play = serve.plays.map(QuicPlay::new);
        let greeting = play
            .as_ref()
            .map_or_else(|| settings(&serve), |_| Vec::new());
        Self {
            peer: QuicPeer::new(identity, transport, greeting),
            play,
            serve,
            begun,
            requests: 0,
            answered: 0,
            next_request: 0,
            over: false,
            timer: None,
        }
    }

    /// Takes a datagram of the client's, and plans what becomes of requests that have come whole.
    pub(super) fn receive(&mut self, now: Instant, datagram: &[u8], seen: &mut Seen) -> Planned {
        self.peer.receive(now, datagram);
        seen.datagrams += 1;
        if let Some(play) = &mut self.play {
            play.hear(&mut self.peer, &mut seen.played);
            return self.transmit(now);
        }
        let early = self.peer.is_handshaking();
        let mut planned = Vec::new();
        for id in self.peer.read() {
            seen.early += u64::from(early);
            let delay = self.serve.takes(seen.taken, now - self.begun);
            if early && self.serve.early == Early::Answers425 {
                planned.push((delay, Happening::Reply(Reply::TooEarly(id))));
            } else if !self.over
                && let Some(reply) = self.respond(id, seen)
            {
                planned.push((delay, Happening::Reply(reply)));
            }
        }
        planned.extend(self.transmit(now));
        planned
    }

    /// A request has taken its time.
    pub(super) fn reply(&mut self, now: Instant, reply: Reply, seen: &mut Seen) -> Planned {
        match reply {
            Reply::Answer(id) => {
                let answer = answer(self.serve.length(self.answered));
                seen.answered += u64::from(self.peer.answer(id, &answer));
            }
            Reply::TooEarly(id) => {
                self.peer.answer(id, TOO_EARLY);
            }
            Reply::Refuse(id) => self.peer.reset(id, H3_REQUEST_REJECTED),
            Reply::Goaway(id) => {
                let mut goaway = vec![7, 8];
                goaway.extend_from_slice(&(id | 0b11 << 62).to_be_bytes());
                self.peer.write_control(&goaway);
                let mut planned = self.transmit(now);
                planned.push((WAY, Happening::Reply(Reply::Close(H3_NO_ERROR))));
                return planned;
            }
            Reply::Nonsense => self.peer.write_control(&[0, 1, 0]),
            Reply::Close(code) => self.peer.close(now, code),
        }
        self.transmit(now)
    }

    /// The time of the timer has come.
    pub(super) fn on_timer(&mut self, now: Instant) -> Planned {
        self.timer = None;
        self.peer.handle_timeout(now);
        self.transmit(now)
    }

    /// What becomes of a request.
    fn respond(&mut self, id: StreamId, seen: &mut Seen) -> Option<Reply> {
        self.requests += 1;
        seen.most_on_one = seen.most_on_one.max(self.requests);
        if self.serve.refuses(self.requests) {
            return Some(Reply::Refuse(id));
        }
        if self.answered < self.serve.answers {
            self.answered += 1;
            self.next_request = u64::from(id) + 4;
            seen.taken += 1;
            return Some(Reply::Answer(id));
        }
        self.over = true;
        if self.serve.ending != Ending::Goaway {
            seen.taken += 1;
        }
        match self.serve.ending {
            Ending::Silence => None,
            Ending::Reset => Some(Reply::Close(H3_INTERNAL_ERROR)),
            Ending::Nonsense => Some(Reply::Nonsense),
            Ending::Close => Some(Reply::Close(H3_NO_ERROR)),
            Ending::Goaway => Some(Reply::Goaway(self.next_request)),
        }
    }

    fn transmit(&mut self, now: Instant) -> Planned {
        let mut planned = Vec::new();
        let mut out = Vec::new();
        loop {
            while self.peer.transmit(now, &mut out) {
                planned.push((WAY, Happening::Datagram(std::mem::take(&mut out))));
            }
            let play = self.play.as_mut();
            if !play.is_some_and(|play| play.go_on(now, &mut self.peer)) {
                break;
            }
        }
        if let Some(at) = self.peer.timeout()
            && self.timer.is_none_or(|timer| at < timer)
        {
            self.timer = Some(at);
            planned.push((at.saturating_duration_since(now), Happening::Timer));
        }
        planned
    }
}

/// A response with so many bytes of content, or the least one.
fn answer(content: Option<u32>) -> Vec<u8> {
    let Some(length) = content else {
        return ANSWER.to_vec();
    };
    // HEADERS as in `ANSWER`, and a length of four bytes for DATA.
    let mut answer = ANSWER[..5].to_vec();
    answer.push(0);
    answer.extend_from_slice(&(length | 0b10 << 30).to_be_bytes());
    answer.resize(answer.len() + length as usize, b'x');
    answer
}

/// The control stream's type, and SETTINGS.
fn settings(serve: &Serve) -> Vec<u8> {
    let mut payload = Vec::new();
    if let Some(section) = serve.section {
        // SETTINGS_MAX_FIELD_SECTION_SIZE, with an integer of four bytes.
        payload.push(6);
        payload.extend_from_slice(&(section | 0b10 << 30).to_be_bytes());
    }
    [&[0, 4, payload.len() as u8][..], &payload].concat()
}
