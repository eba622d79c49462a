//! When the next request leaves.

use std::sync::Arc;

use crate::arrivals::Arriving;
use crate::plan::Plan;
use crate::tally::Pending;

/// The schedule of one worker.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Requests to be measured, where their number ends the run.
    asked: Option<u64>,
    /// How many of them are still to be sent; None in the warm-up too, which takes as many as it can.
    left: Option<u64>,
    /// When requests are due; `None` in the closed model.
    arriving: Option<Arriving>,
    /// How late a request may leave, in nanoseconds, and how many were not sent as they were later.
    latest: Option<u64>,
    shed: u64,
    begun: Option<u64>,
    /// The order in which requests take turns, and whose turn it is.
    turns: Arc<[u32]>,
    turn: usize,
    /// The number of the next request among all of the run, and how far that of the one behind it is.
    number: u64,
    workers: u64,
}

/// Requests of the open model that were never sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        Self {
            asked,
            left: asked.filter(|_| plan.warmup.is_zero()),
            arriving: plan.arriving(index),
            latest: plan.shed_after.map(|latest| latest.as_nanos() as u64),
            shed: 0,
            begun: None,
            turns: Arc::clone(&plan.turns),
            turn: 0,
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
        self.left = self.asked.map(|asked| asked.saturating_sub(in_flight));
        self.shed = 0;
    }

    /// The next request that may be sent now.
    /// One that could only leave too late is counted as shed.
    #[inline]
    pub(crate) fn take(&mut self, now: u64) -> Option<Pending> {
        if self.left == Some(0) {
            return None;
        }
        let intended = match &mut self.arriving {
            None => now,
            Some(arriving) => loop {
                let due = self.begun? + arriving.due()?;
                if due > now || self.left == Some(0) {
                    return None;
                }
                arriving.advance();
                if self.latest.is_none_or(|latest| now - due <= latest) {
                    break due;
                }
                self.shed += 1;
                if let Some(left) = &mut self.left {
                    *left -= 1;
                }
            },
        };
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        let request = self.turns[self.turn];
        // A division takes longer than all the rest.
        self.turn = if self.turn + 1 < self.turns.len() {
            self.turn + 1
        } else {
            0
        };
        let number = self.number;
        self.number += self.workers;
        Some(Pending {
            request,
            number,
            attempts: 0,
            intended,
            start: 0,
            user: 0,
        })
    }

    /// When the next request may leave at the earliest: in the closed model any time.
    pub(crate) fn next_start(&self) -> Option<u64> {
        match self.arriving {
            None => (self.left != Some(0)).then_some(0),
            Some(_) => self.next_due(),
        }
    }

    /// The intended start of the next request in the open model.
    pub(crate) fn next_due(&self) -> Option<u64> {
        if self.left == Some(0) {
            return None;
        }
        Some(self.begun? + self.arriving.as_ref()?.due()?)
    }

    /// Requests that were due at `now` and have not been sent: those that are too late to be, with those
    /// that were before, and the others.
    pub(crate) fn unsent(&self, now: u64) -> Unsent {
        let (Some(begun), Some(arriving)) = (self.begun, &self.arriving) else {
            return Unsent::default();
        };
        let limit = self.left.unwrap_or(u64::MAX);
        let elapsed = now.saturating_sub(begun);
        let due = arriving.due_by(elapsed).min(limit);
        let too_late = self
            .latest
            .and_then(|latest| elapsed.checked_sub(latest + 1))
            .map_or(0, |until| arriving.due_by(until).min(due));
        Unsent {
            shed: self.shed + too_late,
            waiting: due - too_late,
        }
    }

    /// Whether there is a request that should have been sent.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.next_start().is_some_and(|start| start <= now)
    }

    /// Whether every request of a counted run has been sent.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left == Some(0)
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
        assert_eq!(schedule.take(5_000_000).unwrap().intended, 5_000_000);
        assert!(schedule.take(5_999_999).is_none());
        assert_eq!(schedule.unsent(8_000_000).waiting, 3);
        let intended: Vec<u64> = std::iter::from_fn(|| schedule.take(8_000_000))
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
        assert_eq!(schedule.take(2_000_000).unwrap().intended, 0);
        // Those of 1 and 2 ms are 3 and 2 ms late: the first of them is too much.
        assert_eq!(schedule.take(4_000_000).unwrap().intended, 2_000_000);
        // Those of 3 to 5 ms would be, and those of 6 to 8 are not.
        let unsent = |schedule: &Schedule| schedule.unsent(8_000_000);
        let (shed, waiting) = (1 + 3, 3);
        assert_eq!(unsent(&schedule), Unsent { shed, waiting });
        // None of the ten is left in the end, sent or shed.
        assert!(schedule.take(1_000_000_000).is_none());
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
    fn workers_interleave_and_share_the_count() {
        let mut second = schedule(Some(1000.0), Some(5), 2, 1);
        second.begin(0);
        assert_eq!(second.next_due(), Some(1_000_000));
        let sent = std::iter::from_fn(|| second.take(u64::MAX >> 1)).count();
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
            assert!(schedule.take(7).is_some());
        }
        assert!(!schedule.is_exhausted());
        // One of the ten has not ended.
        schedule.finish_warmup(1);
        assert_eq!(std::iter::from_fn(|| schedule.take(8)).count(), 2);
        assert!(schedule.is_exhausted());
    }

    #[test]
    fn urls_take_turns() {
        let mut schedule = schedule(None, Some(3), 1, 0);
        let order: Vec<u32> = std::iter::from_fn(|| schedule.take(7))
            .map(|p| p.request)
            .collect();
        assert_eq!(order, [0, 1, 0]);
    }

    #[test]
    fn requests_of_all_workers_have_numbers_of_their_own() {
        let numbers = [0, 1, 2].map(|index| {
            let mut schedule = schedule(None, Some(8), 3, index);
            let taken = std::iter::from_fn(|| schedule.take(7));
            taken.map(|pending| pending.number).collect::<Vec<_>>()
        });
        assert_eq!(numbers, [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]);
    }
}
