//! One request and its response, as the caller sees them.

mod read;
mod upload;

use std::mem;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use trilane_wire::FieldList;

use crate::connection::Connection;
use crate::slots::{PAUSE_AT, Slot, Times, Waiting, Want};
use crate::state::State;
use crate::wait::Stopped;
use crate::{Error, Interest, Kind, Patience, Version};

/// One request and its response. Dropping it cancels the request, if its response is not complete.
///
/// Timeouts: `None` waits for ever, zero looks without waiting. A wait that has timed out can be
/// taken up again.
#[derive(Debug)]
pub struct Exchange {
    connection: Connection,
    slot: u32,
}

/// What a response tells beside its status and its content. It keeps nothing of the connection.
#[derive(Debug)]
pub struct Sections {
    /// The fields of the head.
    pub fields: FieldList,
    /// The reason phrase of HTTP/1.1, as sent.
    pub reason: Vec<u8>,
    /// The informational responses before it.
    pub informational: Vec<(u16, FieldList)>,
    /// The trailers, where there were any.
    pub trailers: Option<FieldList>,
}

impl Sections {
    /// Whether the head has a field of that name, in any case.
    pub fn has_field(&self, name: &[u8]) -> bool {
        has_field(&self.fields, name)
    }
}

impl Exchange {
    pub(crate) fn new(connection: Connection, slot: u32) -> Self {
        Self { connection, slot }
    }

    /// The connection that it is on.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The identifier on the wire; for HTTP/1.1 a count from 1. 0 while a request of HTTP/2 waits for the
    /// server's SETTINGS.
    pub fn stream_id(&self) -> u64 {
        self.look(|slot| slot.number)
    }

    /// What [`Connection::drive`] calls it.
    pub fn token(&self) -> u32 {
        self.slot
    }

    /// The version of the connection.
    pub fn version(&self) -> Version {
        self.connection.version()
    }

    /// Whether the server answered in HTTP/1.0.
    pub fn is_http_1_0(&self) -> bool {
        self.look(|slot| slot.http_1_0)
    }

    /// Whether a wait for this would not wait, nor meet another thread at the lock.
    pub fn is_at_hand(&self, interest: Interest) -> bool {
        let Some(state) = self.connection.shared.try_lock() else {
            return false;
        };
        state.slots.get(self.slot).met(self::want(interest, 0))
    }

