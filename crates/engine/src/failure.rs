//! The kinds of failure that a run counts.

use serde::{Deserialize, Serialize};
use trilane_wire::ErrorKind;

/// Why a request failed. A connection attempt that fails counts as one failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
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
    /// A response is not what a scenario expects.
    Check,
    /// The server asked for more than our limits grant.
    Limit,
}

impl FailureKind {
    /// Every kind, in the order of reports.
    pub const ALL: [FailureKind; 14] = [
        FailureKind::Dns,
        FailureKind::Connect,
        FailureKind::Refused,
        FailureKind::Tls,
        FailureKind::HandshakeTimeout,
        FailureKind::Timeout,
        FailureKind::Closed,
        FailureKind::Reset,
        FailureKind::Goaway,
        FailureKind::Protocol,
        FailureKind::Status,
        FailureKind::Body,
        FailureKind::Check,
        FailureKind::Limit,
    ];

    /// The name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Dns => "dns",
            FailureKind::Connect => "connect",
            FailureKind::Refused => "refused",
            FailureKind::Tls => "tls",
            FailureKind::HandshakeTimeout => "handshake_timeout",
            FailureKind::Timeout => "timeout",
            FailureKind::Closed => "closed",
            FailureKind::Reset => "reset",
            FailureKind::Goaway => "goaway",
            FailureKind::Protocol => "protocol",
            FailureKind::Status => "status",
            FailureKind::Body => "body",
            FailureKind::Check => "check",
            FailureKind::Limit => "limit",
        }
    }

    /// Whether the response time is only known to be longer than what was observed. A reset or a wrong
    /// status ends a request at its own time, which says nothing of how long a response takes.
    pub(crate) fn is_censored(self) -> bool {
        self == FailureKind::Timeout
    }
}

impl From<ErrorKind> for FailureKind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Closed => FailureKind::Closed,
            ErrorKind::Reset => FailureKind::Reset,
            ErrorKind::Goaway => FailureKind::Goaway,
            ErrorKind::Protocol => FailureKind::Protocol,
            ErrorKind::Body => FailureKind::Body,
            ErrorKind::Limit => FailureKind::Limit,
        }
    }
}

/// A count and one example message for each kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Failures {
    counts: [u64; FailureKind::ALL.len()],
    examples: [Option<String>; FailureKind::ALL.len()],
}

impl Failures {
    pub(crate) fn add(&mut self, kind: FailureKind, example: impl FnOnce() -> String) {
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

    /// So many of each kind, in the order of [`FailureKind::ALL`], whose messages are not known.
    pub(crate) fn of_counts(counts: [u64; FailureKind::ALL.len()], instead: &str) -> Self {
        let example = |count: &u64| (*count > 0).then(|| instead.to_owned());
        Self {
            examples: counts.each_ref().map(example),
            counts,
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

    /// How many of each kind, in the order of [`FailureKind::ALL`].
    pub(crate) fn counts(&self) -> [u64; FailureKind::ALL.len()] {
        self.counts
    }

    /// The sum over all kinds.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Kind, count and example of each kind that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (FailureKind, u64, &str)> {
        FailureKind::ALL.into_iter().filter_map(|kind| {
            let count = self.counts[kind as usize];
            let example = self.examples[kind as usize].as_deref().unwrap_or_default();
            (count > 0).then_some((kind, count, example))
        })
    }
}
