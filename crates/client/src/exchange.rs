//! One request and its response, as the caller sees them.

use std::mem;
use std::sync::MutexGuard;
use std::time::Duration;

use trilane_wire::{FieldList, Unfinished, check_trailers};

use crate::connection::{Connection, State};
use crate::slots::{PAUSE_AT, Slot, UPLOAD_LIMIT, Want};
use crate::wait::Stopped;
use crate::{Error, Interest, Kind, Patience, Version};

/// A read of everything takes this much at a time, so that the response need not be paused.
const READ_AT_ONCE: usize = PAUSE_AT / 2;

/// One request and its response. Dropping it cancels the request, if its response is not complete.
///
/// Timeouts: `None` waits for ever, zero looks without waiting. A wait that has timed out can be
/// taken up again.
#[derive(Debug)]
pub struct Exchange {
    connection: Connection,
    slot: u32,
    number: u64,
}

impl Exchange {
    pub(crate) fn new(connection: Connection, slot: u32, number: u64) -> Self {
        Self {
            connection,
            slot,
            number,
        }
    }

    /// The connection that it is on.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The identifier on the wire; for HTTP/1.1 a count from 1.
    pub fn stream_id(&self) -> u64 {
        self.number
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

    /// Takes up to `most` bytes of what is buffered, without waiting.
    pub fn take(&self, most: usize) -> Vec<u8> {
        let mut state = self.connection.shared.lock();
        let piece = state.slots.get_mut(self.slot).take(most);
        self.resume(&mut state);
        piece
    }

    /// Lends up to `most` bytes of content, which count as taken then. `None` where fewer than `least`
    /// have come and more may come, or an error may, or where another thread is at the lock: waiting
    /// is for the other methods.
    pub fn lend<R>(&self, least: usize, most: usize, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let mut state = self.connection.shared.try_lock()?;
        let slot = state.slots.get_mut(self.slot);
        if slot.unread() < least && !slot.ended {
            return None;
        }
        let given = slot.lend(most, read);
        self.resume(&mut state);
        Some(given)
    }

    /// Waits for a byte of content or its end, or for an error.
    pub fn arrival(
        &self,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<(), Error> {
        self.wait(Want::Data(1), timeout, patience).map(drop)
    }

    /// Reads to the end.
    pub fn read_all(
        &self,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<Vec<u8>, Error> {
        self.read_up_to(usize::MAX, timeout, patience)
    }

    /// Reads `most` bytes, fewer only at the end.
    pub fn read_up_to(
        &self,
        most: usize,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        loop {
            let missing = most - all.len();
            if missing == 0 {
                return Ok(all);
            }
            let least = missing.min(READ_AT_ONCE);
            let mut state = match self.wait(Want::Data(least), timeout, patience) {
                Ok(state) => state,
                Err(error) => {
                    self.put_back(all);
                    return Err(error);
                }
            };
            let slot = state.slots.get_mut(self.slot);
            let piece = slot.take(missing);
            let over = (slot.ended || slot.error.is_some()) && piece.len() < missing;
            if all.is_empty() {
                all = piece;
            } else {
                all.extend_from_slice(&piece);
            }
            if over {
                if slot.ended {
                    return Ok(all);
                }
                let error = self.failure(slot);
                drop(state);
                self.put_back(all);
                return Err(error);
            }
            self.resume(&mut state);
        }
    }

    /// What a read that failed had taken can be taken again: the part of a response that did come.
    fn put_back(&self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.connection.shared.lock();
        let slot = state.slots.get_mut(self.slot);
        let rest = slot.take(usize::MAX);
        slot.body = bytes;
        slot.body.extend_from_slice(&rest);
        slot.taken = 0;
    }

    /// Fills `buffer` unless the end comes first, and says how much it was. What came before an
    /// error is given before the error.
    pub fn read(
        &self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = &mut buffer[filled..];
            let least = rest.len().min(READ_AT_ONCE);
            match self.copy(rest, least, timeout, patience) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(error) if filled == 0 => return Err(error),
                Err(error) if error.kind == Kind::Body => break,
                Err(error) => {
                    self.put_back(buffer[..filled].to_vec());
                    return Err(error);
                }
            }
        }
        Ok(filled)
    }

    /// Waits for a byte, and gives up to `most` bytes of what is there; none at the end.
    pub fn read_some(
        &self,
        most: usize,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<Vec<u8>, Error> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let mut state = self.wait(Want::Data(1), timeout, patience)?;
        let slot = state.slots.get_mut(self.slot);
        if slot.unread() == 0 {
            return match slot.error {
                Some(_) => Err(self.failure(slot)),
                None => Ok(Vec::new()),
            };
        }
        let piece = slot.take(most);
        self.resume(&mut state);
        Ok(piece)
    }

    /// Waits for a byte, and copies what is there into `buffer`; nothing at the end.
    pub fn readinto(
        &self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<usize, Error> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.copy(buffer, 1, timeout, patience)
    }

    /// Waits for `least` bytes and copies what is there.
    fn copy(
        &self,
        buffer: &mut [u8],
        least: usize,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<usize, Error> {
        let mut state = match self.wait(Want::Data(least), timeout, patience) {
            Ok(state) => state,
            // What has come is better than nothing.
            Err(error) if error.kind == Kind::ReadTimeout && self.unread() > 0 => {
                self.connection.shared.lock()
            }
            Err(error) => return Err(error),
        };
        let slot = state.slots.get_mut(self.slot);
        if slot.unread() == 0 {
            return match slot.error {
                Some(_) => Err(self.failure(slot)),
                None => Ok(0),
            };
        }
        let length = slot.copy(buffer);
        self.resume(&mut state);
        Ok(length)
    }

    /// The trailers, once the response is complete and where there were any.
    pub fn trailers(&self) -> Option<FieldList> {
        self.look(|slot| slot.trailers.clone())
    }

    /// Whether the response has arrived to its end.
    pub fn is_complete(&self) -> bool {
        self.look(|slot| slot.ended)
    }

    /// Bytes of content that have arrived and were not taken.
    pub fn unread(&self) -> usize {
        self.look(Slot::unread)
    }

    /// `content-length` of the response.
    pub fn content_length(&self) -> Option<u64> {
        self.look(|slot| slot.content_length)
    }

    /// Sends content of the request; waits while too much of it is unsent. A write of up to 256 KiB
    /// that times out has sent nothing, and one of any size with a timeout of zero.
    pub fn write(
        &self,
        data: &[u8],
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<(), Error> {
        let shared = &self.connection.shared;
        let mut rest = data;
        while !rest.is_empty() {
            let mut state = self.wait_to_write(timeout, patience)?;
            let slot = state.slots.get_mut(self.slot);
            if slot.error.is_some() {
                return Err(self.failure(slot));
            }
            let Some(upload) = slot.upload.as_mut().filter(|upload| upload.open) else {
                // The server has what it needs: the response tells what it made of it.
                return Ok(());
            };
            if upload.finish.is_some() {
                return Err(local("the content of the request has been ended"));
            }
            if let Some(announced) = upload.announced
                && rest.len() as u64 > announced
            {
                let over = rest.len() as u64 - announced;
                return Err(local(&format!(
                    "the content is {over} bytes longer than was announced: announce its length"
                )));
            }
            let room = match timeout {
                // Who does not wait could not be told how much was taken: all of it, or nothing.
                Some(Duration::ZERO) => rest.len(),
                // Whole, so that a write of so much that times out has taken nothing.
                _ => UPLOAD_LIMIT,
            };
            let (piece, more) = rest.split_at(rest.len().min(room));
            upload.pending.drain(..upload.sent);
            upload.sent = 0;
            upload.pending.extend_from_slice(piece);
            if let Some(announced) = &mut upload.announced {
                *announced -= piece.len() as u64;
            }
            rest = more;
            if !state.slots.uploading.contains(&self.slot) {
                state.slots.uploading.push(self.slot);
            }
            state.flush(&shared.socket);
            shared.ring_if_needed(&mut state);
        }
        Ok(())
    }

    /// Ends the content of the request, with trailers where there are any.
    pub fn finish(
        &self,
        trailers: &FieldList,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<(), Error> {
        let shared = &self.connection.shared;
        let mut state = self.wait_to_write(timeout, patience)?;
        let slot = state.slots.get_mut(self.slot);
        if slot.error.is_some() {
            return Err(self.failure(slot));
        }
        let Some(upload) = slot.upload.as_mut().filter(|upload| upload.open) else {
            return Ok(());
        };
        if let Some(missing @ 1..) = upload.announced {
            return Err(local(&Unfinished::Short { missing }.to_string()));
        }
        check_trailers(trailers).map_err(|error| local(&error.to_string()))?;
        upload.finish = Some(trailers.clone());
        if !state.slots.uploading.contains(&self.slot) {
            state.slots.uploading.push(self.slot);
        }
        state.flush(&shared.socket);
        shared.ring_if_needed(&mut state);
        Ok(())
    }

    /// Whether the peer still takes content of the request.
    pub fn upload_open(&self) -> bool {
        self.look(|slot| slot.upload.as_ref().is_some_and(|upload| upload.open))
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
        slot.want = (!met).then_some(want);
        slot.waiter = None;
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
        let cancelled = shared.is_ours() && state.link.cancel(id);
        state
            .slots
            .fail(self.slot, local("the request was cancelled"));
        if cancelled {
            state.flush(&shared.socket);
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
        state.flush(&self.connection.shared.socket);
        self.connection.shared.ring_if_needed(state);
    }

    /// Waits for room. Meanwhile more of the response is taken than otherwise: a server that echoes
    /// takes no content before its answer is taken, and who should read it waits here.
    fn wait_to_write(
        &self,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.connection.shared.lock();
        let slot = state.slots.get_mut(self.slot);
        if slot.met(Want::Writable) {
            return Ok(state);
        }
        slot.writing = true;
        if slot.unread() < slot.limit() {
            self.catch_up(&mut state);
        }
        drop(state);
        let waited = self.wait(Want::Writable, timeout, patience).map_err(late);
        match waited {
            Ok(mut state) => {
                state.slots.get_mut(self.slot).writing = false;
                Ok(state)
            }
            Err(error) => {
                let mut state = self.connection.shared.lock();
                state.slots.get_mut(self.slot).writing = false;
                Err(error)
            }
        }
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
                    stream_id: Some(self.number),
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
                stream_id: Some(self.number),
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

fn want(interest: Interest, informed: usize) -> Want {
    match interest {
        Interest::Head => Want::Head,
        Interest::Data => Want::Data(1),
        Interest::End => Want::End,
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

/// A wait for room in which nothing was read timed out in writing.
fn late(error: Error) -> Error {
    if error.kind == Kind::ReadTimeout {
        return Error {
            kind: Kind::WriteTimeout,
            message: error
                .message
                .replace("nothing came from the server", "the server took no content"),
            ..error
        };
    }
    error
}

fn local(message: &str) -> Error {
    Error::new(Kind::Local, message)
}
