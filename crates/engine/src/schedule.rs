//! When the next request leaves.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::arrivals::Arriving;
use crate::plan::Plan;
use crate::tally::Pending;
use crate::worker::share;

/// When the requests of one worker are due.
#[derive(Debug)]
enum Due {
    /// As soon as a stream is free.
    Always,
    /// By one clock, on whichever of its connections has room.
    Anywhere(Arriving),
    /// In each lane by a clock of its own: on each of its connections, by place, or at each of several
    /// origins.
    Each(Vec<Arriving>),
    /// Closed model, several origins: in their order, of which these wait for a connection to theirs.
    Assigned(Assigned),
}

/// Closed model: requests whose turn has come, by origin, the first first.
#[derive(Debug)]
struct Assigned {
    waiting: Vec<VecDeque<Pending>>,
    /// How many of them there may be together with those in flight.
    most: u64,
}

impl Assigned {
    fn count(&self) -> u64 {
        self.waiting.iter().map(|each| each.len() as u64).sum()
    }
}

/// An order in which requests take turns, and whose turn it is.
#[derive(Debug)]
struct Turns {
    order: Arc<[u32]>,
    next: usize,
}

impl Turns {
    fn new(order: Arc<[u32]>) -> Self {
        Self { order, next: 0 }
    }

    #[inline]
    fn take(&mut self) -> u32 {
        let request = self.order[self.next];
        // A division takes longer than all the rest.
        self.next = if self.next + 1 < self.order.len() {
            self.next + 1
        } else {
            0
        };
        request
    }
}

impl Due {
    /// The clocks; none in the closed model.
    fn clocks(&self) -> &[Arriving] {
        match self {
            Self::Always | Self::Assigned(_) => &[],
            Self::Anywhere(arriving) => std::slice::from_ref(arriving),
            Self::Each(all) => all,
        }
    }

    /// Closed model, several origins: requests that wait for a connection to theirs.
    fn assigned(&self) -> u64 {
        match self {
            Self::Assigned(assigned) => assigned.count(),
            Self::Always | Self::Anywhere(_) | Self::Each(_) => 0,
        }
    }
}

/// The schedule of one worker.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Requests to be measured, where their number ends the run.
    asked: Option<u64>,
    /// How many of them are still to be sent; None in the warm-up too, which takes as many as it can.
    left: Option<u64>,
    due: Due,
    /// How late a request may leave, in nanoseconds, and how many were not sent as they were later.
    latest: Option<u64>,
    shed: u64,
    begun: Option<u64>,
    turns: Turns,
    /// Open model, several origins: the turns of the requests to each.
    turns_at_each: Vec<Turns>,
    /// The number of the next request among all of the run, and how far that of the one behind it is.
    number: u64,
    workers: u64,
}

/// Requests of the open model that were never sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unsent {
    /// They could only have left too late.
    pub(crate) shed: u64,
    /// They were due as the run ended.
    pub(crate) waiting: u64,
}

impl Schedule {
    /// The share of worker `index` of `plan`.
    pub(crate) fn new(plan: &Plan, index: usize) -> Self {
        let threads = plan.threads as u64;
        let worker = index as u64;
        let asked = plan
            .requests
            .map(|n| n / threads + u64::from(worker < n % threads));
        // Users go to one origin after the other.
        let several = plan.has_several_origins() && plan.scenario.is_none();
        let due = match plan.arriving(index) {
            Some(_) if several => Due::Each(plan.arriving_at_each(index)),
            Some(arriving) => Due::Anywhere(arriving),
            None if plan.rate_per_connection.is_some() => Due::Each(plan.arriving_on_each(index)),
            None if several => Due::Assigned(Assigned {
                waiting: vec![VecDeque::new(); plan.origins.len()],
                most: (share(plan.connections, plan, index) * plan.streams) as u64,
            }),
            None => Due::Always,
        };
        let at_each = match &due {
            Due::Each(_) if several => plan.turns_at_each(),
            _ => Vec::new(),
        };
        Self {
            asked,
            left: asked.filter(|_| plan.warmup.is_zero()),
            due,
            latest: plan.shed_after.map(|latest| latest.as_nanos() as u64),
            shed: 0,
            begun: None,
            turns: Turns::new(Arc::clone(&plan.turns)),
            turns_at_each: at_each.into_iter().map(Turns::new).collect(),
            number: worker,
            workers: threads,
        }
    }

