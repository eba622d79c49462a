//! What serialises packets, one after the other.

use crate::Nanos;
use crate::trace::Opportunities;

/// A link with a bandwidth.
#[derive(Clone, Debug)]
pub(crate) enum Link {
    /// Bits per second.
    Rate(Steady),
    /// As a trace says.
    Trace(Opportunities),
}

impl Link {
    /// When a packet has left that is the first to wait from `from` on.
    pub(crate) fn pass(&mut self, from: Nanos, size: u64) -> Nanos {
        match self {
            Self::Rate(steady) => steady.pass(from, size),
            Self::Trace(opportunities) => opportunities.pass(from, size),
        }
    }
}

/// A link of constant rate.
#[derive(Clone, Debug)]
pub(crate) struct Steady {
    /// Bits per second.
    rate: u64,
    /// When the last packet had left, and the part of a nanosecond behind it, in 1 ÷ `rate`: without
    /// it a link of 1 Gbit/s would be too fast by up to one part in ten thousand.
    left: Nanos,
    part: u64,
}

impl Steady {
    /// `rate` is above 0.
    pub(crate) fn new(rate: u64) -> Self {
        Self {
            rate,
            left: 0,
            part: 0,
        }
    }

    fn pass(&mut self, from: Nanos, size: u64) -> Nanos {
        let part = if from == self.left { self.part } else { 0 };
        let work = u128::from(size) * 8_000_000_000 + u128::from(part);
        let rate = u128::from(self.rate);
        self.left = from + (work / rate) as Nanos;
        self.part = (work % rate) as u64;
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_back_to_back_have_the_rate_to_the_nanosecond() {
        for rate in [9_600, 1_000_000, 720_000_000, 1_000_000_000, 7_777_777_777] {
            let mut link = Steady::new(rate);
            let mut at = 0;
            for _ in 0..100_000 {
                at = link.pass(at, 1500);
            }
            let exact = 100_000.0 * 1500.0 * 8.0 * 1e9 / rate as f64;
            assert!(
                (at as f64 - exact).abs() <= 1.0,
                "{rate}: {at}, not {exact}"
            );
        }
    }

    #[test]
    fn a_packet_after_a_pause_takes_its_own_time_alone() {
        let mut link = Steady::new(3_000_000_000);
        assert_eq!(link.pass(0, 100), 266);
        assert_eq!(link.pass(1_000, 100), 1_266);
        assert_eq!(link.pass(1_266, 100), 1_533);
    }
}
