//! The places of a worker for connections to each origin. Those of several origins alternate, so that all of
//! them are made together.

use std::collections::BTreeMap;

use crate::connections::Connections;
use crate::failure::FailureKind;
use crate::pool::Pool;
use crate::ramp::Ramp;
use crate::route::Address;

/// The pools of one worker, by origin; places are numbered over all of them.
#[derive(Debug)]
pub(crate) struct Pools<'p> {
    each: Vec<Pool<'p>>,
    /// Origins of which no connection can be expected before another attempt.
    given_up: Vec<bool>,
}

impl<'p> Pools<'p> {
    /// So many places for each origin of which `addresses` are; their handshakes are bounded by what `ramp`
    /// makes for each, and spread over the addresses where worker and number of workers are given.
    pub(crate) fn new(
        addresses: &'p [Vec<Address>],
        places: usize,
        ramp: impl Fn() -> Ramp,
        spread: Option<(usize, usize)>,
    ) -> Self {
        let pool = |addresses: &'p Vec<Address>| {
            let pool = Pool::new(addresses, places, ramp());
            match spread {
                Some((index, workers)) => pool.spread(index, workers),
                None => pool,
            }
        };
        Self {
            each: addresses.iter().map(pool).collect(),
            given_up: vec![false; addresses.len()],
        }
    }

    /// The origin of a place, and which of its places it is.
    fn of(&self, index: u32) -> (usize, u32) {
        let origins = self.each.len() as u32;
        ((index % origins) as usize, index / origins)
    }

    /// See [`Pool::connect`].
    pub(crate) fn connect(&mut self, now: u64) -> Option<(u32, &'p Address)> {
        let origins = self.each.len() as u32;
        let mut each = (0..).zip(&mut self.each);
        each.find_map(|(origin, pool)| {
            let (place, address) = pool.connect(now)?;
            Some((place * origins + origin, address))
        })
    }

    /// See [`Pool::next_due`].
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.each.iter().filter_map(Pool::next_due).min()
    }

    /// See [`Pool::opened`].
    pub(crate) fn opened(&mut self, index: u32, now: u64) {
        let (origin, place) = self.of(index);
        self.each[origin].opened(place, now);
    }

    /// Until when requests wait: see [`Pool::ready_at`]. Beside another origin one of which an attempt has
    /// failed, and none has come up, is not waited for.
    pub(crate) fn ready_at(&self) -> u64 {
        let ready = self.each.iter().map(|pool| {
            let is_failing = self.open() > 0 && pool.open() == 0 && pool.has_failed();
            if is_failing { 0 } else { pool.ready_at() }
        });
        ready.max().unwrap_or(0)
    }

    /// See [`Pool::ended`].
    pub(crate) fn ended(&mut self, index: u32, kind: FailureKind, served: bool, now: u64) {
        let (origin, place) = self.of(index);
        self.each[origin].ended(place, kind, served, now);
    }

    /// See [`Pool::spent`].
    pub(crate) fn spent(&mut self, index: u32) {
        let (origin, place) = self.of(index);
        self.each[origin].spent(place);
    }

    /// See [`Pool::tries_another_address`].
    pub(crate) fn tries_another_address(&mut self, index: u32) -> bool {
        let (origin, place) = self.of(index);
        self.each[origin].tries_another_address(place)
    }

    /// While no connection of the run has been ready, an attempt has failed, for good where that is
    /// `definite`: whether nothing can be hoped for of any origin.
    pub(crate) fn is_hopeless(&mut self, index: u32, definite: bool) -> bool {
        let (origin, _) = self.of(index);
        self.given_up[origin] |= definite || self.each[origin].is_hopeless();
        self.given_up.iter().all(|&given_up| given_up)
    }

    /// Connections on which requests may be sent.
    pub(crate) fn open(&self) -> usize {
        self.each.iter().map(Pool::open).sum()
    }

    /// See [`Pool::address`].
    pub(crate) fn address(&self, index: u32) -> &Address {
        let (origin, place) = self.of(index);
        self.each[origin].address(place)
    }

    /// See [`Pool::peers`].
    pub(crate) fn peers(&self) -> BTreeMap<String, u64> {
        let mut peers = BTreeMap::new();
        for (peer, count) in self.each.iter().flat_map(Pool::peers) {
            *peers.entry(peer).or_default() += count;
        }
        peers
    }

    /// See [`Connections::begin_measuring`].
    pub(crate) fn begin_measuring(&mut self) {
        for pool in &mut self.each {
            pool.counts.begin_measuring();
        }
    }

    /// See [`Connections::exhaust`].
    pub(crate) fn exhaust(&mut self, index: u32) {
        let (origin, _) = self.of(index);
        self.each[origin].counts.exhaust();
    }

    /// The account of connections to each origin.
    pub(crate) fn counts(&self) -> impl Iterator<Item = &Connections> {
        self.each.iter().map(|pool| &pool.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn addresses(origins: u16) -> Vec<Vec<Address>> {
        let address = |port| vec![Address::Ip(([192, 0, 2, 1], port).into())];
        (1..=origins).map(address).collect()
    }

    fn pools(addresses: &[Vec<Address>], places: usize) -> Pools<'_> {
        Pools::new(addresses, places, || Ramp::new(None, 0), None)
    }

    fn connect(pools: &mut Pools<'_>) -> Vec<(u32, Address)> {
        std::iter::from_fn(|| pools.connect(0))
            .map(|(index, address)| (index, address.clone()))
            .collect()
    }

    #[test]
    fn places_alternate_and_each_origin_has_as_many() {
        let addresses = addresses(3);
        let mut pools = pools(&addresses, 2);
        let mut connecting = connect(&mut pools);
        connecting.sort_by_key(|(index, _)| *index);
        let expected: Vec<_> = (0..6)
            .map(|index| (index, addresses[index as usize % 3][0].clone()))
            .collect();
        assert_eq!(connecting, expected);
        for (index, address) in &connecting {
            assert_eq!(pools.address(*index), address);
            pools.opened(*index, MS);
        }
        assert_eq!((pools.open(), pools.peers().len()), (6, 3));
        pools.ended(4, FailureKind::Closed, true, 2 * MS);
        assert_eq!(connect(&mut pools), [(4, addresses[1][0].clone())]);
        let established: Vec<_> = pools.counts().map(Connections::established).collect();
        assert_eq!(established, [2, 2, 2]);
    }

    #[test]
    fn an_origin_that_fails_is_not_waited_for_beside_one_that_does_not() {
        let addresses = addresses(2);
        let mut pools = pools(&addresses, 1);
        connect(&mut pools);
        assert_eq!(pools.ready_at(), u64::MAX);
        pools.opened(0, MS);
        assert_eq!(pools.ready_at(), u64::MAX, "nothing is known of the other");
        pools.ended(1, FailureKind::HandshakeTimeout, false, 5 * MS);
        assert_eq!(pools.ready_at(), 0);
    }

    #[test]
    fn there_is_hope_as_long_as_one_origin_has_not_failed() {
        let addresses = addresses(2);
        let mut pools = pools(&addresses, 4);
        connect(&mut pools);
        pools.ended(1, FailureKind::Refused, false, MS);
        assert!(!pools.is_hopeless(1, true));
        pools.ended(0, FailureKind::HandshakeTimeout, false, MS);
        assert!(!pools.is_hopeless(0, false));
        for index in [2, 4, 6] {
            pools.ended(index, FailureKind::HandshakeTimeout, false, MS);
        }
        assert!(pools.is_hopeless(6, false));
    }
}
