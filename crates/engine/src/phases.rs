//! How connections were set up: what it took, and which handshakes they were; and what the time of requests
//! consists of.

use serde::{Deserialize, Serialize};
use trilane_transport::tls;

use crate::latency::Durations;
use crate::outcome::Distribution;

/// How connections were set up.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Phases {
    pub(crate) connect: Durations,
    pub(crate) tls: Durations,
    pub(crate) quic: Durations,
    /// From the beginning of a connection to the head of the first response on it.
    pub(crate) first_byte: Durations,
    pub(crate) full: u64,
    pub(crate) resumed: u64,
    pub(crate) early: EarlyData,
    /// Bytes that went and came until requests could be sent.
    pub(crate) handshake_sent: u64,
    pub(crate) handshake_received: u64,
}

/// What the time of requests consists of.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestPhases {
    /// No stream, window or connection was free; where requests are there before they leave.
    pub(crate) wait: Durations,
    /// From the first byte sent to the head of the response.
    pub(crate) ttfb: Durations,
    /// From there to the end of the response.
    pub(crate) body: Durations,
}

impl RequestPhases {
    pub(crate) fn new() -> Self {
        Self {
            wait: Durations::new(),
            ttfb: Durations::new(),
            body: Durations::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        for durations in [&mut self.wait, &mut self.ttfb, &mut self.body] {
            durations.clear();
        }
    }

    pub(crate) fn merge(&mut self, other: &RequestPhases) {
        self.wait.merge(&other.wait);
        self.ttfb.merge(&other.ttfb);
        self.body.merge(&other.body);
    }
}

/// What the time of requests consists of, in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct RequestPhasesOut {
    /// From the intended start, while no stream, window or connection was free; where there is
    /// `latency.response`.
    pub wait: Option<Distribution>,
    /// From the first byte sent to the head of the response.
    pub ttfb: Distribution,
    /// From there to the end of the response.
    pub body: Distribution,
}

/// What became of early data.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EarlyData {
    /// Handshakes in which it was offered and the server took it, and in which it did not.
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
    /// Requests that were sent in it, and those of them that were rejected with it.
    pub(crate) requests: u64,
    pub(crate) requests_rejected: u64,
    /// Those of them that were answered with 425 and sent once more.
    pub(crate) too_early: u64,
}

impl EarlyData {
    fn merge(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.requests += other.requests;
        self.requests_rejected += other.requests_rejected;
        self.too_early += other.too_early;
    }
}

impl Phases {
    pub(crate) fn new() -> Self {
        Self {
            connect: Durations::new(),
            tls: Durations::new(),
            quic: Durations::new(),
            first_byte: Durations::new(),
            full: 0,
            resumed: 0,
            early: EarlyData::default(),
            handshake_sent: 0,
            handshake_received: 0,
        }
    }

    /// A handshake is done, in which so many requests were sent in early data.
    pub(crate) fn count_handshake(&mut self, info: &tls::Info, sent_early: u64) {
        let early = &mut self.early;
        early.requests += sent_early;
        match info.early_data {
            Some(true) => early.accepted += 1,
            Some(false) => {
                early.rejected += 1;
                early.requests_rejected += sent_early;
            }
            None => (),
        }
        if info.resumed {
            self.resumed += 1;
        } else {
            self.full += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Phases) {
        self.connect.merge(&other.connect);
        self.tls.merge(&other.tls);
        self.quic.merge(&other.quic);
        self.first_byte.merge(&other.first_byte);
        self.full += other.full;
        self.resumed += other.resumed;
        self.early.merge(other.early);
        self.handshake_sent += other.handshake_sent;
        self.handshake_received += other.handshake_received;
    }
}
