//! How long something that failed is left alone.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// After the first failure; what gRPC's document "Connection Backoff Protocol" recommends, as are the
/// others.
const FIRST: Duration = Duration::from_secs(1);
const FACTOR: f64 = 1.6;
const LONGEST: Duration = Duration::from_secs(120);
/// Up to this share is added or taken away, so that not all come back together.
const JITTER: f64 = 0.2;

/// The rest after so many failures one after the other.
pub fn after(failures: u32) -> Duration {
    spread(failures, chance())
}

/// `chance` is from 0 to 1.
fn spread(failures: u32, chance: f64) -> Duration {
    let times = failures.saturating_sub(1).min(64);
    let grown = FIRST.as_secs_f64() * FACTOR.powi(times as i32);
    let rest = grown.min(LONGEST.as_secs_f64());
    Duration::from_secs_f64(rest * (1.0 - JITTER + 2.0 * JITTER * chance))
}

/// From 0 to 1, another each time: nothing depends on its being hard to guess.
fn chance() -> f64 {
    // The keys of the standard library's hash are random.
    (RandomState::new().hash_one(()) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_to_two_minutes() {
        let rest = |failures| spread(failures, 0.5).as_secs_f64();
        assert!((rest(1) - 1.0).abs() < 1e-9);
        assert!((rest(3) - 2.56).abs() < 1e-9);
        for failures in [12, 1000, u32::MAX] {
            assert!((rest(failures) - 120.0).abs() < 1e-9, "{failures}");
        }
        assert!((spread(1, 0.0).as_secs_f64() - 0.8).abs() < 1e-9);
        assert!((spread(1, 1.0).as_secs_f64() - 1.2).abs() < 1e-9);
    }

    #[test]
    fn chances_differ() {
        let all: std::collections::HashSet<_> = (0..20).map(|_| after(1)).collect();
        assert!(all.len() > 1);
    }
}
