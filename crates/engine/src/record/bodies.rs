//! What ok responses brought: how much of it, and of a sample what.

use serde::{Deserialize, Serialize};

use crate::tally::BodySum;

/// Different bodies that are kept apart.
const KINDS: usize = 8;

/// Of so many requests, a power of two, the body of one is summed. A sum costs a tenth of what it costs
/// to receive the body, and so all of them a thousandth.
const SAMPLED: u32 = 128;

/// The bodies of ok responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bodies {
    /// Ok responses that are counted here.
    responses: u64,
    /// Bytes of their bodies.
    bytes: u64,
    /// Those to the first of the plan's requests whose bodies were summed.
    summed: u64,
    /// Bodies among these, and how many were such; of many different ones those that come again.
    kinds: Vec<(BodySum, u64)>,
}

/// Whether the body that answers a request of this number is summed.
///
/// The numbers are spread by the golden ratio (Knuth, The Art of Computer Programming, vol. 3, §6.4), so
/// that requests that take turns are met alike, whatever their number.
#[inline]
pub(crate) fn is_sampled(number: u64) -> bool {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SAMPLED.trailing_zeros()) == 0
}

impl Bodies {
    /// The body of an ok response has so many bytes.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.responses += 1;
        self.bytes += bytes;
    }

    /// An ok response, which has been added, has this body.
    #[cold]
    pub(crate) fn sum(&mut self, body: BodySum) {
        self.summed += 1;
        self.count(body, 1);
    }

    fn count(&mut self, body: BodySum, count: u64) {
        if let Some((_, known)) = self.kinds.iter_mut().find(|(kind, _)| *kind == body) {
            *known += count;
            return;
        }
        if self.kinds.len() == KINDS {
            let rarest = (0..KINDS).min_by_key(|&at| self.kinds[at].1).unwrap_or(0);
            if self.kinds[rarest].1 > count {
                return;
            }
            self.kinds.remove(rarest);
        }
        self.kinds.push((body, count));
    }

    /// Mean length in bytes; none without a response.
    pub(crate) fn mean_bytes(&self) -> Option<f64> {
        (self.responses > 0).then(|| self.bytes as f64 / self.responses as f64)
    }

    /// How many were summed, and of these the most frequent body with its number.
    pub(crate) fn most(&self) -> (u64, Option<(BodySum, u64)>) {
        let most = self.kinds.iter().max_by_key(|(_, count)| *count);
        (self.summed, most.copied())
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.responses += other.responses;
        self.bytes += other.bytes;
        self.summed += other.summed;
        for &(body, count) in &other.kinds {
            self.count(body, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(crc32: u32) -> BodySum {
        BodySum { bytes: 10, crc32 }
    }

    #[test]
    fn the_body_of_most_is_known_whatever_came_before_it() {
        let mut bodies = Bodies::default();
        for crc32 in (0..50).chain([7; 60]).chain(100..110) {
            bodies.add(10);
            bodies.sum(body(crc32));
        }
        let (summed, most) = bodies.most();
        assert_eq!((summed, most), (120, Some((body(7), 60))));
        assert_eq!(bodies.kinds.len(), KINDS, "what is kept is bounded");
        let mut both = bodies.clone();
        both.merge(&bodies);
        assert_eq!(both.most(), (240, Some((body(7), 120))));
        assert_eq!(both.mean_bytes(), Some(10.0));
        assert_eq!(Bodies::default().mean_bytes(), None);
    }

    #[test]
    fn requests_that_take_turns_are_sampled_alike() {
        for urls in [1, 2, 3, 64, 100, 128] {
            let sampled = (0..1_000_000).step_by(urls).filter(|&n| is_sampled(n));
            let share = sampled.count() as f64 * urls as f64 / 1e6;
            let wanted = 1.0 / f64::from(SAMPLED);
            assert!((share / wanted - 1.0).abs() < 0.1, "{urls}: {share}");
        }
    }
}
