//! What one worker counts. Nothing here grows with the number of requests.

mod bodies;
mod instants;
mod statuses;
mod traffic;
mod window;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use trilane_grpc::status::Code;

use crate::events::EventCounts;
use crate::failure::{FailureKind, Failures};
use crate::grpc::Counts;
use crate::latency::Durations;
use crate::origin::OriginCounts;
use crate::phases::{Phases, RequestPhases};
use crate::slowest::Slowest;
use crate::websocket;

pub(crate) use self::bodies::{Bodies, is_sampled};
pub(crate) use self::instants::{Instants, Wait};
pub(crate) use self::traffic::Traffic;
use self::window::Standing;
pub(crate) use self::window::{Messages, Window, Windows};

/// Responses that were complete before the content of their requests had left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Early {
    pub(crate) count: u64,
    /// Bytes of content of these requests.
    pub(crate) body_bytes: u64,
    /// How much of it had left by then.
    pub(crate) body_sent: u64,
}

impl Early {
    /// One response: its request's content, and what of it had not left.
    #[cold]
    pub(crate) fn add(&mut self, body_bytes: u64, unsent: u64) {
        self.count += 1;
        self.body_bytes += body_bytes;
        self.body_sent += body_bytes.saturating_sub(unsent);
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.body_bytes += other.body_bytes;
        self.body_sent += other.body_sent;
    }
}

/// Requests that ended, by how.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Warmup {
    pub(crate) started: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
}

/// More is counted by no thread; as many of as many threads as a cluster has are still a number.
pub(crate) const MOST_COUNTED: u64 = 1 << 47;

/// The counts of one worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Recorder {
    pub(crate) started: u64,
    pub(crate) ok: u64,
    pub(crate) retried: u64,
    pub(crate) failures: Failures,
    pub(crate) censored: u64,
    pub(crate) early: Early,
    /// Of ok responses, but for those that a scenario, calls or sessions judge in their own way.
    pub(crate) bodies: Bodies,
    pub(crate) warmup: Warmup,
    /// Count of final responses by status code.
    #[serde(with = "statuses")]
    pub(crate) status: Box<[u64; 1000]>,
    pub(crate) service: Durations,
    pub(crate) response: Durations,
    pub(crate) late: Durations,
    /// Of the requests that were the first on their connections, made by the first of them; and of the
    /// others.
    pub(crate) cold: Option<Box<RequestPhases>>,
    pub(crate) warm: RequestPhases,
    /// In the present window the service times of warm requests whose response came as a whole: each is its
    /// time to the first byte as well, and is recorded once.
    #[serde(skip, default = "Durations::new")]
    at_once: Durations,
    /// From the first byte sent to the end of requests that failed otherwise than by time.
    pub(crate) failed: Durations,
    /// The slowest of all that have a latency.
    pub(crate) slowest: Slowest,
    #[serde(skip, default = "no_window")]
    pub(crate) window: Window,
    /// As that window began.
    #[serde(skip, default = "Standing::of_nothing")]
    standing: Standing,
    pub(crate) traffic: Traffic,
    /// Of all connections of the run.
    pub(crate) phases: Phases,
    /// Of those begun since [`Self::begin_measuring`]; made by the first of them.
    pub(crate) made: Option<Box<Phases>>,
    /// When the measured part began; `u64::MAX` before.
    measured_since: u64,
    /// Made by the first call.
    calls: Option<Box<Counts>>,
    /// Made by the first event.
    events: Option<Box<EventCounts>>,
    /// By origin, where there are several.
    pub(crate) origins: Option<Box<OriginCounts>>,
    /// Made by the first message of a session.
    websocket: Option<Box<websocket::Counts>>,
}

/// A report travels without its last window: that has been handed over.
fn no_window() -> Window {
    Window::new(0, false)
}

impl Recorder {
    /// Whether requests have been there before they left.
    pub(crate) fn waits(&self) -> bool {
        self.window.waits.is_some()
    }

    /// The counts of gRPC calls.
    #[inline]
    pub(crate) fn calls(&mut self) -> &mut Counts {
        self.calls.get_or_insert_with(|| Box::new(Counts::new()))
    }

