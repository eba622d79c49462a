//! What of a worker the end of a request touches: the counts, what is to be sent again, and what the
//! first responses told.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use trilane_wire::Fields;

use crate::failure::FailureKind;
use crate::plan::Plan;
use crate::record::{Instants, Recorder};
use crate::scenario::Users;

/// A request that is to be sent: a new one, or one more time. The oldest is the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Which of the plan's.
    pub(crate) request: u32,
    /// Its number among all of the run, from 0: what changes in it follows from this.
    pub(crate) number: u64,
    pub(crate) attempts: u8,
    pub(crate) intended: u64,
    /// When it was first sent; 0 for a new one.
    pub(crate) start: u64,
    /// Whose it is, in a scenario.
    pub(crate) user: u32,
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |pending: &Self| Reverse((pending.intended, pending.start, pending.request));
        key(self)
            .cmp(&key(other))
            .then(self.attempts.cmp(&other.attempts))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Requests to be sent again, to each origin the oldest first: none is overtaken for ever by those that failed
/// before it.
#[derive(Debug)]
pub(crate) struct Retries(Vec<BinaryHeap<Pending>>);

impl Retries {
    /// None to any of so many origins.
    fn new(origins: usize) -> Self {
        Self(vec![BinaryHeap::new(); origins])
    }

    /// The next one to an origin.
    #[inline]
    pub(crate) fn pop(&mut self, origin: usize) -> Option<Pending> {
        self.0[origin].pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(BinaryHeap::is_empty)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.0.iter().flatten()
    }
}

/// The body that every other must equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodySum {
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// What the first response told about the server; later ones are only counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstResponse {
    pub(crate) server: Option<String>,
    /// For each prepared request the body of its first complete response.
    pub(crate) bodies: Vec<Option<BodySum>>,
}

/// Everything of a worker that the end of a request touches.
#[derive(Debug)]
pub(crate) struct Tally<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) recorder: Recorder,
    pub(crate) retries: Retries,
    pub(crate) first: FirstResponse,
    /// The virtual users, in a scenario.
    pub(crate) users: Option<Box<Users<'p>>>,
    /// Prepared requests whose first body is not known yet, and may still come.
    unknown_bodies: usize,
    /// For each prepared request the attempts that ended without a body to know.
    fruitless: Vec<u8>,
}

/// What is kept of the name of a server, in characters.
const LONGEST_NAME: usize = 200;

/// A request that has ended without a good body so many times is not looked at for one any more: it
/// would keep every body of the run from being taken in the quick way.
pub(crate) const FRUITLESS: u8 = 100;

impl<'p> Tally<'p> {
    pub(crate) fn new(plan: &'p Plan, recorder: Recorder) -> Self {
        let requests = plan.prepared.len();
        Self {
            plan,
            recorder,
            retries: Retries::new(plan.origins.len()),
            first: FirstResponse {
                server: None,
                bodies: vec![None; requests],
            },
            users: None,
            unknown_bodies: match (&plan.call, &plan.events) {
                // Sessions are judged by their messages.
                _ if plan.websocket.is_some() => 0,
                // Calls are judged by their status and messages.
                (Some(_), _) => 0,
                // Streams may have no end: the first of them tells the server's name.
                (None, Some(_)) => 1,
                (None, None) => requests,
            },
            fruitless: vec![0; requests],
        }
    }

    /// A request is to be sent again.
    pub(crate) fn send_again(&mut self, pending: Pending) {
        let origin = self.plan.origin_of(pending.request);
        self.retries.0[origin].push(pending);
    }

    /// A request has failed: one of `user`, in a scenario. `at` where it had been sent.
    pub(crate) fn failed(
        &mut self,
        kind: FailureKind,
        now: u64,
        at: Option<Instants>,
        user: u32,
        example: impl FnOnce() -> String,
    ) {
        if let Some(users) = &mut self.users {
            users.failed(user, now);
        }
        self.recorder.failed(kind, now, at, example);
    }

    /// A request has ended without a body to know.
    pub(crate) fn no_body(&mut self, request: u32) {
        let request = request as usize;
        let fruitless = &mut self.fruitless[request];
        if self.first.bodies[request].is_none() && *fruitless < FRUITLESS {
            *fruitless += 1;
            if *fruitless == FRUITLESS {
                self.unknown_bodies = self.unknown_bodies.saturating_sub(1);
            }
        }
    }

    /// The first head of a response tells the name of the server.
    pub(crate) fn know_server(&mut self, fields: Fields<'_>) {
        if self.first.server.is_none() {
            let name = fields.first(b"server").unwrap_or_default();
            let name = String::from_utf8_lossy(name)
                .chars()
                .take(LONGEST_NAME)
                .collect();
            self.first.server = Some(name);
            if self.plan.events.is_some() {
                self.unknown_bodies = 0;
            }
        }
    }

    /// The first body of a request is known.
    pub(crate) fn know_body(&mut self, request: u32, sum: BodySum) {
        let request = request as usize;
        self.first.bodies[request] = Some(sum);
        if self.fruitless[request] < FRUITLESS {
            self.unknown_bodies = self.unknown_bodies.saturating_sub(1);
        }
    }

    /// Whether bodies have to be summed: until each request's first is known, and always where asked.
    pub(crate) fn sums_bodies(&self) -> bool {
        self.plan.check_body || self.unknown_bodies > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_request_is_sent_again_first() {
        let pending = |intended, attempts| Pending {
            attempts,
            intended,
            start: intended,
            ..Pending::default()
        };
        let mut retries = BinaryHeap::from([pending(30, 1), pending(10, 2), pending(20, 9)]);
        retries.push(pending(10, 3));
        let order = std::iter::from_fn(|| retries.pop());
        let order: Vec<_> = order.map(|p| (p.intended, p.attempts)).collect();
        assert_eq!(order, [(10, 3), (10, 2), (20, 9), (30, 1)]);
    }
}
