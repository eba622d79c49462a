//! What scripted servers do, and what they have seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trilane_conformance::{Case, Played};

use super::websocket::Conversation;

/// How a server's end of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It sends its last byte.
    Close,
    /// It resets the connection; over QUIC, it closes it with H3_INTERNAL_ERROR.
    Reset,
    /// It says nothing more, and keeps the connection.
    Silence,
    /// It sends GOAWAY, which tells the last request that was answered, and closes. HTTP/1.1: as
    /// `Close`.
    Goaway,
    /// It sends what breaks the rules.
    Nonsense,
}

/// What a server does with one connection.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a run has a few of them, and only in tests"
)]
pub(crate) enum Story {
    /// Nobody listens.
    Refuse,
    /// Nothing is ever answered.
    Deaf,
    /// It answers requests.
    Serve(Serve),
    /// It answers requests on these ports, each in its way, and nobody listens on others.
    Listen(Vec<(u16, Serve)>),
}

impl Story {
    /// What it is on a port.
    pub(super) fn at(self, port: u16) -> Self {
        let Self::Listen(listening) = self else {
            return self;
        };
        let mut listening = listening.into_iter();
        let found = listening.find(|(its_own, _)| *its_own == port);
        found.map_or(Self::Refuse, |(_, serve)| Self::Serve(serve))
    }
}

/// How long the answers of a server take, where that is not the same for all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Latency {
    /// The second time for one of ten, the first for the others.
    Bimodal(Duration, Duration),
    /// Exponentially distributed, with this mean.
    Exponential(Duration),
    /// What comes in the last `length` of each `period` waits for its end.
    Stalls { length: Duration, period: Duration },
}

impl Latency {
    /// What the answer takes to request `number` of all, which came `at` so long after the begin. The
    /// numbers are spread evenly, by van der Corput's sequence, so that few of them have the
    /// quantiles of the distribution.
    fn of(self, number: u64, at: Duration) -> Duration {
        let share = number.reverse_bits() as f64 / 2f64.powi(64);
        match self {
            Self::Bimodal(most, _) if share < 0.9 => most,
            Self::Bimodal(_, few) => few,
            Self::Exponential(mean) => mean.mul_f64(-(1.0 - share).ln()),
            Self::Stalls { length, period } => {
                let within = Duration::from_nanos((at.as_nanos() % period.as_nanos()) as u64);
                if within < period - length {
                    Duration::ZERO
                } else {
                    period - within
                }
            }
        }
    }
}

/// How a server answers.
#[derive(Clone, Debug)]
pub(crate) struct Serve {
    /// How long each answer takes.
    pub(crate) delay: Duration,
    /// What comes on top of that.
    pub(crate) latency: Option<Latency>,
    /// How many requests it answers before the ending.
    pub(crate) answers: usize,
    pub(crate) ending: Ending,
    /// Bytes that it sends at once; not over QUIC.
    pub(crate) pieces: usize,
    /// Bytes that the socket takes at once; it has room again after a millisecond. Not over QUIC.
    pub(crate) room: usize,
    /// Bytes of all that it is sent that it acknowledges; not over QUIC.
    pub(crate) acknowledges: u64,
    /// HTTP/2: SETTINGS_MAX_CONCURRENT_STREAMS. HTTP/3: the streams that QUIC allows at one time.
    pub(crate) streams: Option<u32>,
    /// HTTP/2: whether it closes a connection on which more come before its SETTINGS are acknowledged.
    pub(crate) strict: bool,
    /// HTTP/2: SETTINGS_MAX_HEADER_LIST_SIZE. HTTP/3: SETTINGS_MAX_FIELD_SECTION_SIZE.
    pub(crate) section: Option<u32>,
    /// Every so-manieth request is refused by a proof that nothing was done for it; not in HTTP/1.1.
    pub(crate) refuses: Option<usize>,
    /// What it does about early data; over QUIC.
    pub(crate) early: Early,
    /// How many events are the content of each answer, and how long after the one before each comes;
    /// not over QUIC.
    pub(crate) events: Option<(u32, Duration)>,
    /// Over HTTP/2: requests are gRPC calls, and events the messages that they are answered with.
    pub(crate) calls: bool,
    /// Bytes of content of each answer, not over HTTP/2; none: two of its own. Of gRPC calls those of each message.
    pub(crate) content: Option<u32>,
    /// HTTP/1.1: what comes behind each answer, and belongs to none.
    pub(crate) surplus: &'static str,
    /// Behind so many answers on a connection content has this length instead.
    pub(crate) then: Option<(usize, u32)>,
    /// Requests are WebSocket sessions, accepted at once, in which it says this, each time after `delay`;
    /// not over QUIC.
    pub(crate) conversation: Option<Conversation>,
    /// Which case of the conformance suite it is, in place of all this.
    pub(crate) plays: Option<&'static Case>,
}