    /// Waits for the final response head and gives its status.
    pub fn head(
        &self,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<u16, Error> {
        let state = self.wait(Want::Head, timeout, patience)?;
        let slot = state.slots.get(self.slot);
        match slot.status {
            Some(status) => Ok(status),
            None => Err(self.failure(slot)),
        }
    }

    /// Whether the head has a field of that name, in any case.
    pub fn has_field(&self, name: &[u8]) -> bool {
        self.look(|slot| has_field(&slot.fields, name))
    }

    /// A copy of the fields of the head, empty before it has come.
    pub fn fields(&self) -> FieldList {
        self.look(|slot| slot.fields.clone())
    }

    /// The reason phrase of HTTP/1.1, as sent.
    pub fn reason(&self) -> Vec<u8> {
        self.look(|slot| slot.reason.clone())
    }

    /// The informational responses so far.
    pub fn informational(&self) -> Vec<(u16, FieldList)> {
        self.look(|slot| slot.informational.clone())
    }

    /// Waits for one more informational response than `seen`, and gives its status; `None` when the
    /// final head is there.
    pub fn wait_informational(
        &self,
        seen: usize,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<Option<u16>, Error> {
        let state = self.wait(Want::Informational(seen), timeout, patience)?;
        let slot = state.slots.get(self.slot);
        match slot.informational.get(seen) {
            Some((status, _)) => Ok(Some(*status)),
            None if slot.status.is_some() => Ok(None),
            None => Err(self.failure(slot)),
        }
    }

    /// The trailers, once the response is complete and where there were any.
    pub fn trailers(&self) -> Option<FieldList> {
        self.look(|slot| slot.trailers.clone())
    }

    /// Whether the response has arrived to its end.
    pub fn is_complete(&self) -> bool {
        self.look(|slot| slot.ended)
    }

    /// A copy of what a response tells beside its status and its content.
    pub fn sections(&self) -> Sections {
        self.look(|slot| Sections {
            fields: slot.fields.clone(),
            reason: slot.reason.clone(),
            informational: slot.informational.clone(),
            trailers: slot.trailers.clone(),
        })
    }

    /// When what came of it, where that was asked for.
    pub fn times(&self) -> Option<Times> {
        self.look(|slot| slot.times.as_deref().copied())
    }

    /// How long ago something of the response came, or the request was submitted.
    pub fn quiet(&self) -> Duration {
        self.look(|slot| slot.came.map_or(Duration::ZERO, |came| came.elapsed()))
    }

    /// Bytes of content that have arrived and were not taken.
    pub fn unread(&self) -> usize {
        self.look(Slot::unread)
    }

    /// `content-length` of the response.
    pub fn content_length(&self) -> Option<u64> {
        self.look(|slot| slot.content_length)
    }

    /// Cancels the request, if its response is not complete: the stream is reset, and HTTP/1.1 closes
    /// the connection. May be called again.
    pub fn cancel(&self) {
        if let Some(mut state) = self.connection.shared.lock_unless_lost() {
            self.abandon(&mut state);
        }
    }

    /// Has [`Connection::drive`] tell when something has come. True where it has, and then nothing
    /// will be told.
    pub fn watch(&self, interest: Interest) -> bool {
        let mut state = self.connection.shared.lock();
        let slot = state.slots.get_mut(self.slot);
        let want = self::want(interest, slot.informational.len());
        let met = slot.met(want);
        (slot.reader, slot.writer) = (None, None);
        if met {
            slot.asked = None;
        } else {
            slot.asked.get_or_insert_with(Instant::now);
            *slot.waiting(want) = Some(Waiting { want, thread: None });
        }
        let slot = state.slots.get_mut(self.slot);
        if !met && slot.unread() < slot.limit() {
            self.catch_up(&mut state);
        }
        met
    }

    fn abandon(&self, state: &mut State) {
        let shared = &self.connection.shared;
        let slot = state.slots.get(self.slot);
        if slot.ended || slot.error.is_some() {
            return;
        }
        let id = slot.id(self.slot);
        let unheard = state.slots.is_unheard(self.slot);
        let cancelled = shared.is_ours() && (state.take_back(self.slot) || state.link.cancel(id));
        state
            .slots
            .fail(self.slot, local("the request was cancelled"));
        if cancelled {
            if unheard {
                state.doubt();
            }
            state.flush();
            shared.ring_if_needed(state);
        } else if shared.is_ours() {
            shared.end(state, "the connection was closed to cancel a request");
        }
    }

    /// Lets the peer send again when the reader has caught up.
    fn resume(&self, state: &mut State) {
        let slot = state.slots.get_mut(self.slot);
        if slot.paused && slot.unread() < PAUSE_AT / 2 {
            self.catch_up(state);
        }
    }

    fn catch_up(&self, state: &mut State) {
        let slot = state.slots.get_mut(self.slot);
        if !mem::take(&mut slot.paused) {
            return;
        }
        let id = slot.id(self.slot);
        let State { link, slots, .. } = state;
        link.resume(id, slots);
        state.flush();
        self.connection.shared.ring_if_needed(state);
    }

    fn wait(
        &self,
        want: Want,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<MutexGuard<'_, State>, Error> {
        let shared = &self.connection.shared;
        shared
            .wait(self.slot, want, timeout, patience)
            .map_err(|stopped| match stopped {
                Stopped::Interrupted => Error::new(Kind::Interrupted, "interrupted"),
                Stopped::Foreign(error) => error,
                Stopped::Timeout => Error {
                    stream_id: self.look(Slot::on_the_wire),
                    ..Error::new(Kind::ReadTimeout, timed_out(timeout))
                },
            })
    }

    fn look<R>(&self, look: impl FnOnce(&Slot) -> R) -> R {
        look(self.connection.shared.lock().slots.get(self.slot))
    }

    fn failure(&self, slot: &Slot) -> Error {
        slot.error.clone().unwrap_or_else(|| {
            let message = "the response ended before its head";
            Error {
                stream_id: slot.on_the_wire(),
                ..Error::new(Kind::Protocol, message)
            }
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(mut state) = self.connection.shared.lock_unless_lost() {
            self.abandon(&mut state);
            state.slots.release(self.slot);
        }
    }
}

fn has_field(fields: &FieldList, name: &[u8]) -> bool {
    let mut fields = fields.iter();
    fields.any(|(other, _)| other.eq_ignore_ascii_case(name))
}

fn want(interest: Interest, informed: usize) -> Want {
    match interest {
        Interest::Head => Want::Head,
        Interest::Data => Want::Data(1),
        Interest::End => Want::End,
        Interest::Whole => Want::Whole,
        Interest::Writable => Want::Writable,
        Interest::Informational => Want::Informational(informed),
    }
}

fn timed_out(timeout: Option<Duration>) -> String {
    match timeout {
        Some(timeout) if !timeout.is_zero() => {
            format!("nothing came from the server for {timeout:?}")
        }
        _ => "nothing came from the server yet".to_owned(),
    }
}

fn local(message: &str) -> Error {
    Error::new(Kind::Local, message)
}
