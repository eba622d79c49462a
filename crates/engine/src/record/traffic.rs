//! What went over the network.

use std::cell::Cell;

use serde::{Deserialize, Serialize};
use trilane_socket::Moved;

use super::MOST_COUNTED;

/// Bytes and packets, since the run began.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) fields_sent_encoded: u64,
    pub(crate) fields_sent_decoded: u64,
    pub(crate) fields_received_encoded: u64,
    pub(crate) fields_received_decoded: u64,
    pub(crate) body_sent: u64,
    pub(crate) body_received: u64,
    pub(crate) datagrams_sent: u64,
    pub(crate) datagrams_received: u64,
    pub(crate) datagrams_dropped: u64,
    pub(crate) segments_sent: u64,
    pub(crate) segments_received: u64,
    pub(crate) retransmits: u64,
    pub(crate) syscalls: u64,
}

impl Traffic {
    /// Counts what was sent.
    #[inline]
    pub(crate) fn add_sent(&mut self, moved: Moved) {
        self.syscalls += moved.calls;
        self.sent += moved.bytes;
    }

    /// Counts what was received.
    #[inline]
    pub(crate) fn add_received(&mut self, moved: Moved) {
        self.syscalls += moved.calls;
        self.received += moved.bytes;
    }

    fn each(&mut self, other: &Traffic, change: impl Fn(&mut u64, u64)) {
        let pairs = [
            (&mut self.sent, other.sent),
            (&mut self.received, other.received),
            (&mut self.fields_sent_encoded, other.fields_sent_encoded),
            (&mut self.fields_sent_decoded, other.fields_sent_decoded),
            (
                &mut self.fields_received_encoded,
                other.fields_received_encoded,
            ),
            (
                &mut self.fields_received_decoded,
                other.fields_received_decoded,
            ),
            (&mut self.body_sent, other.body_sent),
            (&mut self.body_received, other.body_received),
            (&mut self.datagrams_sent, other.datagrams_sent),
            (&mut self.datagrams_received, other.datagrams_received),
            (&mut self.datagrams_dropped, other.datagrams_dropped),
            (&mut self.segments_sent, other.segments_sent),
            (&mut self.segments_received, other.segments_received),
            (&mut self.retransmits, other.retransmits),
            (&mut self.syscalls, other.syscalls),
        ];
        for (mine, theirs) in pairs {
            change(mine, theirs);
        }
    }

    pub(crate) fn add(&mut self, other: &Traffic) {
        self.each(other, |mine, theirs| *mine += theirs);
    }

    /// Whether these can be the counts of a run.
    pub(crate) fn is_plausible(&self) -> bool {
        let most = Cell::new(0);
        Self::default().each(self, |_, theirs| most.set(theirs.max(most.get())));
        most.get() <= MOST_COUNTED
    }

    pub(crate) fn subtract(&mut self, other: &Traffic) {
        self.each(other, |mine, theirs| *mine = mine.saturating_sub(theirs));
    }
}