    /// The counts of events in responses.
    #[inline]
    pub(crate) fn events(&mut self) -> &mut EventCounts {
        self.events
            .get_or_insert_with(|| Box::new(EventCounts::new()))
    }

    /// The counts of messages in sessions.
    #[inline]
    pub(crate) fn websocket(&mut self) -> &mut websocket::Counts {
        self.websocket
            .get_or_insert_with(|| Box::new(websocket::Counts::new()))
    }

    /// Where `waits`, requests are there before they leave: see
    /// [`crate::plan::Plan::has_waiting_requests`].
    pub(crate) fn new(waits: bool) -> Self {
        Self {
            started: 0,
            ok: 0,
            retried: 0,
            failures: Failures::default(),
            censored: 0,
            early: Early::default(),
            bodies: Bodies::default(),
            warmup: Warmup::default(),
            status: Box::new([0; 1000]),
            service: Durations::new(),
            response: Durations::new(),
            late: Durations::new(),
            cold: None,
            warm: RequestPhases::new(),
            at_once: Durations::new(),
            failed: Durations::new(),
            slowest: Slowest::new(0),
            window: Window::new(0, waits),
            standing: Standing::new(0, &Traffic::default()),
            traffic: Traffic::default(),
            phases: Phases::new(),
            made: None,
            measured_since: u64::MAX,
            calls: None,
            events: None,
            origins: None,
            websocket: None,
        }
    }

    /// Requests that have left and have not ended.
    pub(crate) fn in_flight(&self) -> u64 {
        let ended = self.ok + self.failures.total();
        self.started.saturating_sub(ended)
    }

    /// A request left, the first on its connection where it is `cold`.
    #[inline]
    pub(crate) fn started(&mut self, wait: Wait, cold: bool) {
        self.started += 1;
        // The totals of both, too, are the sums of the windows.
        if let Some(waits) = &mut self.window.waits {
            waits.late.record(wait.late);
            self.of_requests(cold).wait.record(wait.queued);
        }
    }

    #[inline]
    fn of_requests(&mut self, cold: bool) -> &mut RequestPhases {
        if cold {
            return self
                .cold
                .get_or_insert_with(|| Box::new(RequestPhases::new()));
        }
        &mut self.warm
    }

    /// The phases of all requests.
    pub(crate) fn of_all_requests(&self) -> RequestPhases {
        let mut all = RequestPhases::new();
        all.merge(&self.warm);
        if let Some(cold) = &self.cold {
            all.merge(cold);
        }
        all
    }

    /// A complete response that passed every check.
    #[inline]
    pub(crate) fn ok(&mut self, now: u64, at: Instants) {
        self.ok += 1;
        self.window.ok += 1;
        self.durations(now, at, false);
    }

    /// A request that did not; `at` where it had been sent.
    pub(crate) fn failed(
        &mut self,
        kind: FailureKind,
        now: u64,
        at: Option<Instants>,
        example: impl FnOnce() -> String,
    ) {
        self.failures.add(kind, example);
        self.window.failed += 1;
        if let (Some(origins), Some(at)) = (&mut self.origins, at) {
            origins.failed(at.of.request);
        }
        match at {
            Some(at) if kind.is_censored() => self.censored(now, at),
            Some(at) => self.failed.record(now.saturating_sub(at.start)),
            None => (),
        }
    }

    /// The request that has failed, and was told without its instants, was this one of the plan's.
    pub(crate) fn failed_was(&mut self, request: u32) {
        if let Some(origins) = &mut self.origins {
            origins.failed(request);
        }
    }

    /// A call whose deadline has passed: it would have taken longer.
    pub(crate) fn deadline_exceeded(&mut self, now: u64, at: Instants, deadline: Duration) {
        let code = Code::DeadlineExceeded;
        self.failed(FailureKind::Status, now, None, || {
            let (number, name) = (code as u32, code.name());
            format!("grpc-status {number} {name}: no complete response within the deadline of {deadline:?}")
        });
        self.failed_was(at.of.request);
        self.censored(now, at);
    }

    fn censored(&mut self, now: u64, at: Instants) {
        self.censored += 1;
        self.durations(now, at, true);
    }

