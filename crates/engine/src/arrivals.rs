//! When requests of the open model are due: the rate over time, and how requests fall on it.
//!
//! Arrivals are counted in an operational time, in which one is expected per unit: the integral of the
//! rate (Çınlar, *Introduction to Stochastic Processes*, 1975, §4.7). There they stand a unit apart, or
//! exponentially distributed ones, and the integral's inverse says when each is due.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

use crate::options::{Arrivals, RateStage};
use crate::origin::Part;
use crate::plan::{Model, Plan};

/// A part of the run in which the rate changes from one value to another, in requests per nanosecond.
#[derive(Clone, Copy, Debug)]
struct Ramp {
    length: f64,
    from: f64,
    to: f64,
}

impl Ramp {
    /// Arrivals that are expected in all of it.
    fn expected(&self) -> f64 {
        self.length * (self.from + self.to) / 2.0
    }

    /// Of stages, each of which leads from the rate before it to its own; the first from none.
    fn of_stages(stages: &[RateStage]) -> impl Iterator<Item = Self> {
        let mut from = 0.0;
        stages.iter().map(move |stage| {
            let (before, to) = (from, stage.rate / 1e9);
            from = to;
            Self {
                length: stage.length.as_nanos() as f64,
                from: before,
                to,
            }
        })
    }

    /// Arrivals that are expected until so many nanoseconds after its begin.
    fn expected_by(&self, within: f64) -> f64 {
        let slope = (self.to - self.from) / self.length;
        within * (self.from + slope * within / 2.0)
    }

    /// How long after its begin so many arrivals are expected, in nanoseconds.
    fn inverse(&self, count: f64) -> f64 {
        // The root of `from x + slope x² / 2 = count`, in the form that loses no digits where the
        // slope is small.
        if count <= 0.0 {
            return 0.0;
        }
        let slope = (self.to - self.from) / self.length;
        let root = (self.from * self.from + 2.0 * slope * count)
            .max(0.0)
            .sqrt();
        2.0 * count / (self.from + root)
    }
}

/// The arrivals of one worker, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Arriving {
    ramps: Vec<Ramp>,
    /// The ramp in which the next arrival lies.
    at: usize,
    /// Nanoseconds, and arrivals expected, before that ramp.
    before: (f64, f64),
    /// The next arrival, in operational time.
    next: f64,
    /// What lies between two arrivals that are a unit apart.
    step: f64,
    random: Option<Pcg64Mcg>,
    /// When the next arrival is due, in nanoseconds since the first ramp began.
    due: Option<u64>,
}

impl Arriving {
    /// The share of worker `index` of `workers` in a rate of so many requests a second, for ever.
    pub(crate) fn constant(rate: f64, kind: Arrivals, index: usize, workers: usize) -> Self {
        let rate = rate / 1e9;
        // As long as the numbers go; the rate does not change in it.
        let ramp = Ramp {
            length: f64::MAX,
            from: rate,
            to: rate,
        };
        Self::new(vec![ramp], kind, index, workers)
    }

    /// The share of worker `index` of `workers` in stages.
    pub(crate) fn stages(
        stages: &[RateStage],
        kind: Arrivals,
        index: usize,
        workers: usize,
    ) -> Self {
        Self::new(Ramp::of_stages(stages).collect(), kind, index, workers)
    }

    fn new(ramps: Vec<Ramp>, kind: Arrivals, index: usize, workers: usize) -> Self {
        let (next, step, random) = match kind {
            // The workers take turns.
            Arrivals::Constant => (index as f64, workers as f64, None),
            // Poisson processes of a part of the rate each make one of all of it. The first arrival is
            // random, too.
            Arrivals::Poisson => (
                0.0,
                workers as f64,
                Some(Pcg64Mcg::new(SEED + index as u128)),
            ),
        };
        let mut arriving = Self {
            ramps,
            at: 0,
            before: (0.0, 0.0),
            next,
            step,
            random,
            due: None,
        };
        if arriving.random.is_some() {
            arriving.advance();
        } else {
            arriving.settle();
        }
        arriving
    }

    /// When the next request is due, in nanoseconds since the begin; `None` behind the last stage.
    #[inline]
    pub(crate) fn due(&self) -> Option<u64> {
        self.due
    }

