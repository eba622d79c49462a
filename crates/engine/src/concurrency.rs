//! How many requests are in flight at one time, and how many the servers allow.

use serde::{Deserialize, Serialize};

use crate::exchanges::Exchanges;

/// The requests in flight on all connections of one worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InFlight {
    now: u64,
    at_most: u64,
}

/// What one place for a connection has to do with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// Its requests, as they were last counted.
    in_flight: u64,
    /// The most that a server has allowed at one time on a connection of this place, `u64::MAX` where
    /// it set no limit; none before one has told.
    allowed: Option<u64>,
}

impl InFlight {
    /// Counts the requests in flight on a connection, whose server allows so many at one time as far
    /// as it has told.
    #[inline]
    pub(crate) fn count(&mut self, exchanges: &mut Exchanges, allowed: Option<u64>) {
        let in_flight = exchanges.in_flight();
        let share = &mut exchanges.share;
        self.now = self.now - share.in_flight + in_flight;
        self.at_most = self.at_most.max(self.now);
        share.in_flight = in_flight;
        share.allowed = share.allowed.max(allowed);
    }

    /// So many were in flight when they were last counted.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }
}

/// How many requests were in flight in a run, and how many could have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Concurrency {
    /// In flight at one time at most: the sum over the threads.
    pub(crate) at_most: u64,
    /// The fewest that a server allowed on a connection; none where none set a limit.
    pub(crate) allowed: Option<u64>,
    /// As many as the servers allowed on all connections, and the plan wants.
    possible: u64,
}

impl Concurrency {
    /// That of one worker, whose connections may have `streams` requests in flight each.
    pub(crate) fn new(
        in_flight: InFlight,
        shares: impl Iterator<Item = Share>,
        streams: usize,
    ) -> Self {
        let mut sum = Self::default();
        for Share { allowed, .. } in shares {
            let limit = allowed.filter(|&limit| limit < u64::MAX);
            sum.allowed = fewest(sum.allowed, limit);
            sum.possible += allowed.unwrap_or(u64::MAX).min(streams as u64);
        }
        // What was sent before a server had told its limit, and exceeded it, was refused.
        sum.at_most = in_flight.at_most.min(sum.possible);
        sum
    }

    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: Self) {
        self.at_most += other.at_most;
        self.allowed = fewest(self.allowed, other.allowed);
        self.possible += other.possible;
    }

    /// How many streams the servers allow on a connection, where that keeps `wanted` requests from
    /// being in flight together.
    pub(crate) fn shortage(&self, wanted: u64) -> Option<u64> {
        self.allowed.filter(|_| self.possible < wanted)
    }
}

fn fewest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::plan::{Plan, Version};
    use crate::tally::Pending;

    fn plan() -> Plan {
        Plan::new(&Options {
            urls: vec!["http://a/".into()],
            version: Some(Version::H2c),
            streams: 100,
            ..Options::default()
        })
        .unwrap()
    }

    /// So many more requests are sent.
    fn send(exchanges: &mut Exchanges, count: u64) {
        for _ in 0..count {
            let id = trilane_wire::StreamId {
                number: 1,
                slot: exchanges.next_slot().unwrap(),
            };
            exchanges.open(id, Pending::default(), 0, 1, false);
        }
    }

    fn end_all(exchanges: &mut Exchanges) {
        let live: Vec<_> = exchanges.overdue(u64::MAX).collect();
        for id in live {
            exchanges.close(id);
        }
    }

    fn total(in_flight: InFlight, all: &[Exchanges]) -> Concurrency {
        Concurrency::new(in_flight, all.iter().map(|each| each.share), 100)
    }

    #[test]
    fn what_meets_is_counted_and_what_does_not_is_not() {
        let plan = plan();
        let mut all = [Exchanges::new(&plan, 0), Exchanges::new(&plan, 0)];
        let mut in_flight = InFlight::default();
        send(&mut all[0], 7);
        in_flight.count(&mut all[0], None);
        end_all(&mut all[0]);
        in_flight.count(&mut all[0], None);
        for exchanges in &mut all {
            send(exchanges, 4);
            in_flight.count(exchanges, None);
        }
        let mut sum = total(in_flight, &all);
        assert_eq!((sum.at_most, sum.allowed), (8, None));
        assert_eq!(sum.shortage(200), None, "no server has set a limit");
        sum.merge(total(in_flight, &all));
        assert_eq!(sum.at_most, 16);
    }

    #[test]
    fn what_is_sent_before_the_limit_is_told_was_not_in_flight_beyond_it() {
        let plan = plan();
        let mut all = [Exchanges::new(&plan, 0), Exchanges::new(&plan, 0)];
        let mut in_flight = InFlight::default();
        for exchanges in &mut all {
            send(exchanges, 100);
            in_flight.count(exchanges, None);
        }
        for exchanges in &mut all {
            in_flight.count(exchanges, Some(1));
        }
        let sum = total(in_flight, &all);
        assert_eq!((sum.at_most, sum.allowed), (2, Some(1)));
        assert_eq!(sum.shortage(200), Some(1));
        assert_eq!(sum.shortage(3), Some(1));
        assert_eq!(sum.shortage(2), None, "so few fit");
    }

    #[test]
    fn a_limit_that_shrinks_is_what_it_was_and_one_that_is_wide_is_none() {
        let plan = plan();
        let mut all = [Exchanges::new(&plan, 0), Exchanges::new(&plan, 0)];
        let mut in_flight = InFlight::default();
        in_flight.count(&mut all[0], Some(128));
        in_flight.count(&mut all[0], Some(0));
        in_flight.count(&mut all[1], Some(u64::MAX));
        let sum = total(in_flight, &all);
        assert_eq!(sum.allowed, Some(128));
        assert_eq!(sum.shortage(200), None);
    }
}
