//! Seeded random numbers, apart for each part of a direction.

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What draws.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Loss,
    Jitter,
    Duplication,
    Corruption,
    Profile,
}

/// The random numbers of one part of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Pcg64Mcg);

impl Chance {
    /// `direction` tells the two directions of a network apart.
    pub(crate) fn new(seed: u64, direction: u8, part: Part) -> Self {
        let stream = (u64::from(direction) << 8) | part as u64;
        // The seeds that people type are small: the upper bits are free.
        Self(Pcg64Mcg::seed_from_u64(seed ^ (stream << 48)))
    }

    /// Whether something happens that does with this share, from 0 to 1.
    pub(crate) fn happens(&mut self, share: f64) -> bool {
        // Nothing is drawn for what never happens.
        share > 0.0 && self.0.random::<f64>() < share
    }

    /// A rank among all that is possible, from 0 to 1.
    pub(crate) fn rank(&mut self) -> f64 {
        self.0.random()
    }

    /// A whole number from 0 to `most`, each as likely.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        self.0.random_range(0..=most)
    }

    /// A whole number below `bound`, which is above 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // A bias of one in 2^64 ÷ bound.
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }
}
