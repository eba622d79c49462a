//! The time from one end of the network to the other.

use crate::Nanos;
use crate::chance::{Chance, Part};

/// The delay of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    /// Without jitter.
    constant: Nanos,
    /// A packet takes up to so much more or less, each as likely; at most `constant`.
    jitter: Nanos,
    /// Whether a packet may overtake another.
    reorder: bool,
    /// When the latest packet so far arrives.
    latest: Nanos,
    chance: Chance,
}

impl Delay {
    pub(crate) fn new(
        constant: Nanos,
        jitter: Nanos,
        reorder: bool,
        seed: u64,
        direction: u8,
    ) -> Self {
        Self {
            constant,
            jitter: jitter.min(constant),
            reorder,
            latest: 0,
            chance: Chance::new(seed, direction, Part::Jitter),
        }
    }

    /// What no packet is faster than.
    pub(crate) fn least(&self) -> Nanos {
        self.constant - self.jitter
    }

    /// When a packet arrives that begins at `from`.
    pub(crate) fn arrives(&mut self, from: Nanos) -> Nanos {
        let mut at = from + self.least();
        if self.jitter > 0 {
            at += self.chance.up_to(2 * self.jitter);
        }
        if !self.reorder {
            at = at.max(self.latest);
            self.latest = at;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// How long each of many packets took, in ms; one begins every `gap`.
    fn taken(delay: &mut Delay, gap: Nanos) -> Vec<f64> {
        (0..100_000)
            .map(|number| {
                let from = number * gap;
                (delay.arrives(from) - from) as f64 / MS as f64
            })
            .collect()
    }

    #[test]
    fn without_jitter_every_packet_takes_the_same() {
        let took = taken(&mut Delay::new(20 * MS, 0, false, 7, 0), 1000);
        assert!(took.iter().all(|&ms| ms == 20.0));
    }

    #[test]
    fn jitter_spreads_evenly_around_the_delay() {
        // So far apart that none would overtake another.
        let took = taken(&mut Delay::new(20 * MS, 5 * MS, false, 7, 0), 10 * MS);
        let mean = took.iter().sum::<f64>() / took.len() as f64;
        let variance = took.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / took.len() as f64;
        assert!((mean - 20.0).abs() < 0.05, "{mean}");
        // Of a uniform distribution 10 ms wide.
        assert!(
            (variance.sqrt() - 10.0 / 12f64.sqrt()).abs() < 0.05,
            "{variance}"
        );
        assert!(took.iter().all(|ms| (15.0..=25.0).contains(ms)));
    }

    #[test]
    fn jitter_keeps_the_order_unless_reordering_is_asked_for() {
        for reorder in [false, true] {
            let mut delay = Delay::new(20 * MS, 5 * MS, reorder, 7, 0);
            let arrived: Vec<Nanos> = (0..1000).map(|n| delay.arrives(n * MS / 10)).collect();
            assert_eq!(arrived.is_sorted(), !reorder);
        }
    }
}
