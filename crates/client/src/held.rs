//! Requests that wait until the peer has said how many it allows at a time.
//!
//! RFC 9113 §3.4 allows a client to send requests before the server's SETTINGS have come, but a server that
//! allows few may refuse the rest, or end the connection. So where nothing is known of the server, the first
//! request leaves at once, and the others leave when its SETTINGS have come. What it has no room for then
//! fails as not sent, so that whoever has more connections sends it on another.

use trilane_wire::{Refused, Request, StreamId};

use crate::connection::refused;
use crate::slots::Slots;
use crate::state::State;
use crate::{Error, Kind};

/// Most requests of a connection before the peer's SETTINGS, sent and held: RFC 9113 §6.5.2 recommends that no
/// server allow fewer than 100.
const MOST_BEFORE_SETTINGS: usize = 100;

impl State {
    /// How many more requests [`Self::submit`] takes now.
    pub(crate) fn capacity(&self) -> usize {
        if self.unsettled && !self.link.is_closing() {
            MOST_BEFORE_SETTINGS.saturating_sub(self.outstanding())
        } else {
            self.link.capacity().saturating_sub(self.held.len())
        }
    }

    /// Requests that were taken and have not ended.
    pub(crate) fn outstanding(&self) -> usize {
        self.link.outstanding() + self.held.len()
    }

    /// Sends a request; `None` where it is held.
    pub(crate) fn submit(
        &mut self,
        request: Request,
        slot: u32,
    ) -> Result<Option<StreamId>, Refused> {
        let first = self.link.outstanding() == 0 || !self.unsettled;
        if (first && self.held.is_empty()) || self.link.is_closing() {
            return self.link.submit(&request, slot).map(Some);
        }
        if self.capacity() == 0 {
            return Err(Refused::Full);
        }
        self.held.push_back((slot, request));
        Ok(None)
    }

    /// Sends what was held, as far as the peer's SETTINGS allow, once these have come.
    pub(crate) fn send_held(&mut self) {
        self.unsettled = self.unsettled && self.link.awaits_settings();
        if self.unsettled || self.held.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        for (slot, request) in held {
            match self.link.submit(&request, slot) {
                Ok(id) => self.slots.sent(slot, id.number),
                // Its caller gives its content in pieces, which cannot be given again elsewhere: it waits
                // for room here.
                Err(Refused::Full) if self.slots.get(slot).upload.is_some() => {
                    self.held.push_back((slot, request));
                }
                Err(reason) => self.slots.fail(slot, unsent(reason)),
            }
        }
    }

    /// Takes back a request that is held. False where it is not.
    pub(crate) fn take_back(&mut self, slot: u32) -> bool {
        let before = self.held.len();
        self.held.retain(|(other, _)| *other != slot);
        self.held.len() < before
    }

    /// The connection is over: what is held fails as never sent. A peer that breaks rules would break them
    /// again, with each of these: there it fails as the others do.
    pub(crate) fn fail_held(&mut self, error: &Error) {
        let ended = matches!(error.kind, Kind::Closed | Kind::Reset | Kind::Goaway);
        for (slot, _) in std::mem::take(&mut self.held) {
            let error = error.clone();
            self.slots
                .fail(slot, if ended { error.unsent() } else { error });
        }
    }
}

impl Slots {
    /// A request that was held has been sent.
    fn sent(&mut self, slot: u32, number: u64) {
        let place = self.get_mut(slot);
        (place.held, place.number) = (false, number);
    }
}

/// Why a request was not sent. A connection that takes no more requests says nothing against this one.
fn unsent(reason: Refused) -> Error {
    let error = refused(reason);
    match reason {
        Refused::Draining => Error {
            kind: Kind::Goaway,
            ..error
        },
        Refused::Exhausted => Error {
            kind: Kind::Full,
            ..error
        },
        _ => error,
    }
}
