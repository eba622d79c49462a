//! Which places of a worker connect, when, where to, and how many at a time. No sockets here.

use std::collections::{BTreeMap, VecDeque};

use crate::connections::Connections;
use crate::deadlines::Deadlines;
use crate::failure::FailureKind;
use crate::ramp::Ramp;
use crate::route::Address;

/// A connection that failed is tried again after so many nanoseconds, then twice as long each time,
const SHORTEST_BACKOFF: u64 = 10_000_000;
/// up to so many.
const LONGEST_BACKOFF: u64 = 250_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is queued, or waits until it may be tried again.
    Waiting,
    /// Since the instant, in nanoseconds.
    Connecting(u64),
    Open,
}

/// A place for a connection.
#[derive(Clone, Copy, Debug)]
struct Place {
    state: State,
    /// Which of the addresses the present or last attempt goes to.
    address: usize,
    /// Attempts that failed since the last connection that served.
    failures: u32,
    /// Whether an attempt has come to an end.
    tried: bool,
}

/// The places of one worker, and the account of their connections.
#[derive(Debug)]
pub(crate) struct Pool<'p> {
    addresses: &'p [Address],
    /// The address to try: the first that has not failed every time.
    address: usize,
    /// Where places go to all addresses in turn, over all workers: which worker this is, and of how
    /// many.
    spread: Option<(usize, usize)>,
    /// Connections on which requests could be sent, by address.
    established: Vec<u64>,
    places: Vec<Place>,
    /// Places that may connect, in order.
    queue: VecDeque<u32>,
    /// Places that may connect later.
    later: Deadlines,
    ramp: Ramp,
    connecting: usize,
    open: usize,
    /// Places whose first attempt has not come to an end.
    untried: usize,
    /// When a first attempt has last come to an end.
    progressed: u64,
    pub(crate) counts: Connections,
}

impl<'p> Pool<'p> {
    /// So many places, all of which are to connect to one of `addresses`.
    pub(crate) fn new(addresses: &'p [Address], places: usize, ramp: Ramp) -> Self {
        let place = Place {
            state: State::Waiting,
            address: 0,
            failures: 0,
            tried: false,
        };
        Self {
            addresses,
            address: 0,
            spread: None,
            established: vec![0; addresses.len()],
            places: vec![place; places],
            queue: (0..places as u32).collect(),
            later: Deadlines::new(places),
            ramp,
            connecting: 0,
            open: 0,
            untried: places,
            progressed: 0,
            counts: Connections::default(),
        }
    }

    /// Has the places of worker `index` of `workers` connect to all addresses in turn, and to the next
    /// where one fails.
    pub(crate) fn spread(self, index: usize, workers: usize) -> Self {
        Self {
            spread: Some((index, workers)),
            ..self
        }
    }

    /// A place that connects now, and where to: its attempt has begun.
    pub(crate) fn connect(&mut self, now: u64) -> Option<(u32, &'p Address)> {
        while let Some(index) = self.later.expired(now) {
            self.queue.push_back(index);
        }
        if !self.ramp.has_room(self.connecting) || now < self.ramp.next() {
            return None;
        }
        let index = self.queue.pop_front()?;
        self.ramp.begin(now);
        self.connecting += 1;
        self.counts.attempt();
        let place = &mut self.places[index as usize];
        place.state = State::Connecting(now);
        place.address = match self.spread {
            Some((worker, workers)) => {
                let of_all = index as usize * workers + worker;
                (of_all + place.failures as usize) % self.addresses.len()
            }
            None => self.address,
        };
        Some((index, &self.addresses[place.address]))
    }

    /// When [`Self::connect`] has to be called at the latest, though nothing happens on a connection.
    pub(crate) fn next_due(&self) -> Option<u64> {
        if !self.ramp.has_room(self.connecting) {
            return None;
        }
        let queued = (!self.queue.is_empty()).then(|| self.ramp.next());
        queued.into_iter().chain(self.later.next()).min()
    }

    /// Requests may be sent on the connection in a place.
    pub(crate) fn opened(&mut self, index: u32, now: u64) {
        let place = &mut self.places[index as usize];
        let State::Connecting(since) = place.state else {
            return;
        };
        place.state = State::Open;
        self.established[place.address] += 1;
        self.connecting -= 1;
        self.open += 1;
        self.ramp.done(now.saturating_sub(since));
        self.counts.establish();
        self.tried(index, now);
    }

    fn tried(&mut self, index: u32, now: u64) {
        let place = &mut self.places[index as usize];
        if !place.tried {
            place.tried = true;
            self.untried -= 1;
            self.progressed = now;
        }
    }

    /// Until when requests wait, so that handshakes and requests do not measure each other: until
    /// each place has had its attempt, if need be without those of which nothing has come for a
    /// while. `u64::MAX` before any connection is open, 0 when there is nothing to wait for.
    pub(crate) fn ready_at(&self) -> u64 {
        match self.ramp.patience() {
            _ if self.untried == 0 || self.ramp.is_paced() => 0,
            None => u64::MAX,
            Some(patience) => self.progressed.saturating_add(patience),
        }
    }

