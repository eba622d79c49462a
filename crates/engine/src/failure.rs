//! The kinds of failure that a run counts.

use trilane_wire::ErrorKind;

/// Why a request failed. A connection attempt that fails counts as one failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The name did not resolve.
    Dns,
    /// The connection could not be made.
    Connect,
    /// The port is closed.
    Refused,
    /// The TLS handshake failed, or the peer lacks the version asked for.
    Tls,
    /// TCP, TLS or QUIC was not ready within the connect timeout.
    HandshakeTimeout,
    /// No complete response within the timeout.
    Timeout,
    /// The connection ended before the response began.
    Closed,
    /// The stream or the connection was reset.
    Reset,
    /// The server went away (GOAWAY).
    Goaway,
    /// The server broke the protocol.
    Protocol,
    /// The status code is not among the expected.
    Status,
    /// The body is not what was announced or expected.
    Body,
    /// The server asked for more than our limits grant.
    Limit,
}

impl Kind {
    /// Every kind, in the order of reports.
    pub const ALL: [Kind; 13] = [
        Kind::Dns,
        Kind::Connect,
        Kind::Refused,
        Kind::Tls,
        Kind::HandshakeTimeout,
        Kind::Timeout,
        Kind::Closed,
        Kind::Reset,
        Kind::Goaway,
        Kind::Protocol,
        Kind::Status,
        Kind::Body,
        Kind::Limit,
    ];

    /// The name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Dns => "dns",
            Kind::Connect => "connect",
            Kind::Refused => "refused",
            Kind::Tls => "tls",
            Kind::HandshakeTimeout => "handshake_timeout",
            Kind::Timeout => "timeout",
            Kind::Closed => "closed",
            Kind::Reset => "reset",
            Kind::Goaway => "goaway",
            Kind::Protocol => "protocol",
            Kind::Status => "status",
            Kind::Body => "body",
            Kind::Limit => "limit",
        }
    }

    /// Whether the response time is only known to be longer than what was observed. A reset or a wrong
    /// status ends a request at its own time, which says nothing of how long a response takes.
    pub(crate) fn is_censored(self) -> bool {
        self == Kind::Timeout
    }
}

impl From<ErrorKind> for Kind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Closed => Kind::Closed,
            ErrorKind::Reset => Kind::Reset,
            ErrorKind::Goaway => Kind::Goaway,
            ErrorKind::Protocol => Kind::Protocol,
            ErrorKind::Body => Kind::Body,
            ErrorKind::Limit => Kind::Limit,
        }
    }
}

/// A count and one example message for each kind.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    counts: [u64; Kind::ALL.len()],
    examples: [Option<String>; Kind::ALL.len()],
}

impl Failures {
    pub(crate) fn add(&mut self, kind: Kind, example: impl FnOnce() -> String) {
        let index = kind as usize;
        self.counts[index] += 1;
        if self.examples[index].is_none() {
            let mut text = example();
            if let Some((end, _)) = text.char_indices().nth(300) {
                text.truncate(end);
            }
            self.examples[index] = Some(text);
        }
    }

    pub(crate) fn merge(&mut self, other: Failures) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        for (mine, theirs) in self.examples.iter_mut().zip(other.examples) {
            if mine.is_none() {
                *mine = theirs;
            }
        }
    }

    /// The sum over all kinds.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Kind, count and example of each kind that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, u64, &str)> {
        Kind::ALL.into_iter().filter_map(|kind| {
            let count = self.counts[kind as usize];
            let example = self.examples[kind as usize].as_deref().unwrap_or_default();
            (count > 0).then_some((kind, count, example))
        })
    }
}