    /// Goes on to the next arrival.
    pub(crate) fn advance(&mut self) {
        let units = self.random.as_mut().map_or(1.0, |random| {
            // In (0, 1]: its logarithm is finite.
            let uniform = 1.0 - random.random::<f64>();
            -uniform.ln()
        });
        self.next += units * self.step;
        self.settle();
    }

    /// Finds when the next arrival is due.
    fn settle(&mut self) {
        while let Some(ramp) = self.ramps.get(self.at) {
            let (begin, counted) = self.before;
            let count = self.next - counted;
            let expected = ramp.expected();
            // What is due as the last stage ends would be sent behind it.
            if count < expected {
                // Not cut off: what is due at the end of a run would be due before it.
                self.due = Some((begin + ramp.inverse(count)).round() as u64);
                return;
            }
            self.before = (begin + ramp.length, counted + expected);
            self.at += 1;
        }
        self.due = None;
    }

    /// How many are due by `until`, from the next one on, as far as the rate says: of arrivals at random
    /// so many are expected. Takes no longer for many than for few.
    pub(crate) fn expected_by(&self, until: u64) -> u64 {
        if self.due.is_none_or(|due| due > until) {
            return 0;
        }
        let (mut begin, mut counted) = self.before;
        for ramp in &self.ramps[self.at..] {
            let within = until as f64 - begin;
            if within < ramp.length {
                counted += ramp.expected_by(within);
                break;
            }
            begin += ramp.length;
            counted += ramp.expected();
        }
        let behind_the_next = ((counted - self.next) / self.step).max(0.0);
        1 + behind_the_next as u64
    }

    /// Passes over all that are due by `until`, and says how many they were. The first of them are counted one by
    /// one; of many the rate says how many, so that no rate takes longer than another.
    pub(crate) fn skip(&mut self, until: u64) -> u64 {
        let mut count = self.pass(until, COUNTED);
        if count == COUNTED {
            // What rounding makes of the last of them is seen when they are looked at.
            let many = self.expected_by(until).saturating_sub(2);
            self.next += many as f64 * self.step;
            self.settle();
            count += many + self.pass(until, u64::MAX);
        }
        count
    }

    /// Passes over those that are due by `until`, one by one, `at_most` of them.
    fn pass(&mut self, until: u64, at_most: u64) -> u64 {
        let mut count = 0;
        while count < at_most && self.due.is_some_and(|due| due <= until) {
            count += 1;
            self.advance();
        }
        count
    }

    /// How many are due by `until`, from the next one on.
    pub(crate) fn due_by(&self, until: u64) -> u64 {
        self.clone().skip(until)
    }
}

/// Arrivals that are counted one by one before the rate is asked how many there are.
const COUNTED: u64 = 10_000;

impl Plan {
    /// The arrivals of worker `index` in the open model, where any of its connections may carry them.
    pub(crate) fn arriving(&self, index: usize) -> Option<Arriving> {
        let (kind, workers) = (self.arrivals, self.threads);
        match self.model {
            Model::Closed => None,
            Model::Open(_) if self.rate_per_connection.is_some() => None,
            Model::Open(rate) if self.stages.is_empty() => {
                Some(Arriving::constant(rate, kind, index, workers))
            }
            Model::Open(_) => Some(Arriving::stages(&self.stages, kind, index, workers)),
        }
    }

    /// Open model: how many arrivals are expected between two instants, in seconds since the measured part
    /// began. Stages have no warm-up.
    pub(crate) fn expected_between(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let Model::Open(rate) = self.model else {
            return None;
        };
        if self.stages.is_empty() {
            return Some(rate * (to_s - from_s));
        }
        let by = |seconds: f64| {
            let mut left = seconds * 1e9;
            let each = Ramp::of_stages(&self.stages).map(|ramp| {
                let within = left.min(ramp.length);
                left -= within;
                ramp.expected_by(within)
            });
            each.sum::<f64>()
        };
        Some(by(to_s) - by(from_s))
    }

    /// The arrivals of each connection of worker `index`, by place; empty where connections have none of
    /// their own.
    pub(crate) fn arriving_on_each(&self, index: usize) -> Vec<Arriving> {
        let Some(rate) = self.rate_per_connection else {
            return Vec::new();
        };
        // They take turns as workers do, so that they do not all send at the same instant.
        let connections = self.connections;
        let total = rate * connections as f64;
        (index..connections)
            .step_by(self.threads)
            .map(|number| Arriving::constant(total, self.arrivals, number, connections))
            .collect()
    }

