//! Waiting: the first thread that waits polls the socket for all.

use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::link::Descriptors;
use crate::shared::Shared;
use crate::slots::{Waiting, Want};
use crate::state::State;
use crate::{Error, Kind};

/// How long a wait goes on without looking whether it should end, where nobody says how long.
const FOLLOW: Duration = Duration::from_secs(10);

/// Asked about in every wait, with no lock held.
pub trait Patience {
    /// Called after an interrupted system call and at least every [`Self::slice`]; true ends the wait
    /// with [`Kind::Interrupted`].
    fn exhausted(&mut self) -> bool;
    /// How long a wait may go on without asking; `None` for ever.
    fn slice(&self) -> Option<Duration>;
}

/// Why a wait ended without what it was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Timeout,
    Interrupted,
    /// Another process made the connection.
    Foreign(Error),
}

/// How the one who leads came to stop.
enum Led {
    Met,
    Due,
    Signal,
}

impl Shared {
    /// Waits until the request in `slot` has what is wanted, or will never have it.
    pub(crate) fn wait(
        &self,
        slot: u32,
        want: Want,
        timeout: Option<Duration>,
        patience: &mut dyn Patience,
    ) -> Result<MutexGuard<'_, State>, Stopped> {
        let Some(mut state) = self.lock_unless_lost() else {
            return Err(self
                .expect_ours()
                .map_or_else(Stopped::Foreign, |()| Stopped::Timeout));
        };
        if state.slots.get(slot).met(want) {
            state.slots.get_mut(slot).asked = None;
            return Ok(state);
        }
        self.expect_ours().map_err(Stopped::Foreign)?;
        if timeout == Some(Duration::ZERO) || state.descriptors.socket.fd().is_none() {
            return Err(Stopped::Timeout);
        }
        let began = Instant::now();
        state.slots.get_mut(slot).asked.get_or_insert(began);
        let deadline = timeout.and_then(|timeout| began.checked_add(timeout));
        loop {
            let slice = patience.slice().map(|slice| Instant::now() + slice);
            let until = earliest(deadline, slice);
            let led;
            (state, led) = if state.leading {
                self.follow(state, slot, want, until)
            } else {
                self.lead(state, slot, want, until)
            };
            if let Led::Met = led {
                state.slots.get_mut(slot).asked = None;
                return Ok(state);
            }
            drop(state);
            if patience.exhausted() {
                return Err(Stopped::Interrupted);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Stopped::Timeout);
            }
            state = self.lock();
        }
    }

    /// Waits for the one who leads.
    fn follow<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        slot: u32,
        want: Want,
        until: Option<Instant>,
    ) -> (MutexGuard<'a, State>, Led) {
        let me = thread::current();
        // The one who leads sleeps: what this thread has to send leaves by its own hand.
        state.flush();
        self.ring_if_needed(&mut state);
        loop {
            let place = state.slots.get_mut(slot);
            *place.waiting(want) = Some(Waiting {
                want,
                thread: Some(me.clone()),
            });
            state.followers.push_back(me.clone());
            drop(state);
            let rest = until.map_or(FOLLOW, |until| {
                until.saturating_duration_since(Instant::now())
            });
            thread::park_timeout(rest);
            state = self.lock();
            state.followers.retain(|other| other.id() != me.id());
            let place = state.slots.get_mut(slot);
            *place.waiting(want) = None;
            let led = if place.met(want) {
                Led::Met
            } else if until.is_some_and(|until| until <= Instant::now()) {
                Led::Due
            } else if state.leading {
                continue;
            } else {
                return self.lead(state, slot, want, until);
            };
            // Whoever led may have chosen this thread to go on.
            state.hand_over();
            return (state, led);
        }
    }

    /// Polls the socket and does what there is to do, for everybody.
    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        slot: u32,
        want: Want,
        until: Option<Instant>,
    ) -> (MutexGuard<'a, State>, Led) {
        state.leading = true;
        let led = loop {
            state.flush();
            if state.slots.get(slot).met(want) {
                break Led::Met;
            }
            let timer = state.link.timeout();
            let due = earliest(until, timer);
            state.sleeping_until = due;
            state.sleeping = true;
            let reads = state.link.may_read();
            let writes = state.link.has_unsent();
            let descriptors = Arc::clone(&state.descriptors);
            drop(state);
            let polled = poll_for(&descriptors, reads, writes, due);
            drop(descriptors);
            state = self.lock();
            state.sleeping = false;
            match polled {
                Ok(readable) => state.turn(readable),
                Err(Errno::INTR) => break Led::Signal,
                Err(error) => {
                    let message = format!("waiting for the socket failed: {error}");
                    state.over(Error::new(Kind::Closed, message));
                }
            }
            if state.slots.get(slot).met(want) {
                // What the codec answered (window updates, acknowledgements) must not wait.
                state.flush();
                break Led::Met;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                break Led::Due;
            }
        };
        state.leading = false;
        state.hand_over();
        (state, led)
    }
}

/// Waits for the socket, the bell or the time, and says whether the socket can be read.
fn poll_for(
    descriptors: &Descriptors,
    reads: bool,
    writes: bool,
    due: Option<Instant>,
) -> Result<bool, Errno> {
    let (Some(fd), Some(bell)) = (descriptors.socket.fd(), &descriptors.bell) else {
        return Ok(false);
    };
    let timeout = due.map(|due| {
        let rest = due.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: rest.as_secs() as i64,
            tv_nsec: rest.subsec_nanos().into(),
        }
    });
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, reads);
    flags.set(PollFlags::OUT, writes);
    let mut fds = [
        PollFd::from_borrowed_fd(fd, flags),
        PollFd::new(bell, PollFlags::IN),
    ];
    poll(&mut fds, timeout.as_ref())?;
    if !fds[1].revents().is_empty() {
        descriptors.silence();
    }
    let readable = PollFlags::IN | PollFlags::ERR | PollFlags::HUP;
    Ok(fds[0].revents().intersects(readable))
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
