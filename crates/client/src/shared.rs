//! What the handles of a connection share.

use std::mem;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use crate::keeper::Keeper;
use crate::link::Descriptors;
use crate::state::State;
use crate::{Error, Facts, FieldList, Kind, Version, keeper};

/// What the handles of a connection share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) version: Version,
    pub(crate) scheme: &'static str,
    pub(crate) authority: String,
    /// By which the keeper knows the connection.
    pub(crate) token: u64,
    /// The process that made the connection: one that was forked from it has the same socket, and
    /// must not end for both.
    pub(crate) process: u32,
    pub(crate) facts: Arc<Facts>,
    pub(crate) proxy_fields: Option<FieldList>,
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
            if let Some(fd) = state.descriptors.socket.fd() {
                keeper::forget(&mut state.care, fd);
            }
            state.link.close(&state.descriptors.socket);
        }
        state.over(Error::new(Kind::Closed, reason));
        state.descriptors.ring();
    }

    /// Closes the descriptors of a connection that is over: at once, or when who waits for them wakes.
    pub(crate) fn let_go(&self, state: &mut State) {
        let descriptors = mem::replace(&mut state.descriptors, Arc::new(Descriptors::none()));
        if let Some(fd) = descriptors.socket.fd().filter(|_| self.is_ours()) {
            keeper::forget(&mut state.care, fd);
        }
        descriptors.ring();
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

    /// Wakes the thread that polls where it would wake too late, or wait for the wrong thing.
    pub(crate) fn ring_if_needed(&self, state: &mut State) {
        if !state.sleeping {
            return;
        }
        let due = state.link.timeout();
        let earlier = due.is_some_and(|due| state.sleeping_until.is_none_or(|until| due < until));
        if earlier || state.link.has_unsent() {
            state.descriptors.ring();
        }
    }
}

impl Shared {
    /// Has the keeper send what there is, a moment later. False where it cannot.
    pub(crate) fn look_after(self: &Arc<Self>, state: &mut State) -> bool {
        state.care.driven = false;
        state.care.asked = true;
        keeper::look_after(self, &mut state.care, keeper::FLUSH_AFTER)
    }

    /// Has the keeper look after a new connection. One of HTTP/1.1 needs nothing while it is idle.
    pub(crate) fn keep(self: &Arc<Self>) {
        let mut state = self.lock();
        if self.version != Version::H1 && !state.care.driven {
            // Without a keeper, the connection is alive while somebody waits.
            keeper::look_after(self, &mut state.care, keeper::LOOK_EVERY);
        }
    }

    /// Does what there is to do, if nobody else does. The keeper comes `due`, or for `None` because
    /// the socket has something, and again at the time that is returned.
    pub(crate) fn visit(&self, due: Option<Instant>, keeper: &Keeper) -> Option<Instant> {
        let state = &mut *self.lock();
        if due.is_some() && due != state.care.next {
            // Another visit has taken the place of this one.
            return None;
        }
        state.care.next = None;
        if state.care.driven {
            return None;
        }
        if !state.leading {
            state.turn(true);
            state.flush();
        }
        if state.failure.is_some() {
            return None;
        }
        state.care.next = self.next_visit(state, keeper);
        state.care.next
    }

    fn next_visit(&self, state: &mut State, keeper: &Keeper) -> Option<Instant> {
        let asked = mem::take(&mut state.care.asked);
        let busy = state.link.outstanding() > 0 || state.link.has_unsent();
        // QUIC has timers that run whether or not somebody waits.
        let often = if state.leading {
            self.version == Version::H3
        } else {
            busy
        };
        let after = if asked || often {
            keeper::VISIT_EVERY
        } else if state.leading {
            keeper::LOOK_EVERY
        } else {
            let fd = state.descriptors.socket.fd()?;
            if keeper.watch(&mut state.care, fd, self.token) {
                return state.link.timeout();
            }
            keeper::LOOK_EVERY
        };
        Some(Instant::now() + after)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let ours = self.is_ours();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(fd) = state.descriptors.socket.fd().filter(|_| ours) {
            keeper::forget(&mut state.care, fd);
        }
        if state.failure.is_none() && ours {
            state.link.close(&state.descriptors.socket);
        }
    }
}
