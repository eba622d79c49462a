//! When the next request leaves.

use crate::plan::{Model, Plan};
use crate::tally::Pending;

/// The schedule of one worker.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Requests to be measured, where their number ends the run.
    asked: Option<u64>,
    /// How many of them are still to be sent; None in the warm-up too, which takes as many as it can.
    left: Option<u64>,
    /// Nanoseconds between two intended starts; `None` in the closed model.
    interval: Option<f64>,
    /// Where this worker's first request stands between those of the others.
    offset: f64,
    begun: Option<u64>,
    sent: u64,
    /// How many requests take turns, and whose turn it is.
    requests: u32,
    turn: u32,
}

impl Schedule {
    /// The share of worker `index` of `plan`.
    pub(crate) fn new(plan: &Plan, index: usize) -> Self {
        let threads = plan.threads as u64;
        let worker = index as u64;
        let interval = match plan.model {
            Model::Closed => None,
            Model::Open(rate) => Some(1e9 * plan.threads as f64 / rate),
        };
        let asked = plan
            .requests
            .map(|n| n / threads + u64::from(worker < n % threads));
        Self {
            asked,
            left: asked.filter(|_| plan.warmup.is_zero()),
            offset: interval.unwrap_or(0.0) * worker as f64 / threads as f64,
            interval,
            begun: None,
            sent: 0,
            requests: plan.prepared.len() as u32,
            turn: 0,
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
    }

    /// The next request that may be sent now.
    #[inline]
    pub(crate) fn take(&mut self, now: u64) -> Option<Pending> {
        if self.left == Some(0) {
            return None;
        }
        let intended = match self.interval {
            None => now,
            Some(_) => self.next_due().filter(|&due| due <= now)?,
        };
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        let request = self.turn;
        // A division takes longer than all the rest.
        self.turn = if request + 1 < self.requests {
            request + 1
        } else {
            0
        };
        self.sent += 1;
        Some(Pending {
            request,
            attempts: 0,
            intended,
            start: 0,
        })
    }

    /// The intended start of the next request in the open model.
    pub(crate) fn next_due(&self) -> Option<u64> {
        if self.left == Some(0) {
            return None;
        }
        Some(self.begun? + (self.offset + self.interval? * self.sent as f64) as u64)
    }

    /// Requests that were due at `now` and have not been sent.
    pub(crate) fn overdue(&self, now: u64) -> u64 {
        match (self.interval, self.next_due()) {
            (Some(interval), Some(due)) if due <= now => ((now - due) as f64 / interval) as u64 + 1,
            _ => 0,
        }
    }

    /// Whether there is a request that should have been sent.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        match self.interval {
            None => self.left != Some(0),
            Some(_) => self.next_due().is_some_and(|due| due <= now),
        }
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
        assert_eq!(schedule.overdue(8_000_000), 3);
        let intended: Vec<u64> = std::iter::from_fn(|| schedule.take(8_000_000))
            .map(|p| p.intended)
            .collect();
        assert_eq!(intended, [6_000_000, 7_000_000, 8_000_000]);
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
}