    #[inline]
    fn durations(&mut self, now: u64, at: Instants, timed_out: bool) {
        let mut took = now.saturating_sub(at.start);
        if let Some(origins) = &mut self.origins {
            origins.lasted(at.of.request, took, timed_out);
        }
        // The totals are the sums of the windows: see `finish_window`.
        if at.head == now && !at.cold {
            self.at_once.record(took);
        } else {
            self.window.service.record(took);
            if at.head != 0 {
                let phases = self.of_requests(at.cold);
                phases.ttfb.record(at.head.saturating_sub(at.start));
                phases.body.record(now.saturating_sub(at.head));
            }
        }
        if let Some(waits) = &mut self.window.waits {
            took = now.saturating_sub(at.intended);
            waits.response.record(took);
        }
        self.slowest.consider(took, at, timed_out);
    }

    /// When the measured part began; `u64::MAX` where it has not.
    pub(crate) fn measured_since(&self) -> u64 {
        self.measured_since
    }

    /// The measured part begins.
    pub(crate) fn begin_measuring(&mut self, now: u64) {
        self.measured_since = now;
        self.made = None;
    }

    /// Adds what `tell` knows of a connection begun at `began` to every account that it belongs to.
    pub(crate) fn of_connection(&mut self, began: u64, tell: impl Fn(&mut Phases)) {
        tell(&mut self.phases);
        if began >= self.measured_since {
            tell(self.made.get_or_insert_with(|| Box::new(Phases::new())));
        }
    }

    /// The first response on a connection begun at `began` comes.
    #[cold]
    pub(crate) fn first_byte(&mut self, began: u64, now: u64) {
        self.of_connection(began, |phases| {
            phases.first_byte.record(now.saturating_sub(began));
        });
    }

    /// Ends the warm-up: what has ended so far is counted apart, what is in flight is measured.
    pub(crate) fn finish_warmup(&mut self, in_flight: u64) {
        let ended = self.ok + self.failures.total();
        self.warmup = Warmup {
            started: ended,
            ok: self.ok,
            failed: self.failures.total(),
        };
        self.started = in_flight;
        self.ok = 0;
        self.retried = 0;
        self.censored = 0;
        self.early = Early::default();
        self.bodies = Bodies::default();
        self.failures = Failures::default();
        self.status.fill(0);
        for durations in [
            &mut self.service,
            &mut self.response,
            &mut self.late,
            &mut self.failed,
        ] {
            durations.clear();
        }
        self.cold = None;
        self.warm.clear();
        self.window.clear_durations();
        self.standing = Standing::new(in_flight, &self.traffic);
        self.at_once.clear();
        self.slowest.clear();
        if let Some(calls) = &mut self.calls {
            calls.clear();
        }
        if let Some(events) = &mut self.events {
            events.clear();
        }
        if let Some(origins) = &mut self.origins {
            origins.clear();
        }
        if let Some(websocket) = &mut self.websocket {
            websocket.clear();
        }
        (self.window.index, self.window.ok, self.window.failed) = (0, 0, 0);
    }

    /// Adds the window to the total, begins the next and returns the finished one.
    pub(crate) fn finish_window(&mut self, length_ns: u64) -> Window {
        self.window.service.merge(&self.at_once);
        self.warm.ttfb.merge(&self.at_once);
        self.warm.body.record_many(0, self.at_once.count());
        self.at_once.clear();
        self.service.merge(&self.window.service);
        if let Some(waits) = &self.window.waits {
            self.response.merge(&waits.response);
            self.late.merge(&waits.late);
        }
        self.window.length_ns = length_ns;
        self.window.part =
            self.standing
                .advance(self.started, &self.traffic, &self.status, &self.failures);
        if let Some(calls) = &mut self.calls {
            self.window.part.messages = calls.finish_window();
        }
        let next = Window::new(self.window.index + 1, self.waits());
        std::mem::replace(&mut self.window, next)
    }

    /// Whether these can be the counts of a run: they come from another machine, and are added up.
    pub(crate) fn is_plausible(&self) -> bool {
        let (early, warmup) = (&self.early, &self.warmup);
        let counts = [
            self.started,
            self.ok,
            self.retried,
            self.censored,
            early.count,
            early.body_bytes,
            early.body_sent,
            warmup.started,
            warmup.ok,
            warmup.failed,
        ];
        let mut counts = counts.iter().chain(self.status.iter());
        counts.all(|&count| count <= MOST_COUNTED)
            && self
                .failures
                .iter()
                .all(|(_, count, _)| count <= MOST_COUNTED)
            && self.traffic.is_plausible()
    }