    /// The instant of the first request (closed) or of the schedule's origin (open); the clock of
    /// warm-up and measurement starts here, so that no connection's set-up is in it.
    pub(crate) fn begun(&self) -> Option<u64> {
        self.begun
    }

    /// The first connection of this worker is ready.
    pub(crate) fn begin(&mut self, now: u64) {
        self.begun.get_or_insert(now);
    }

    /// The run began at `begun`: what is due counts from there, so that the requests of all workers
    /// keep their distance.
    pub(crate) fn align(&mut self, begun: u64) {
        self.begun = Some(begun);
    }

    /// The warm-up is over, with so many requests in flight: they are the first of those to be
    /// counted, and what was sent before is not.
    pub(crate) fn finish_warmup(&mut self, in_flight: u64) {
        let sent = in_flight + self.due.assigned();
        self.left = self.asked.map(|asked| asked.saturating_sub(sent));
        self.shed = 0;
    }

    /// The next request that may be sent now, in a lane: that of a connection, where each has a rate of its
    /// own, or of its origin. One that could only leave too late is counted as shed.
    #[inline]
    pub(crate) fn take(&mut self, now: u64, lane: u32) -> Option<Pending> {
        // The closed model to one origin, where a request costs least.
        if matches!(self.due, Due::Always) {
            if self.left == Some(0) {
                return None;
            }
            let request = self.turns.take();
            return Some(self.numbered(request, now));
        }
        self.take_due(now, lane)
    }

    fn take_due(&mut self, now: u64, lane: u32) -> Option<Pending> {
        let arriving = match &mut self.due {
            Due::Always => return None,
            Due::Anywhere(arriving) => arriving,
            Due::Each(all) => all.get_mut(lane as usize)?,
            Due::Assigned(assigned) => return assigned.waiting[lane as usize].pop_front(),
        };
        let begun = self.begun?;
        // Whatever leaves now and was due before this would be too late.
        let too_late = self
            .latest
            .and_then(|latest| now.saturating_sub(begun).checked_sub(latest + 1));
        if let Some(until) = too_late {
            let shed = arriving.skip(until).min(self.left.unwrap_or(u64::MAX));
            self.shed += shed;
            self.left = self.left.map(|left| left - shed);
        }
        let intended = begun + arriving.due()?;
        if intended > now || self.left == Some(0) {
            return None;
        }
        arriving.advance();
        let turns = self.turns_at_each.get_mut(lane as usize);
        let request = turns.unwrap_or(&mut self.turns).take();
        Some(self.numbered(request, intended))
    }

    /// A request that should be sent at `intended`, with its number.
    #[inline]
    fn numbered(&mut self, request: u32, intended: u64) -> Pending {
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        let number = self.number;
        self.number += self.workers;
        Pending {
            request,
            number,
            attempts: 0,
            intended,
            start: 0,
            user: 0,
        }
    }

    /// Closed model, several origins: whether another request may be in flight beside so many.
    pub(crate) fn may_assign(&self, in_flight: u64) -> bool {
        match &self.due {
            Due::Assigned(assigned) => {
                self.left != Some(0) && in_flight + assigned.count() < assigned.most
            }
            Due::Always | Due::Anywhere(_) | Due::Each(_) => false,
        }
    }

    /// Closed model, several origins: puts the next request in order before the connections to its origin,
    /// which is told, where it may be in flight beside so many.
    pub(crate) fn assign(&mut self, now: u64, in_flight: u64, plan: &Plan) -> Option<usize> {
        if !self.may_assign(in_flight) {
            return None;
        }
        let request = self.turns.take();
        let pending = self.numbered(request, now);
        let origin = plan.origin_of(request);
        if let Due::Assigned(assigned) = &mut self.due {
            assigned.waiting[origin].push_back(pending);
        }
        Some(origin)
    }

    /// Closed model, several origins: how many requests may be in flight.
    pub(crate) fn most_assigned(&self) -> u64 {
        match &self.due {
            Due::Assigned(assigned) => assigned.most,
            Due::Always | Due::Anywhere(_) | Due::Each(_) => 0,
        }
    }

