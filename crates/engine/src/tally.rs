//! What of a worker the end of a request touches: the counts, what is to be sent again, and what the
//! first responses told.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trilane_grpc::status::Code;
use trilane_wire::{ErrorKind, Fields};

use crate::failure::FailureKind;
use crate::grpc::code_of;
use crate::plan::Plan;
use crate::record::{Instants, Recorder};
use crate::scenario::Users;
use crate::slowest::Of;

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

    /// The oldest one to an origin, where it was first sent at or before `deadline`.
    pub(crate) fn pop_overdue(&mut self, origin: usize, deadline: u64) -> Option<Pending> {
        let oldest = self.0[origin].peek()?;
        let is_overdue = oldest.start != 0 && oldest.start <= deadline;
        is_overdue.then(|| self.0[origin].pop()).flatten()
    }

    /// How many origins there are.
    pub(crate) fn origins(&self) -> usize {
        self.0.len()
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BodySum {
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// What the first response told about the server; later ones are only counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
    /// What the server said last as it took no more requests on a connection.
    goaway: Option<String>,
}

/// The error codes of HTTP/2 by number (RFC 9113 §7).
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

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
            unknown_bodies: match (&plan.calls, &plan.events) {
                // Sessions are judged by their messages.
                _ if plan.websocket.is_some() => 0,
                // Calls are judged by their status and messages.
                (Some(_), _) => 0,
                // Streams may have no end: the first of them tells the server's name.
                (None, Some(_)) => 1,
                (None, None) => requests,
            },
            fruitless: vec![0; requests],
            goaway: None,
        }
    }

    /// The server takes no more requests on a connection, and says why.
    #[cold]
    pub(crate) fn know_goaway(&mut self, code: u64, debug: &[u8]) {
        if code == 0 && debug.is_empty() {
            // In order, as at the end of a connection's time.
            return;
        }
        let name = usize::try_from(code).ok().and_then(|code| CODES.get(code));
        let mut text = name.map_or_else(|| format!("{code:#x}"), |name| (*name).to_owned());
        let debug = debug.get(..LONGEST_NAME).unwrap_or(debug);
        if !debug.is_empty() {
            let debug = String::from_utf8_lossy(debug);
            let printable = debug.chars().map(|c| if c.is_control() { ' ' } else { c });
            text.push_str(": ");
            text.extend(printable);
        }
        self.goaway = Some(text);
    }

    /// What there is to say of why the server ended connections, for a failure of this kind.
    pub(crate) fn goaway(&self, kind: ErrorKind) -> String {
        let by_server = matches!(kind, ErrorKind::Goaway | ErrorKind::Closed);
        match self.goaway.as_deref().filter(|_| by_server) {
            Some(text) => format!(" (GOAWAY {text})"),
            None => String::new(),
        }
    }

    /// A request that was to be sent again has waited for too long, and has failed.
    pub(crate) fn too_late(&mut self, pending: Pending, now: u64, of: Of) {
        let at = Instants {
            intended: pending.intended,
            start: pending.start,
            head: 0,
            cold: false,
            of,
        };
        let (times, limit) = (pending.attempts, self.plan.patience());
        let goaway = self.goaway(ErrorKind::Goaway);
        if let Some(deadline) = self.plan.deadline() {
            return self.deadline_exceeded(now, at, deadline);
        }
        self.failed(FailureKind::Timeout, now, Some(at), pending.user, || {
            format!("no complete response within {limit:?}: it was sent {times} times, and each time the server said that it had not processed it{goaway}")
        });
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
        self.failed_as(code_of(kind), kind, now, at, user, example);
    }

    /// The same, where it is known what status a call has by it.
    pub(crate) fn failed_as(
        &mut self,
        code: Code,
        kind: FailureKind,
        now: u64,
        at: Option<Instants>,
        user: u32,
        example: impl FnOnce() -> String,
    ) {
        self.count_call(code, at, now, false);
        if let Some(users) = &mut self.users {
            users.failed(user, now);
        }
        self.recorder.failed(kind, now, at, example);
    }

    /// A call has ended with this status, where requests are such.
    #[inline]
    pub(crate) fn count_call(&mut self, code: Code, at: Option<Instants>, now: u64, is_ok: bool) {
        let Some(plan) = &self.plan.calls else {
            return;
        };
        let lasted = at.map(|at| now.saturating_sub(at.start));
        let counts = self.recorder.calls();
        counts.ended(code, lasted);
        if plan.methods.len() > 1
            && let (Some(at), Some(lasted)) = (at, lasted)
        {
            let method = counts.method(plan.of(at.of.request).index);
            if is_ok {
                method.ok += 1;
                method.lasted.record(lasted);
            } else {
                method.failed += 1;
            }
        }
    }

    /// A call has not ended before its deadline: it would have taken longer.
    pub(crate) fn deadline_exceeded(&mut self, now: u64, at: Instants, deadline: Duration) {
        self.count_call(Code::DeadlineExceeded, Some(at), now, false);
        self.recorder.deadline_exceeded(now, at, deadline);
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
