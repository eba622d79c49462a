//! What one worker counts of its sessions.

use serde::{Deserialize, Serialize};

use crate::latency::Durations;

/// The counts of one worker; nothing grows with the number of messages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Mode `echo`: from a message to its echo.
    pub(crate) round_trip: Durations,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            sent: 0,
            received: 0,
            round_trip: Durations::new(),
        }
    }

    /// Begins anew, at the end of the warm-up.
    pub(crate) fn clear(&mut self) {
        (self.sent, self.received) = (0, 0);
        self.round_trip.clear();
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.round_trip.merge(&other.round_trip);
    }
}