    /// An attempt has failed, or a connection has ended. One that `served` is replaced at once; one
    /// that did not waits, so that a server which accepts and closes is not stormed.
    pub(crate) fn ended(&mut self, index: u32, kind: FailureKind, served: bool, now: u64) {
        let place = &mut self.places[index as usize];
        match place.state {
            State::Waiting => return,
            State::Connecting(_) => self.connecting -= 1,
            State::Open => self.open -= 1,
        }
        self.counts.end(place.state == State::Open, kind);
        place.state = State::Waiting;
        self.tried(index, now);
        let place = &mut self.places[index as usize];
        if served {
            place.failures = 0;
            self.queue.push_back(index);
            return;
        }
        let exponent = place.failures.min(10);
        place.failures += 1;
        let backoff = (SHORTEST_BACKOFF << exponent).min(LONGEST_BACKOFF);
        self.later.arm(index, now.saturating_add(backoff));
    }

    /// The connection in a place is closed, as it has carried as many requests as it may: it is
    /// replaced at once.
    pub(crate) fn spent(&mut self, index: u32) {
        let place = &mut self.places[index as usize];
        place.state = State::Waiting;
        place.failures = 0;
        self.open -= 1;
        self.counts.spend();
        self.queue.push_back(index);
    }

    /// While no connection of the run has been ready: whether the place, whose attempt has failed,
    /// goes on with another address of the host, at once.
    pub(crate) fn tries_another_address(&mut self, index: u32) -> bool {
        let place = &mut self.places[index as usize];
        if self.spread.is_some() {
            let has_another = (place.failures as usize) < self.addresses.len();
            if has_another {
                self.hasten(index);
            }
            return has_another;
        }
        let tried = place.address;
        if tried == self.address && tried + 1 < self.addresses.len() {
            self.address += 1;
        }
        // The others that are on their way to the same address end here too.
        if tried == self.address {
            return false;
        }
        self.places[index as usize].failures = 0;
        self.hasten(index);
        true
    }

    /// A place that waits for its next attempt waits no longer.
    fn hasten(&mut self, index: u32) {
        // One that served is queued already.
        if self.later.is_armed(index) {
            self.later.disarm(index);
            self.queue.push_back(index);
        }
    }

    /// Connections on which requests could be sent, by where they went.
    pub(crate) fn peers(&self) -> BTreeMap<String, u64> {
        let counts = self.addresses.iter().zip(&self.established);
        counts
            .filter(|(_, count)| **count > 0)
            .map(|(address, count)| (address.to_string(), *count))
            .collect()
    }

    /// Whether as many places have failed as may try at a time, or all of them.
    pub(crate) fn is_hopeless(&self) -> bool {
        let failed = self.places.iter().filter(|place| place.failures > 0);
        failed.count() >= self.places.len().min(self.ramp.bound())
    }

    /// Whether any attempt has failed since the last connection in its place that served.
    pub(crate) fn has_failed(&self) -> bool {
        self.places.iter().any(|place| place.failures > 0)
    }

    /// Connections on which requests may be sent.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Where the connection in a place goes to.
    pub(crate) fn address(&self, index: u32) -> &Address {
        &self.addresses[self.places[index as usize].address]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn addresses(count: u16) -> Vec<Address> {
        (1..=count)
            .map(|port| Address::Ip(([127, 0, 0, 1], port).into()))
            .collect()
    }

    fn due(pool: &mut Pool<'_>, now: u64) -> Vec<u32> {
        std::iter::from_fn(|| pool.connect(now))
            .map(|(index, _)| index)
            .collect()
    }

    #[test]
    fn places_connect_in_order_and_no_more_at_a_time_than_bounded() {
        let addresses = addresses(1);
        let mut pool = Pool::new(&addresses, 5, Ramp::new(Some(2), 0));
        assert_eq!(due(&mut pool, 0), [0, 1]);
        assert_eq!((due(&mut pool, 0), pool.next_due()), (vec![], None));
        pool.opened(1, 1);
        assert_eq!(due(&mut pool, 1), [2]);
        pool.ended(0, FailureKind::Timeout, false, 2);
        assert_eq!(due(&mut pool, 2), [3]);
        pool.opened(2, 3);
        pool.opened(3, 3);
        assert_eq!(due(&mut pool, 3), [4]);
        assert_eq!(pool.open(), 3);
    }

    #[test]
    fn a_connection_that_served_is_replaced_at_once_and_others_wait_longer_each_time() {
        let addresses = addresses(1);
        let mut pool = Pool::new(&addresses, 1, Ramp::new(None, 0));
        assert_eq!(due(&mut pool, 0), [0]);
        pool.opened(0, 1);
        pool.ended(0, FailureKind::Closed, true, 2);
        assert_eq!((pool.next_due(), due(&mut pool, 2)), (Some(0), vec![0]));
        let mut now = 2;
        let mut waits = Vec::new();
        for _ in 0..7 {
            pool.ended(0, FailureKind::Refused, false, now);
            let next = pool.next_due().unwrap();
            assert!(due(&mut pool, next - 1).is_empty());
            waits.push((next - now) / MS);
            now = next;
            assert_eq!(due(&mut pool, now), [0]);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 250, 250]);
    }

