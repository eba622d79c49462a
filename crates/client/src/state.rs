//! What is changed under the lock of a connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::Thread;
use std::time::Instant;

use trilane_wire::Request;

use crate::keeper::Care;
use crate::link::{Descriptors, Link, Turn};
use crate::slots::Slots;
use crate::{Error, Kind, Version};

/// Reads of one turn, after which others have the lock.
const READS_PER_TURN: usize = 8;

/// What is changed under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) link: Link,
    pub(crate) slots: Slots,
    /// None that are open once the connection was closed. Who waits for them without the lock has them too.
    pub(crate) descriptors: Arc<Descriptors>,
    /// Whether a thread leads.
    pub(crate) leading: bool,
    /// Whether it sleeps, and until when.
    pub(crate) sleeping: bool,
    pub(crate) sleeping_until: Option<Instant>,
    /// When the keeper comes.
    pub(crate) care: Care,
    /// Threads that wait for the one who leads.
    pub(crate) followers: VecDeque<Thread>,
    /// Requests that wait for the peer's SETTINGS, or for room behind these, by their places and in order.
    pub(crate) held: VecDeque<(u32, Request)>,
    /// Whether nothing is known of how many the peer allows at a time.
    pub(crate) unsettled: bool,
    /// Why the connection is over.
    pub(crate) failure: Option<Error>,
    /// What [`Link::ping`] gave when the peer was asked whether it is there, until it has answered.
    pub(crate) doubt: Option<u64>,
}

impl State {
    /// Asks the peer whether it is there, unless it is being asked.
    pub(crate) fn doubt(&mut self) {
        if self.doubt.is_none() {
            self.doubt = self.link.ping();
        }
    }

    /// Whether the peer has been asked and has not answered.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.doubt = self.doubt.filter(|&before| !self.link.has_answered(before));
        self.doubt.is_some()
    }

    /// Writes what there is, as far as the socket takes it.
    pub(crate) fn flush(&mut self) {
        self.settle();
        self.link.flush(&self.descriptors.socket, &mut self.slots);
        // What the socket took makes room for more content.
        while !self.slots.uploading.is_empty() && self.settle() {
            self.link.flush(&self.descriptors.socket, &mut self.slots);
        }
    }

    /// Reads what there is and does what is due.
    pub(crate) fn turn(&mut self, readable: bool) {
        if self.failure.is_some() {
            return;
        }
        if let Some(due) = self.link.timeout() {
            let now = Instant::now();
            if due <= now
                && let Turn::Over(error) = self.link.handle_timeout(now, &mut self.slots)
            {
                return self.over(error);
            }
        }
        if readable {
            for _ in 0..READS_PER_TURN {
                if !self.link.may_read() {
                    break;
                }
                match self.link.read(&self.descriptors.socket, &mut self.slots) {
                    Turn::More => (),
                    Turn::Drained => break,
                    Turn::Over(error) => return self.over(error),
                }
                self.settle();
            }
        }
        self.settle();
    }

    /// Sends what was held, pauses readers that are behind, and hands content of requests over. True where
    /// content moved.
    pub(crate) fn settle(&mut self) -> bool {
        self.send_held();
        while let Some(slot) = self.slots.full.pop() {
            let place = self.slots.get(slot);
            if place.live && place.paused {
                self.link.pause(place.id(slot));
            }
        }
        let mut moved = false;
        let mut index = 0;
        while index < self.slots.uploading.len() && self.link.has_room() {
            let slot = self.slots.uploading[index];
            let (done, any) = self.advance(slot);
            moved |= any;
            if done {
                self.slots.uploading.swap_remove(index);
            } else {
                index += 1;
            }
            if any {
                self.slots.notify(slot);
            }
        }
        moved
    }

    /// Hands over content of one request: whether nothing is left to do, and whether any moved.
    fn advance(&mut self, slot: u32) -> (bool, bool) {
        let place = self.slots.get_mut(slot);
        if place.held {
            return (false, false);
        }
        let id = place.id(slot);
        let Some(upload) = &mut place.upload else {
            return (true, false);
        };
        if upload.open && self.link.upload(id) != trilane_wire::Upload::Open {
            upload.open = false;
        }
        if !upload.open {
            upload.pending = Vec::new();
            upload.sent = 0;
            if place.ended && self.link.version() == Version::H3 {
                // HTTP/3 leaves our direction open when the response comes first.
                self.link.cancel(id);
            }
            return (true, true);
        }
        let waiting = &upload.pending[upload.sent..];
        let taken = if waiting.is_empty() {
            0
        } else {
            self.link.write(id, waiting)
        };
        upload.sent += taken;
        if upload.sent < upload.pending.len() {
            return (false, taken > 0);
        }
        upload.pending.clear();
        upload.sent = 0;
        if let Some(trailers) = upload.finish.take() {
            upload.open = false;
            if !self.link.finish(id, &trailers) {
                // Everything else was looked at when they were handed over.
                let message = "the trailers of the request are larger than the server accepts";
                self.slots.fail(slot, Error::new(Kind::Local, message));
                if !self.link.cancel(id) {
                    self.over(Error::new(Kind::Closed, "a request could not be ended"));
                }
            }
        }
        (true, true)
    }

    /// The connection is over: whatever is outstanding ends with it.
    pub(crate) fn over(&mut self, error: Error) {
        if self.failure.is_none() && self.link.version() == Version::H3 {
            self.slots.explain(&error);
        }
        self.fail_held(&error);
        for slot in self.slots.open_slots() {
            self.slots.fail(slot, error.clone());
        }
        if self.failure.is_none() {
            self.failure = Some(self.slots.with_farewell(error));
        }
    }

    /// Wakes a thread that can lead, if nobody does.
    pub(crate) fn hand_over(&mut self) {
        if !self.leading
            && let Some(next) = self.followers.pop_front()
        {
            next.unpark();
        }
    }
}
