//! Servers that break rules: the cases of `tests/conformance`, played without sockets or a clock.
//!
//! The table is `tests/conformance/cases.json`, which `python -m conformance` writes. Whoever drives a
//! server carries its bytes and instants; what servers saw of their client is in [`Played`].

mod quic;
mod stream;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde::Deserialize;

pub use quic::QuicPlay;
pub use stream::{Said, StreamPlay};

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
    /// HTTP/3.
    H3,
}

/// Something that a server does; streams are those of HTTP/3, and 0 is that of the request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Bytes of a stream, and whether they are its last.
    Say(u64, Bytes, bool),
    /// RESET_STREAM with a code; of TCP, the connection is reset.
    Reset(u64, u32),
    /// STOP_SENDING with a code.
    Stop(u64, u32),
    /// CONNECTION_CLOSE with a code; over TCP, the last byte has been said.
    Close(u32),
}

/// Bytes as the table has them: each character is one, and a piece that repeats stands there once.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<Piece>")]
pub struct Bytes(pub Vec<u8>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Piece {
    Once(String),
    Repeated(String, usize),
}

impl From<Vec<Piece>> for Bytes {
    fn from(pieces: Vec<Piece>) -> Self {
        let bytes = pieces.into_iter().flat_map(|piece| match piece {
            Piece::Once(text) => latin(&text),
            Piece::Repeated(text, times) => latin(&text).repeat(times),
        });
        Self(bytes.collect())
    }
}

fn latin(text: &str) -> Vec<u8> {
    let byte = |character| u8::try_from(u32::from(character)).expect("a byte");
    text.chars().map(byte).collect()
}

/// What a correct client makes of a case.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Expected {
    /// The request fails.
    Failed {
        /// The engine's kind of failure, or the client's.
        failure: String,
        /// Whether the next request uses the same connection.
        #[serde(default)]
        kept: bool,
    },
    /// The response is taken for what it says.
    Taken {
        /// Its status.
        status: u16,
        /// Its content.
        #[serde(default)]
        content: Bytes,
        /// Some of its fields.
        #[serde(default)]
        fields: Vec<(String, String)>,
        /// All of its trailers.
        #[serde(default)]
        trailers: Vec<(String, String)>,
        /// The statuses of those before it.
        #[serde(default)]
        informational: Vec<u16>,
        /// Whether the next request uses the same connection.
        #[serde(default)]
        kept: bool,
    },
}

impl Expected {
    /// Whether the next request uses the same connection.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::Failed { kept, .. } | Self::Taken { kept, .. } => *kept,
        }
    }
}

/// What a server can see of an error, or of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sight {
    /// The connection is closed: CONNECTION_CLOSE of QUIC, GOAWAY of HTTP/2.
    Close,
    /// A stream is given up: STOP_SENDING of QUIC, RST_STREAM of HTTP/2.
    Stop,
    /// HTTP/2: a PING is answered.
    Pong,
    /// HTTP/2: SETTINGS are acknowledged.
    Settled,
}

/// What a server says, and what a correct client makes of it.
#[derive(Debug, Deserialize)]
pub struct Case {
    /// The version that the server speaks.
    pub version: Version,
    /// Its name, of all of its version.
    pub name: String,
    /// The method of the requests.
    pub method: String,
    /// How many requests are sent, one after the other.
    pub requests: usize,
    /// Once on each connection: of HTTP/2 at the client's preface, else at its first request.
    #[serde(default)]
    pub opening: Vec<Step>,
    /// To each request.
    #[serde(default)]
    pub answer: Vec<Step>,
    /// Whether the first request alone meets all this, and what comes later a good server.
    #[serde(default)]
    pub once: bool,
    /// What the engine makes of it.
    pub engine: Expected,
    /// What the client makes of it; `None` where the client decides above its connection.
    pub client: Option<Expected>,
    /// The code of the error of the requests.
    pub code: Option<u64>,
    /// What the server sees, with its code.
    pub seen: Option<(Sight, u64)>,
}

/// The table.
#[derive(Deserialize)]
struct Table {
    cases: Vec<Case>,
    /// What a good server of HTTP/3 says: see [`Case::once`].
    opening: Vec<Step>,
    answer: Vec<Step>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let json = include_str!("../../../tests/conformance/cases.json");
    TABLE.get_or_init(|| serde_json::from_str(json).expect("the table"))
}

/// Those of a version.
pub fn cases(version: Version) -> impl Iterator<Item = &'static Case> {
    let cases = table().cases.iter();
    cases.filter(move |case| case.version == version)
}

impl Case {
    /// How many connections the requests take: one for all, or one for each.
    pub fn connections(&self, expected: &Expected) -> usize {
        if expected.is_kept() { 1 } else { self.requests }
    }

    /// Fails unless the servers saw what they should have, and nothing else.
    pub fn judge(&self, played: &Played, expected: &Expected) {
        let name = &self.name;
        let requests = self.requests + usize::from(self.once);
        assert_eq!(played.requests, requests, "{name}: requests");
        let connections = self.connections(expected);
        assert_eq!(played.connections, connections, "{name}: connections");
        let due = self.seen;
        assert!(
            due.is_none_or(|due| played.seen.contains(&due)),
            "{name}: {played:?}"
        );
        for (sight, code) in &played.seen {
            let allowed = match sight {
                Sight::Close => [0, H3_NO_ERROR].contains(code) || self.closes(*code),
                Sight::Stop => [H3_REQUEST_CANCELLED, H3_STREAM_CREATION_ERROR].contains(code),
                Sight::Settled | Sight::Pong => true,
            };
            assert!(
                allowed || due == Some((*sight, *code)),
                "{name}: {played:?}"
            );
        }
    }

    /// Whether the server closes the connection by this code.
    fn closes(&self, code: u64) -> bool {
        let closing = |step: &Step| matches!(step, Step::Close(own) if u64::from(*own) == code);
        self.answer.iter().any(closing)
    }
}

// RFC 9114 §8.1: of an ordinary end, and of a stream of an unknown type.
const H3_NO_ERROR: u64 = 0x100;
const H3_REQUEST_CANCELLED: u64 = 0x10c;
const H3_STREAM_CREATION_ERROR: u64 = 0x103;

/// What the servers of a case have seen, over all of its connections.
#[derive(Debug, Default)]
pub struct Played {
    /// Connections on which a request came.
    pub connections: usize,
    /// Requests that came.
    pub requests: usize,
    /// What was seen of errors and answers, with their codes.
    pub seen: BTreeSet<(Sight, u64)>,
}

impl Played {
    /// A connection begins: what is said first.
    fn begin(&mut self, case: &'static Case) -> &'static [Step] {
        self.connections += 1;
        if case.once && self.requests > 0 {
            &table().opening
        } else {
            &case.opening
        }
    }

    /// A request has come.
    fn answer(&mut self, case: &'static Case) -> &'static [Step] {
        self.requests += 1;
        if case.once && self.requests > 1 {
            &table().answer
        } else {
            &case.answer
        }
    }
}