    /// When the next request may leave at the earliest: in the closed model any time.
    pub(crate) fn next_start(&self) -> Option<u64> {
        match &self.due {
            Due::Always => (self.left != Some(0)).then_some(0),
            Due::Anywhere(_) | Due::Each(_) | Due::Assigned(_) => self.next_due(),
        }
    }

    /// The intended start of the next request in the open model, where any connection may carry it.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<u64> {
        match &self.due {
            Due::Anywhere(arriving) => self.next_of(arriving),
            Due::Always | Due::Each(_) | Due::Assigned(_) => None,
        }
    }

    /// The intended start of the next request in a lane, where each has its own.
    pub(crate) fn next_due_on(&self, lane: u32) -> Option<u64> {
        match &self.due {
            Due::Each(all) => self.next_of(all.get(lane as usize)?),
            Due::Assigned(assigned) => {
                let next = assigned.waiting.get(lane as usize)?.front()?;
                Some(next.intended)
            }
            Due::Always | Due::Anywhere(_) => None,
        }
    }

    #[inline]
    fn next_of(&self, arriving: &Arriving) -> Option<u64> {
        if self.left == Some(0) {
            return None;
        }
        Some(self.begun? + arriving.due()?)
    }

    /// Requests that were due at `now` and have not been sent: those that are too late to be, with those
    /// that were before, and the others.
    pub(crate) fn unsent(&self, now: u64) -> Unsent {
        let (Some(begun), clocks @ [_, ..]) = (self.begun, self.due.clocks()) else {
            return Unsent::default();
        };
        let limit = self.left.unwrap_or(u64::MAX);
        let elapsed = now.saturating_sub(begun);
        let due_by = |until| clocks.iter().map(|clock| clock.due_by(until)).sum::<u64>();
        let due = due_by(elapsed).min(limit);
        let too_late = self
            .latest
            .and_then(|latest| elapsed.checked_sub(latest + 1))
            .map_or(0, |until| due_by(until).min(due));
        Unsent {
            shed: self.shed + too_late,
            waiting: due - too_late,
        }
    }

    /// About how many requests were due at `now` and have neither been sent nor shed: see
    /// [`Arriving::expected_by`].
    pub(crate) fn backlog(&self, now: u64) -> u64 {
        let Some(begun) = self.begun else { return 0 };
        let elapsed = now.saturating_sub(begun);
        let due = self
            .due
            .clocks()
            .iter()
            .map(|clock| clock.expected_by(elapsed));
        due.sum::<u64>().min(self.left.unwrap_or(u64::MAX))
    }

    /// Whether there is a request that should have been sent.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        match self.due.clocks() {
            [] => self.left != Some(0) || self.due.assigned() > 0,
            clocks => {
                let mut next = clocks.iter().filter_map(|clock| self.next_of(clock));
                next.any(|due| due <= now)
            }
        }
    }

    /// Whether every request of a counted run has been sent.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left == Some(0) && self.due.assigned() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Options;

    fn schedule(
        rate: Option<f64>,
        requests: Option<u64>,
        threads: usize,
        index: usize,
    ) -> Schedule {
        let options = Options {
            urls: vec!["http://a/1".into(), "http://a/2".into()],
            rate,
            requests,
            threads,
            ..Options::default()
        };
        Schedule::new(&Plan::new(&options).unwrap(), index)
    }

    #[test]
    fn the_open_model_keeps_its_spacing_when_late() {
        let mut schedule = schedule(Some(1000.0), None, 1, 0);
        schedule.begin(5_000_000);
        assert_eq!(schedule.take(5_000_000, 0).unwrap().intended, 5_000_000);
        assert!(schedule.take(5_999_999, 0).is_none());
        assert_eq!(schedule.unsent(8_000_000).waiting, 3);
        let intended: Vec<u64> = std::iter::from_fn(|| schedule.take(8_000_000, 0))
            .map(|p| p.intended)
            .collect();
        assert_eq!(intended, [6_000_000, 7_000_000, 8_000_000]);
    }

    #[test]
    fn what_could_only_leave_too_late_is_shed() {
        let options = Options {
            urls: vec!["http://a/".into()],
            rate: Some(1000.0),
            requests: Some(10),
            shed_after: Some(std::time::Duration::from_millis(2)),
            ..Options::default()
        };
        let mut schedule = Schedule::new(&Plan::new(&options).unwrap(), 0);
        schedule.begin(0);
        assert_eq!(schedule.take(2_000_000, 0).unwrap().intended, 0);
        // Those of 1 and 2 ms are 3 and 2 ms late: the first of them is too much.
        assert_eq!(schedule.take(4_000_000, 0).unwrap().intended, 2_000_000);
        // Those of 3 to 5 ms would be, and those of 6 to 8 are not.
        let unsent = |schedule: &Schedule| schedule.unsent(8_000_000);
        let (shed, waiting) = (1 + 3, 3);
        assert_eq!(unsent(&schedule), Unsent { shed, waiting });
        // None of the ten is left in the end, sent or shed.
        assert!(schedule.take(1_000_000_000, 0).is_none());
        assert!(schedule.is_exhausted());
        assert_eq!(
            schedule.unsent(1_000_000_000),
            Unsent {
                shed: 8,
                waiting: 0
            }
        );
    }

    #[test]
    fn each_connection_has_a_rate_of_its_own() {
        let options = Options {
            urls: vec!["http://a/".into()],
            connections: 5,
            threads: 2,
            rate_per_connection: Some(10.0),
            shed_after: Some(std::time::Duration::from_millis(150)),
            ..Options::default()
        };
        let plan = Plan::new(&options).unwrap();
        let mut due = [0; 5];
        for (index, places) in [(0, 3), (1, 2)] {
            let mut schedule = Schedule::new(&plan, index);
            schedule.begin(0);
            assert_eq!(schedule.next_due(), None);
            assert_eq!(schedule.next_due_on(places), None);
            let first = 3 * index;
            for place in 0..places {
                due[first + place as usize] = schedule.next_due_on(place).unwrap();
            }
            // What one connection does not take is no other's.
            assert!(schedule.take(100_000_000, 1).is_some());
            assert_eq!(schedule.next_due_on(0), Some(due[first]));
            // By then each has had three, of which the first is too late.
            let now = 290_000_000;
            assert!(schedule.is_due(now));
            let Unsent { shed, waiting } = schedule.unsent(now);
            assert_eq!(shed + waiting + 1, u64::from(places) * 3);
            assert_eq!(schedule.backlog(now), shed + waiting);
        }
        // A fifth of a tenth of a second apart, so that they do not come together.
        let millis = due.map(|due| (due as f64 / 1e6).round() as u64);
        assert_eq!(millis, [0, 40, 80, 20, 60]);
    }

    #[test]
    fn workers_interleave_and_share_the_count() {
        let mut second = schedule(Some(1000.0), Some(5), 2, 1);
        second.begin(0);
        assert_eq!(second.next_due(), Some(1_000_000));
        let sent = std::iter::from_fn(|| second.take(u64::MAX >> 1, 0)).count();
        assert_eq!(sent, 2);
        assert!(second.is_exhausted());
    }

    #[test]
    fn a_warm_up_takes_none_of_the_requests_asked_for() {
        let options = Options {
            urls: vec!["http://a/".into()],
            requests: Some(3),
            warmup: Some(std::time::Duration::from_secs(1)),
            ..Options::default()
        };
        let mut schedule = Schedule::new(&Plan::new(&options).unwrap(), 0);
        for _ in 0..10 {
            assert!(schedule.take(7, 0).is_some());
        }
        assert!(!schedule.is_exhausted());
        // One of the ten has not ended.
        schedule.finish_warmup(1);
        assert_eq!(std::iter::from_fn(|| schedule.take(8, 0)).count(), 2);
        assert!(schedule.is_exhausted());
    }

    #[test]
    fn urls_take_turns() {
        let mut schedule = schedule(None, Some(3), 1, 0);
        let order: Vec<u32> = std::iter::from_fn(|| schedule.take(7, 0))
            .map(|p| p.request)
            .collect();
        assert_eq!(order, [0, 1, 0]);
    }

    #[test]
    fn requests_of_all_workers_have_numbers_of_their_own() {
        let numbers = [0, 1, 2].map(|index| {
            let mut schedule = schedule(None, Some(8), 3, index);
            let taken = std::iter::from_fn(|| schedule.take(7, 0));
            taken.map(|pending| pending.number).collect::<Vec<_>>()
        });
        assert_eq!(numbers, [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]);
    }
}
