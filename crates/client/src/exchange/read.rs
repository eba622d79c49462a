//! The content of a response.

use std::time::Duration;

use super::Exchange;
use crate::slots::{PAUSE_AT, Want};
use crate::{Error, Kind, Patience};

/// A read of everything takes this much at a time, so that the response need not be paused.
const READ_AT_ONCE: usize = PAUSE_AT / 2;

impl Exchange {
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
}
