//! The last words of a connection that has failed.
//!
//! A socket that is closed with bytes unread is reset by the kernel, and then the peer may not read
//! the GOAWAY or the alert that tells why. So they are sent, then our direction is ended, and what the
//! peer still sends is read and discarded, for a moment.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

/// How long the peer has to end its direction; nginx gives as long.
const MOMENT: Duration = Duration::from_secs(5);
/// How much is discarded of a peer that does not listen, in bytes.
const DISCARDED: usize = 16 << 20;
/// What one read takes, in bytes.
const BUFFER: usize = 16 * 1024;
/// Reads in a row, after which other connections are looked after.
const READS: usize = 8;

/// A socket that nobody else reads or writes any more.
#[derive(Debug)]
pub struct Lingering {
    socket: OwnedFd,
    unsent: Vec<u8>,
    sent: usize,
    discarded: usize,
    until: Instant,
}

impl Lingering {
    /// Takes the socket of a connection, and what it had not taken of the last words. `None` where the
    /// socket takes nothing any more.
    pub fn new(socket: OwnedFd, unsent: Vec<u8>, now: Instant) -> Option<Self> {
        let mut lingering = Self {
            socket,
            unsent,
            sent: 0,
            discarded: 0,
            until: now + MOMENT,
        };
        lingering.write().ok()?;
        Some(lingering)
    }

    /// When its time is over.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Whether to wait for room to write, too, not only for something to read.
    pub fn wants_room(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Does what can be done `now`. False at the end.
    pub fn advance(&mut self, now: Instant) -> bool {
        if now >= self.until || self.write().is_err() {
            return false;
        }
        let mut buffer = [0; BUFFER];
        for _ in 0..READS {
            match recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return false,
                Ok((_, length)) => self.discarded += length,
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        self.discarded < DISCARDED
    }

    /// Writes what is left, and ends our direction behind it.
    fn write(&mut self) -> Result<(), Errno> {
        while self.sent < self.unsent.len() {
            match send(&self.socket, &self.unsent[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.unsent = Vec::new();
        self.sent = 0;
        shutdown(&self.socket, Shutdown::Write)
    }
}

impl AsFd for Lingering {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        // Whoever has a descriptor of the same connection, it is over for them too.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}