    /// The arrivals of worker `index` at each of several origins in the open model, by origin: a part of the
    /// rate each, so that what one does not take holds up no other.
    pub(crate) fn arriving_at_each(&self, index: usize) -> Vec<Arriving> {
        let (Model::Open(rate), workers) = (self.model, self.threads) else {
            return Vec::new();
        };
        let parts = self.parts().into_iter().enumerate();
        parts
            .map(|(origin, Part { share, phase })| {
                let (index, phase) = match self.arrivals {
                    Arrivals::Constant => (index, phase),
                    // Their own beginnings are random, and so are they themselves each by itself.
                    Arrivals::Poisson => (index + origin * workers, 0.0),
                };
                let stages = self.stages.iter().map(|stage| RateStage {
                    rate: stage.rate * share,
                    ..*stage
                });
                let stages: Vec<_> = stages.collect();
                let mut arriving = if stages.is_empty() {
                    Arriving::constant(rate * share, self.arrivals, index, workers)
                } else {
                    Arriving::stages(&stages, self.arrivals, index, workers)
                };
                arriving.next += phase;
                arriving.settle();
                arriving
            })
            .collect()
    }
}

/// Arrivals are the same in each run of a plan, so that runs differ in what they measure alone.
const SEED: u128 = 0x0074_7269_6c61_6e65;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::Options;

    fn times(arriving: Arriving) -> Vec<f64> {
        let mut arriving = arriving;
        std::iter::from_fn(|| {
            let due = arriving.due()?;
            arriving.advance();
            Some(due as f64 / 1e9)
        })
        .take(1_000_000)
        .collect()
    }

    fn stage(seconds: u64, rate: f64) -> RateStage {
        RateStage {
            length: Duration::from_secs(seconds),
            rate,
        }
    }

    #[test]
    fn a_constant_rate_is_a_ruler_that_workers_share() {
        let of = |index| Arriving::constant(1000.0, Arrivals::Constant, index, 2);
        let (first, second) = (times(of(0)), times(of(1)));
        for (place, (one, other)) in first.iter().zip(&second).enumerate().take(1000) {
            assert!((one - place as f64 * 0.002).abs() < 1e-8, "{one}");
            assert!((other - one - 0.001).abs() < 1e-8);
        }
        // A million later it stands where it should, to the microsecond.
        assert!((first[999_999] - 1999.998).abs() < 1e-6);
        assert_eq!(of(0).due_by(10_000_000), 6);
    }

    #[test]
    fn stages_lead_from_one_rate_to_the_next() {
        let stages = [stage(10, 1000.0), stage(20, 1000.0), stage(10, 0.0)];
        let due = times(Arriving::stages(&stages, Arrivals::Constant, 0, 1));
        // The area: 5,000, then 20,000, then 5,000.
        assert_eq!(due.len(), 30_000);
        assert!(due.is_sorted());
        let by = |until: f64| due.iter().filter(|&&at| at < until).count() as f64;
        for (until, area) in [
            (5.0, 1250.0),
            (10.0, 5000.0),
            (20.0, 15_000.0),
            (30.0, 25_000.0),
            (35.0, 28_750.0),
            (40.0, 30_000.0),
        ] {
            assert!((by(until) - area).abs() <= 1.0, "{until}: {}", by(until));
        }
    }

    #[test]
    fn what_is_asked_for_in_a_second_follows_the_stages() {
        let plan = |options: Options| {
            let urls = vec!["http://a/".into()];
            Plan::new(&Options { urls, ..options }).unwrap()
        };
        let staged = plan(Options {
            stages: vec![stage(10, 1000.0), stage(20, 1000.0), stage(10, 0.0)],
            ..Options::default()
        });
        let asked = |from, to| staged.expected_between(from, to).unwrap().round();
        assert_eq!((asked(0.0, 1.0), asked(4.0, 5.0)), (50.0, 450.0));
        assert_eq!((asked(10.0, 11.0), asked(39.0, 40.0)), (1000.0, 50.0));
        assert_eq!((asked(0.0, 40.0), asked(40.0, 41.0)), (30_000.0, 0.0));
        let constant = plan(Options {
            rate: Some(20.0),
            ..Options::default()
        });
        assert_eq!(constant.expected_between(3.0, 3.5), Some(10.0));
        assert_eq!(plan(Options::default()).expected_between(0.0, 1.0), None);
    }

    #[test]
    fn what_the_rate_expects_is_what_is_due() {
        let stages = [stage(10, 1000.0), stage(20, 1000.0), stage(10, 0.0)];
        let mut arriving = Arriving::stages(&stages, Arrivals::Constant, 1, 3);
        for taken in [0, 1, 2_000, 7_000] {
            for _ in 0..taken {
                arriving.advance();
            }
            for second in 0..50 {
                let until = second * 1_000_000_000 + 1_234_567;
                let (due, expected) = (arriving.due_by(until), arriving.expected_by(until));
                assert!(
                    due.abs_diff(expected) <= 1,
                    "{due} and {expected} by {second} s"
                );
                assert_eq!(due == 0, expected == 0);
            }
        }
        // Of 100,000 at random the deviation is 316.
        let random = Arriving::constant(1000.0, Arrivals::Poisson, 0, 1);
        let (until, expected) = (100_000_000_000, 100_000);
        assert!(random.expected_by(until).abs_diff(expected) <= 2);
        assert!(random.due_by(until).abs_diff(expected) < 1500);
    }

    #[test]
    fn many_that_are_due_are_counted_as_few_are() {
        for kind in [Arrivals::Constant, Arrivals::Poisson] {
            // A slip of the keyboard: `-R 500m` over ten seconds.
            let slip = Arriving::constant(500e6, kind, 0, 2);
            let due = slip.due_by(10_000_000_000);
            assert!(due.abs_diff(2_500_000_000) < 1000, "{kind:?}: {due}");
        }
        let stages = [stage(10, 1000.0), stage(20, 1000.0), stage(10, 0.0)];
        for until in [1, 12_000_000_000, 12_345_678_901, 50_000_000_000] {
            let mut skipping = Arriving::stages(&stages, Arrivals::Constant, 0, 1);
            let mut passing = skipping.clone();
            let one_by_one = passing.pass(until, u64::MAX);
            assert_eq!(skipping.skip(until), one_by_one);
            assert_eq!(skipping.due(), passing.due());
        }
    }

    #[test]
    fn a_stage_without_requests_is_a_pause() {
        let stages = [
            stage(1, 100.0),
            stage(1, 0.0),
            stage(5, 0.0),
            stage(1, 100.0),
        ];
        let due = times(Arriving::stages(&stages, Arrivals::Constant, 0, 1));
        assert_eq!(due.len(), 150);
        assert!(!due.iter().any(|at| (2.0..7.0).contains(at)));
    }

    #[test]
    fn poisson_arrivals_have_the_spread_that_they_should() {
        let due = times(Arriving::constant(1000.0, Arrivals::Poisson, 0, 1));
        let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Of an exponential distribution deviation and mean are one; of a million samples each is
        // known to a thousandth or so.
        assert!((mean / 1e-3 - 1.0).abs() < 0.005, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.01);
        // e^-1 of the gaps are longer than the mean.
        let longer = gaps.iter().filter(|&&gap| gap > mean).count() as f64 / gaps.len() as f64;
        assert!((longer - (-1.0_f64).exp()).abs() < 0.003, "{longer}");
        let other = times(Arriving::constant(1000.0, Arrivals::Poisson, 1, 1));
        assert_ne!(due[..100], other[..100]);
    }

    #[test]
    fn poisson_arrivals_follow_stages() {
        let stages = [stage(100, 1000.0), stage(100, 0.0)];
        let due = times(Arriving::stages(&stages, Arrivals::Poisson, 0, 2));
        // Half of 100,000, with a deviation of 224.
        assert!(
            (due.len() as f64 - 50_000.0).abs() < 1000.0,
            "{}",
            due.len()
        );
        let middle = due
            .iter()
            .filter(|&&at| (50.0..150.0).contains(&at))
            .count() as f64;
        assert!((middle / due.len() as f64 - 0.75).abs() < 0.01);
    }
}
