//! How connections were set up: what it took, and which handshakes they were.

use trilane_transport::tls;

use crate::latency::Durations;

/// How connections were set up.
#[derive(Debug)]
pub(crate) struct Phases {
    pub(crate) connect: Durations,
    pub(crate) tls: Durations,
    pub(crate) quic: Durations,
    /// From the beginning of a connection to the head of the first response on it.
    pub(crate) first_byte: Durations,
    pub(crate) full: u64,
    pub(crate) resumed: u64,
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
        }
    }

    /// A handshake is done.
    pub(crate) fn count_handshake(&mut self, info: &tls::Info) {
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
    }
}
