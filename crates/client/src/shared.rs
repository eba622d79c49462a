//! What the handles of a connection share.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::link::Socket;
use crate::state::State;
use crate::{Error, Kind, TlsInfo, Version, keeper};

/// What the handles of a connection share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) socket: Socket,
    /// Wakes the thread that polls the socket, when what it polls for has changed.
    pub(crate) bell: OwnedFd,
    pub(crate) state: Mutex<State>,
    pub(crate) version: Version,
    pub(crate) scheme: &'static str,
    pub(crate) authority: String,
    /// The process that made the connection: one that was forked from it has the same socket, and
    /// must not end for both.
    pub(crate) process: u32,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) tls: Option<TlsInfo>,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The lock, unless another process made the connection and a thread of it held the lock at the
    /// fork: nobody would ever give it back.
    pub(crate) fn lock_unless_lost(&self) -> Option<MutexGuard<'_, State>> {
        match self.try_lock() {
            None if self.is_ours() => Some(self.lock()),
            state => state,
        }
    }

    /// Says goodbye, and fails what is outstanding.
    pub(crate) fn end(&self, state: &mut State, reason: &str) {
        if self.is_ours() {
            state.link.close(&self.socket);
        }
        state.over(Error::new(Kind::Closed, reason));
        self.ring();
    }

    /// An error in any process but the one that made the connection: what two processes write to
    /// one socket is the message of neither.
    pub(crate) fn expect_ours(&self) -> Result<(), Error> {
        if self.is_ours() {
            return Ok(());
        }
        let message = "the connection belongs to the process that made it: connect after the fork";
        Err(Error::new(Kind::Local, message).unsent())
    }

    /// Whether this process made the connection.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == process::id()
    }

    /// Wakes the thread that polls.
    pub(crate) fn ring(&self) {
        // A bell that is full has rung.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        // Nothing to read: somebody else has heard it.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    /// Wakes the thread that polls where it would wake too late, or wait for the wrong thing.
    pub(crate) fn ring_if_needed(&self, state: &mut State) {
        if !state.sleeping {
            return;
        }
        let due = state.link.timeout();
        let earlier = due.is_some_and(|due| state.sleeping_until.is_none_or(|until| due < until));
        if earlier || state.link.has_unsent() {
            self.ring();
        }
    }
}

impl Shared {
    /// Has the keeper visit, unless it will. False where it cannot.
    pub(crate) fn look_after(self: &Arc<Self>, state: &mut State) -> bool {
        state.looked_after = state.looked_after || keeper::look_after(self);
        state.looked_after
    }

    /// Does what there is to do, if nobody else does. True while there is reason to come again.
    pub(crate) fn visit(&self) -> bool {
        let mut state = self.lock();
        if !state.leading {
            state.turn(&self.socket, true);
            state.flush(&self.socket);
        }
        state.looked_after =
            state.failure.is_none() && (state.link.outstanding() > 0 || state.link.has_unsent());
        state.looked_after
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let ours = self.is_ours();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_none() && ours {
            state.link.close(&self.socket);
        }
    }
}