/// What a server does about early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    /// It takes it.
    Takes,
    /// It answers requests in it with 425.
    Answers425,
    /// It knows no sessions, and rejects it.
    Rejects,
}

impl Serve {
    /// A server that answers everything at once.
    pub(crate) fn well() -> Self {
        Self {
            delay: Duration::from_millis(1),
            latency: None,
            answers: usize::MAX,
            ending: Ending::Close,
            pieces: usize::MAX,
            room: usize::MAX,
            acknowledges: u64::MAX,
            streams: None,
            strict: false,
            section: None,
            refuses: None,
            early: Early::Takes,
            events: None,
            calls: false,
            content: None,
            surplus: "",
            then: None,
            conversation: None,
            plays: None,
        }
    }

    /// How long the answer takes to request `number` of all servers', which came so long `at` after
    /// the begin.
    pub(super) fn takes(&self, number: u64, at: Duration) -> Duration {
        let more = self.latency.map(|latency| latency.of(number, at));
        self.delay + more.unwrap_or_default()
    }

    /// The length of the content of the last of so many answers on a connection, where it was said.
    pub(super) fn length(&self, answers: usize) -> Option<u32> {
        let then = self.then.filter(|(first, _)| answers > *first);
        then.map_or(self.content, |(_, length)| Some(length))
    }

    /// Whether the last of so many requests is refused.
    pub(super) fn refuses(&self, requests: usize) -> bool {
        self.refuses
            .is_some_and(|every| requests.is_multiple_of(every))
    }
}

/// What the servers have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connects: u64,
    /// UDP sockets that the client has opened.
    pub(crate) udp_sockets: u64,
    /// Requests that came on one connection, at most.
    pub(crate) most_on_one: usize,
    /// Requests that came and were not refused by a proof that nothing was done for them.
    pub(crate) taken: u64,
    /// The same by the port that they came to.
    pub(crate) taken_at: BTreeMap<u16, u64>,
    /// Datagrams of the client's.
    pub(crate) datagrams: u64,
    /// Bytes that were thrown away.
    pub(crate) discarded: u64,
    /// Requests that came in early data.
    pub(crate) early: u64,
    /// Complete responses that the client has been handed; over QUIC, that were given to QUIC.
    pub(crate) answered: u64,
    /// Masks of frames of WebSocket.
    pub(crate) masks: BTreeSet<[u8; 4]>,
    pub(crate) pongs: u64,
    /// Codes of Close frames.
    pub(crate) farewells: Vec<Option<u16>>,
    /// Bytes of sessions that came and were not read.
    pub(crate) unread: usize,
    /// HTTP/2: streams that the client has reset.
    pub(crate) resets: u64,
    /// HTTP/2: requests that came on one connection before its SETTINGS were acknowledged, at most.
    pub(crate) unsettled: usize,
    /// PINGs that came over HTTP/2.
    pub(crate) pings: u64,
    /// Of a case of the conformance suite.
    pub(crate) played: Played,
}

impl Seen {
    /// What `act` sees of requests was seen on a port.
    pub(super) fn counting<T>(&mut self, port: u16, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.taken;
        let done = act(self);
        *self.taken_at.entry(port).or_default() += self.taken - before;
        done
    }
}
