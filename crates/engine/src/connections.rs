//! The account of connections: how many were tried, came up, and went, and why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::concurrency::Concurrency;
use crate::failure::FailureKind;
use crate::record::MOST_COUNTED;

const KINDS: usize = FailureKind::ALL.len();

/// The connections of one worker, over the whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Connections {
    attempted: u64,
    established: u64,
    failed: [u64; KINDS],
    lost: [u64; KINDS],
    handshakes: u64,
    handshakes_at_most: u64,
    open: u64,
    open_at_most: u64,
    open_at_start: u64,
    exhausted: u64,
    spent: u64,
    /// Those of `established` before the measured part.
    established_before: u64,
}

impl Connections {
    /// Those of a machine of which nothing is known but that so many were open at its last window: as if they had been
    /// there before.
    pub(crate) fn at_least(open: u64) -> Self {
        Self {
            attempted: open,
            established: open,
            open,
            open_at_most: open,
            open_at_start: open,
            established_before: open,
            ..Self::default()
        }
    }

    /// An attempt begins.
    pub(crate) fn attempt(&mut self) {
        self.attempted += 1;
        self.handshakes += 1;
        self.handshakes_at_most = self.handshakes_at_most.max(self.handshakes);
    }

    /// An attempt has come to where requests may be sent.
    pub(crate) fn establish(&mut self) {
        self.handshakes -= 1;
        self.established += 1;
        self.open += 1;
        self.open_at_most = self.open_at_most.max(self.open);
    }

    /// An attempt has failed, or an open connection has ended.
    pub(crate) fn end(&mut self, was_open: bool, kind: FailureKind) {
        if was_open {
            self.open -= 1;
            self.lost[kind as usize] += 1;
        } else {
            self.handshakes -= 1;
            self.failed[kind as usize] += 1;
        }
    }

    /// An open connection has carried as many requests as it may, and is closed.
    pub(crate) fn spend(&mut self) {
        self.open -= 1;
        self.spent += 1;
    }

    /// The attempt that has just failed did so for want of a descriptor or port.
    pub(crate) fn exhaust(&mut self) {
        self.exhausted += 1;
    }

    /// The measured part begins.
    pub(crate) fn begin_measuring(&mut self) {
        self.open_at_start = self.open;
        self.established_before = self.established;
    }

    /// Attempts that came to where requests may be sent, in the measured part.
    pub(crate) fn established_measured(&self) -> u64 {
        self.established - self.established_before
    }

    /// Attempts that came to where requests may be sent.
    pub(crate) fn established(&self) -> u64 {
        self.established
    }

    /// Attempts that did not.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Whether these can be the counts of a run: they come from another machine, and are added up.
    pub(crate) fn is_plausible(&self) -> bool {
        let counts = [
            self.attempted,
            self.handshakes,
            self.handshakes_at_most,
            self.open,
            self.open_at_most,
            self.open_at_start,
            self.exhausted,
            self.spent,
        ];
        let mut counts = counts.iter().chain(&self.failed).chain(&self.lost);
        counts.all(|&count| count <= MOST_COUNTED)
            && self.established <= self.attempted
            && self.established_before <= self.established
    }

    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: &Connections) {
        let pairs = [
            (&mut self.attempted, other.attempted),
            (&mut self.established, other.established),
            (&mut self.handshakes, other.handshakes),
            (&mut self.handshakes_at_most, other.handshakes_at_most),
            (&mut self.open, other.open),
            (&mut self.open_at_most, other.open_at_most),
            (&mut self.open_at_start, other.open_at_start),
            (&mut self.exhausted, other.exhausted),
            (&mut self.spent, other.spent),
            (&mut self.established_before, other.established_before),
        ];
        for (mine, theirs) in pairs {
            *mine += theirs;
        }
        let kinds = self.failed.iter_mut().chain(&mut self.lost);
        for (mine, theirs) in kinds.zip(other.failed.iter().chain(&other.lost)) {
            *mine += theirs;
        }
    }
}

/// The account of connections, over the whole run with its warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionsOut {
    /// Attempts.
    pub attempted: u64,
    /// Attempts that came to where requests may be sent.
    pub established: u64,
    /// Those of them that came to there in the measured part.
    pub established_measured: u64,
    /// Attempts that did not, by kind.
    pub failed: BTreeMap<&'static str, u64>,
    /// Established ones that ended before the run did, by what ended them.
    pub lost: BTreeMap<&'static str, u64>,
    /// Established ones that were closed in order before the run ended, as each had carried the
    /// requests that a connection was to carry.
    pub spent: u64,
    /// Of `failed`, those for which this machine had no file descriptor or local port left.
    pub exhausted: u64,
    /// Open when the measured part began.
    pub open_at_start: u64,
    /// Open when it ended.
    pub open_at_end: u64,
    /// Open at one time at most: the sum over the threads, which need not have met.
    pub open_at_most: u64,
    /// Attempts under way at one time at most: the sum over the threads.
    pub handshakes_at_most: u64,
    /// Requests in flight at one time at most: the sum over the threads.
    pub in_flight_at_most: u64,
    /// The fewest streams at one time that the server allowed on a connection:
    /// SETTINGS_MAX_CONCURRENT_STREAMS of HTTP/2 (RFC 9113 §6.5.2); over HTTP/3, whose credit is for
    /// all streams of a connection together (RFC 9000 §4.6), initial_max_streams_bidi or, where it
    /// was more, the most that were open. None where no server set a limit.
    pub streams_allowed: Option<u64>,
}

impl ConnectionsOut {
    pub(crate) fn new(counts: &Connections, concurrency: &Concurrency) -> Self {
        let by_kind = |counts: &[u64; KINDS]| {
            let named = FailureKind::ALL.iter().map(|kind| kind.name()).zip(*counts);
            named.filter(|&(_, count)| count > 0).collect()
        };
        Self {
            attempted: counts.attempted,
            established: counts.established,
            established_measured: counts.established_measured(),
            failed: by_kind(&counts.failed),
            lost: by_kind(&counts.lost),
            spent: counts.spent,
            exhausted: counts.exhausted,
            open_at_start: counts.open_at_start,
            open_at_end: counts.open,
            open_at_most: counts.open_at_most,
            handshakes_at_most: counts.handshakes_at_most,
            in_flight_at_most: concurrency.at_most,
            streams_allowed: concurrency.allowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_ends_in_one_way() {
        let mut counts = Connections::default();
        for _ in 0..3 {
            counts.attempt();
        }
        counts.establish();
        counts.establish();
        counts.end(false, FailureKind::Refused);
        counts.begin_measuring();
        counts.end(true, FailureKind::Goaway);
        counts.attempt();
        counts.establish();
        counts.spend();
        let mut all = Connections::default();
        all.merge(&counts);
        all.merge(&counts);
        let out = ConnectionsOut::new(&all, &Concurrency::default());
        assert_eq!((out.attempted, out.established), (8, 6));
        assert_eq!((out.established_measured, out.spent), (2, 2));
        assert_eq!(out.failed, BTreeMap::from([("refused", 2)]));
        assert_eq!(out.lost, BTreeMap::from([("goaway", 2)]));
        assert_eq!((out.open_at_start, out.open_at_end), (4, 2));
        assert_eq!((out.open_at_most, out.handshakes_at_most), (4, 6));
    }
}
