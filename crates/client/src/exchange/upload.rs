//! The content of a request that follows piece by piece.

use std::sync::MutexGuard;
use std::time::Duration;

use trilane_wire::{FieldList, Unfinished, check_trailers};

use super::{Exchange, local};
use crate::slots::{UPLOAD_LIMIT, Want};
use crate::state::State;
use crate::{Error, Kind, Patience};

impl Exchange {
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
            if let Some(times) = &mut slot.times {
                times.sent += piece.len() as u64;
            }
            rest = more;
            if !state.slots.uploading.contains(&self.slot) {
                state.slots.uploading.push(self.slot);
            }
            state.flush();
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
        state.flush();
        shared.ring_if_needed(&mut state);
        Ok(())
    }

    /// Whether the peer still takes content of the request.
    pub fn upload_open(&self) -> bool {
        self.look(|slot| slot.upload.as_ref().is_some_and(|upload| upload.open))
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