    /// Adds another worker's counts.
    pub(crate) fn merge(&mut self, other: Recorder) {
        self.started += other.started;
        self.ok += other.ok;
        self.retried += other.retried;
        self.censored += other.censored;
        self.early.merge(other.early);
        self.bodies.merge(&other.bodies);
        self.failures.merge(other.failures);
        self.warmup.started += other.warmup.started;
        self.warmup.ok += other.warmup.ok;
        self.warmup.failed += other.warmup.failed;
        for (sum, count) in self.status.iter_mut().zip(other.status.iter()) {
            *sum += count;
        }
        self.service.merge(&other.service);
        self.response.merge(&other.response);
        self.late.merge(&other.late);
        if let Some(cold) = &other.cold {
            self.of_requests(true).merge(cold);
        }
        self.warm.merge(&other.warm);
        self.failed.merge(&other.failed);
        self.slowest.merge(other.slowest);
        self.traffic.add(&other.traffic);
        self.phases.merge(&other.phases);
        if let Some(made) = &other.made {
            self.made
                .get_or_insert_with(|| Box::new(Phases::new()))
                .merge(made);
        }
        if let Some(calls) = &other.calls {
            self.calls().merge(calls);
        }
        if let Some(events) = &other.events {
            self.events().merge(events);
        }
        match (&mut self.origins, other.origins) {
            (Some(sum), Some(more)) => sum.merge(&more),
            (sum, more) => *sum = sum.take().or(more),
        }
        if let Some(websocket) = &other.websocket {
            self.websocket().merge(websocket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slowest::Of;

    #[test]
    fn requests_that_are_reset_do_not_make_the_others_look_fast() {
        let mut recorder = Recorder::new(false);
        let at = |start| Instants {
            intended: start,
            start,
            head: start + 1,
            cold: start == 1,
            of: Of::default(),
        };
        for _ in 0..95 {
            recorder.ok(10_000_000, at(0));
        }
        for kind in [
            FailureKind::Reset,
            FailureKind::Closed,
            FailureKind::Goaway,
            FailureKind::Status,
            FailureKind::Body,
        ] {
            recorder.failed(kind, 50_000, Some(at(0)), String::new);
        }
        // How long it takes is not known, but longer than this.
        recorder.failed(FailureKind::Timeout, 30_000_000, Some(at(0)), String::new);
        recorder.finish_window(1);
        let counts = |durations: &Durations| (durations.count(), durations.summary().min);
        assert_eq!(counts(&recorder.service).0, 96);
        assert!(counts(&recorder.service).1.unwrap() > 0.009);
        assert_eq!(counts(&recorder.failed).0, 5);
        assert_eq!(recorder.warm.ttfb.count(), 96);
        recorder.ok(30, at(1));
        assert_eq!(recorder.cold.as_ref().unwrap().body.count(), 1);
        let all = recorder.of_all_requests();
        assert_eq!((all.ttfb.count(), all.body.count()), (97, 97));
        assert_eq!((recorder.censored, recorder.failures.total()), (1, 6));
    }

    #[test]
    fn a_response_that_comes_as_a_whole_has_every_phase() {
        let mut recorder = Recorder::new(false);
        for (head, end) in [(5_000_000, 5_000_000), (5_000_000, 8_000_000)] {
            let at = Instants {
                start: 1_000_000,
                head,
                ..Instants::default()
            };
            recorder.ok(end, at);
        }
        let window = recorder.finish_window(1);
        let ends = |durations: &Durations| {
            let summary = durations.summary();
            (summary.count, summary.min.unwrap(), summary.max.unwrap())
        };
        assert_eq!(ends(&window.service), (2, 0.004, 0.007));
        assert_eq!(ends(&recorder.service), (2, 0.004, 0.007));
        assert_eq!(ends(&recorder.warm.ttfb), (2, 0.004, 0.004));
        assert_eq!(ends(&recorder.warm.body), (2, 0.0, 0.003));
        // What was counted in one window is not in the next.
        recorder.finish_window(1);
        assert_eq!(recorder.service.count(), 2);
    }
}
