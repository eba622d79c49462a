//! What one connection carries of the requests of its place: from when on, how many, and until when.

use trilane_transport::tls;

use crate::plan::Plan;
use crate::record::Recorder;
use crate::tally::Pending;

use super::Exchanges;

/// How long a ticket is waited for beyond the time that the connection has lasted, and at most in all,
/// in nanoseconds.
const TICKET_PATIENCE: u64 = 250_000_000;
const MOST_PATIENCE: u64 = 1_000_000_000;

impl Exchanges {
    /// A connection is begun, on which these will be.
    pub(crate) fn begin_connection(&mut self, now: u64) {
        self.left = self.most;
        self.began = now;
        self.unanswered = true;
        self.unused = true;
        self.sent_early = 0;
        self.staying_until = 0;
        self.calls.begin_connection();
        self.sessions.begin_connection();
    }

    /// The connection has ended. In the closed model the requests that it would have carried wait for
    /// the next one, which the response time tells where connections are replaced on purpose.
    pub(crate) fn end_connection(&mut self, plan: &Plan, now: u64) {
        if plan.requests_per_connection.is_some() && !plan.sends_when_due() {
            self.waiting_since = now;
        }
    }

    /// The handshake is done: adds what it was, and what became of early data, to the accounts.
    pub(crate) fn handshake_done(&mut self, info: &tls::Info, recorder: &mut Recorder) {
        let sent_early = self.sent_early;
        recorder.of_connection(self.began, |phases| {
            phases.count_handshake(info, sent_early);
        });
        if info.early_data == Some(false) {
            // Those that QUIC carried have failed, and wait to be sent once more; TLS sends the same
            // bytes again by itself.
            self.left = self.most - self.in_flight();
            for stream in &mut self.slots {
                stream.early = false;
            }
        }
    }

    /// When the present connection was begun.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }

    /// Whether the connection has carried as many requests as it may, and the last of them has ended.
    #[inline]
    fn are_spent(&self) -> bool {
        self.left == 0 && self.in_flight() == 0
    }

    /// Whether the connection has carried as many requests as it may, and may be closed. The last
    /// answer may overtake the ticket that the next connection needs: where that is awaited, it is
    /// waited for, unless the server has been found to send none.
    #[inline]
    pub(crate) fn may_close(&mut self, now: u64, awaits_ticket: impl FnOnce() -> bool) -> bool {
        self.are_spent() && (!self.stays || self.stops_staying(now, awaits_ticket()))
    }

    fn stops_staying(&mut self, now: u64, awaits_ticket: bool) -> bool {
        if !awaits_ticket {
            return true;
        }
        if self.staying_until == 0 {
            let lasted = now.saturating_sub(self.began);
            self.staying_until = now + MOST_PATIENCE.min(TICKET_PATIENCE + lasted);
        }
        self.stays = now < self.staying_until;
        !self.stays
    }

    /// Until when a connection that has carried what it may stays for a ticket, where it does.
    pub(crate) fn staying_until(&self) -> Option<u64> {
        (self.staying_until != 0).then_some(self.staying_until)
    }

    /// When a new request that leaves now was there to be sent.
    #[inline]
    pub(crate) fn intended(&self, pending: Pending) -> u64 {
        // Each of the streams had one that waited.
        let waited = self.waiting_since != 0
            && pending.start == 0
            && self.most - self.left < self.slots.len() as u64;
        if waited {
            self.waiting_since
        } else {
            pending.intended
        }
    }
}