    #[test]
    fn every_address_is_tried_and_the_rest_follow() {
        let addresses = addresses(3);
        let mut pool = Pool::new(&addresses, 3, Ramp::new(None, 0));
        assert_eq!(due(&mut pool, 0), [0, 1, 2]);
        for index in 0..3 {
            assert_eq!(pool.address(index), &addresses[0]);
            pool.ended(index, FailureKind::Refused, false, 1);
            assert!(pool.tries_another_address(index));
        }
        assert_eq!(due(&mut pool, 1), [0, 1, 2]);
        pool.ended(2, FailureKind::Refused, false, 2);
        assert!(pool.tries_another_address(2));
        assert_eq!(pool.connect(2), Some((2, &addresses[2])));
        pool.ended(2, FailureKind::Refused, false, 3);
        assert!(!pool.tries_another_address(2), "there is no other");
        assert!(!pool.is_hopeless());
        pool.ended(0, FailureKind::Refused, false, 3);
        assert!(pool.tries_another_address(0), "it had gone to the second");
    }

    #[test]
    fn places_are_spread_over_the_addresses_of_all_workers() {
        let addresses = addresses(3);
        let mut to = Vec::new();
        for worker in 0..2 {
            let pool = Pool::new(&addresses, 3, Ramp::new(None, 0));
            let mut pool = pool.spread(worker, 2);
            while let Some((index, address)) = pool.connect(0) {
                to.push(address.clone());
                pool.opened(index, 1);
            }
            assert_eq!(pool.peers().values().sum::<u64>(), 3);
        }
        for address in &addresses {
            assert_eq!(to.iter().filter(|other| *other == address).count(), 2);
        }
    }

    #[test]
    fn a_spread_place_whose_address_fails_goes_to_the_next() {
        let addresses = addresses(3);
        let mut pool = Pool::new(&addresses, 1, Ramp::new(None, 0)).spread(0, 1);
        for address in &addresses {
            assert_eq!(pool.connect(0), Some((0, address)));
            pool.ended(0, FailureKind::Refused, false, 0);
            let has_another = address != &addresses[2];
            assert_eq!(pool.tries_another_address(0), has_another);
        }
    }

    #[test]
    fn a_place_that_served_and_tries_another_address_connects_once() {
        let addresses = addresses(2);
        let mut pool = Pool::new(&addresses, 1, Ramp::new(None, 0));
        assert_eq!(due(&mut pool, 0), [0]);
        pool.opened(0, 1);
        pool.ended(0, FailureKind::Limit, true, 2);
        assert!(pool.tries_another_address(0));
        assert_eq!(due(&mut pool, 2), [0]);
        assert_eq!(pool.address(0), &addresses[1]);
    }

    #[test]
    fn when_all_that_may_try_have_failed_there_is_no_hope() {
        let addresses = addresses(1);
        let mut pool = Pool::new(&addresses, 100, Ramp::new(Some(4), 0));
        for index in due(&mut pool, 0) {
            assert!(!pool.is_hopeless());
            pool.ended(index, FailureKind::HandshakeTimeout, false, 5);
        }
        assert!(pool.is_hopeless());
    }

    #[test]
    fn requests_wait_for_the_first_attempt_of_each_place() {
        let addresses = addresses(1);
        let mut pool = Pool::new(&addresses, 3, Ramp::new(None, 0));
        assert_eq!(due(&mut pool, 0), [0, 1, 2]);
        assert_eq!(pool.ready_at(), u64::MAX, "no connection is open");
        pool.ended(0, FailureKind::Refused, false, MS);
        assert_eq!(pool.ready_at(), u64::MAX);
        pool.opened(1, 100 * MS);
        // Three times as long as the fastest.
        assert_eq!(pool.ready_at(), 400 * MS);
        pool.opened(2, 120 * MS);
        assert_eq!(pool.ready_at(), 0);
        // Those that replace them are waited for no more.
        pool.ended(2, FailureKind::Closed, true, 130 * MS);
        assert_eq!(pool.ready_at(), 0);
        let paced = Pool::new(&addresses, 3, Ramp::new(None, MS));
        assert_eq!(paced.ready_at(), 0);
    }

    #[test]
    fn a_rate_says_when_the_next_is_due() {
        let addresses = addresses(1);
        let mut pool = Pool::new(&addresses, 3, Ramp::new(None, 5 * MS));
        assert_eq!(due(&mut pool, 0), [0]);
        assert_eq!(pool.next_due(), Some(5 * MS));
        assert_eq!(due(&mut pool, 5 * MS), [1]);
    }
}
