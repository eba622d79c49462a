//! What is seen of a direction, held against what was asked of it.

use std::{fmt, iter};

use crate::delay::Delay;
use crate::spec::{Bandwidth, DirectionSpec, LossSpec, Spec};
use crate::{Direction, MTU, Nanos, Way};

/// A value of the standard normal distribution beyond which lie 1 in 100,000: of some ten checks at
/// each use, one in thousands of uses is wrong by chance.
const RARE: f64 = 4.4;
/// By how much a rate may differ, of itself.
const RATE_TOLERANCE: f64 = 0.01;
/// By how much delays may differ, in seconds, and of the delay that was asked.
const DELAY_TOLERANCE_S: f64 = 100e-6;
const DELAY_TOLERANCE: f64 = 0.02;
/// What a trace counts in, in seconds.
const MILLISECOND: f64 = 1e-3;

/// Something that was asked of a network, and what was seen of it.
#[derive(Clone, Debug)]
pub struct Check {
    /// Of which direction.
    pub way: Way,
    /// What is checked.
    pub what: Property,
    /// What was asked, in the unit of the property.
    pub asked: f64,
    /// What was seen.
    pub seen: f64,
    /// By how much they may differ: what the clock and, in a sample of this size, chance explain.
    pub tolerance: f64,
}

/// What is checked of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Median of the delays, in seconds: a few packets that wait for a processor do not move it.
    Delay,
    /// Mean of the delays, in seconds, of packets so close that with jitter they wait for those before them, as
    /// their order is kept: more than the delay that was asked.
    MeanInOrder,
    /// Standard deviation of the delays, in seconds, by their quartiles.
    Spread,
    /// What passes when more is sent, in bits per second.
    Rate,
    /// Share of packets that did not arrive, 0 to 1.
    Loss,
    /// Mean number of packets that were lost one behind the other.
    Burst,
    /// Share of packets that arrived behind one that was sent later, 0 to 1.
    Order,
}

impl Property {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::MeanInOrder => "mean delay in order",
            Self::Spread => "spread of the delay",
            Self::Rate => "rate",
            Self::Loss => "loss",
            Self::Burst => "burst",
            Self::Order => "packets out of order",
        }
    }

    /// A number with its unit.
    fn told(self, value: f64) -> String {
        match self {
            Self::Delay | Self::MeanInOrder | Self::Spread => format!("{:.3} ms", value * 1e3),
            Self::Rate => format!("{:.3} Mbit/s", value / 1e6),
            Self::Loss | Self::Order => format!("{:.2} %", value * 100.0),
            Self::Burst => format!("{value:.2} packets"),
        }
    }
}

impl Check {
    /// Whether what was seen is what was asked.
    pub fn holds(&self) -> bool {
        (self.seen - self.asked).abs() <= self.tolerance
    }
}

impl fmt::Display for Check {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (way, what) = (self.way, self.what);
        let told = |value| what.told(value);
        // Of the jitter and the order that were asked for it follows.
        let by = match what {
            Property::MeanInOrder => "follows from what was asked",
            _ => "was asked",
        };
        write!(
            out,
            "{way}: {} {} where {} ± {} {by}",
            what.name(),
            told(self.seen),
            told(self.asked),
            told(self.tolerance)
        )
    }
}

/// Packets of one train: which arrived, and when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Train {
    /// Of each packet that was sent, in that order: how long it took, in nanoseconds, if it arrived.
    pub(crate) took: Vec<Option<i64>>,
    /// When packets arrived, each once, in that order: nanoseconds, and their number.
    pub(crate) arrived: Vec<(i64, usize)>,
    /// When each packet was sent, nanoseconds.
    pub(crate) sent: Vec<i64>,
}

/// Judges the median and the spread of the delays of packets of `size` bytes that were sent alone.
pub(crate) fn delay(way: Way, spec: &DirectionSpec, train: &Train, size: usize) -> Vec<Check> {
    let mut took: Vec<f64> = train
        .took
        .iter()
        .flatten()
        .map(|nanos| *nanos as f64 / 1e9)
        .collect();
    // A trace makes a packet wait for its next opportunity, for as long as it says.
    if took.len() < 2 || matches!(spec.bandwidth, Bandwidth::Trace { .. }) {
        return Vec::new();
    }
    took.sort_by(f64::total_cmp);
    let [low, median, high] = [0.25, 0.5, 0.75].map(|share| quantile(&took, share));
    let serialised = spec
        .bandwidth
        .rate()
        .map_or(0.0, |rate| size as f64 * 8.0 / rate);
    // Of a uniform distribution the quartiles lie its half width apart. The standard errors are those
    // of order statistics.
    let jitter = spec.jitter.as_secs_f64();
    let chance = jitter / (took.len() as f64).sqrt();
    let check = |what, asked, seen, tolerance| Check {
        way,
        what,
        asked,
        seen,
        tolerance: DELAY_TOLERANCE_S
            + DELAY_TOLERANCE * spec.delay.as_secs_f64()
            + RARE * tolerance,
    };
    vec![
        check(
            Property::Delay,
            spec.delay.as_secs_f64() + serialised,
            median,
            chance,
        ),
        check(
            Property::Spread,
            jitter / 3f64.sqrt(),
            (high - low) / 3f64.sqrt(),
            chance / 3f64.sqrt(),
        ),
    ]
}

/// Trains in virtual time that find what jitter in order makes of a delay.
const VIRTUAL: u64 = 20;

/// Judges the mean of the delays of packets of `size` bytes that had to keep their order: beside what is made of
/// trains that are sent as this one in virtual time. None where order costs nothing.
pub(crate) fn mean_in_order(
    way: Way,
    spec: &DirectionSpec,
    train: &Train,
    size: usize,
) -> Option<Check> {
    if spec.jitter.is_zero() || spec.reorder || matches!(spec.bandwidth, Bandwidth::Trace { .. }) {
        return None;
    }
    let took: Vec<f64> = train
        .took
        .iter()
        .flatten()
        .map(|&nanos| nanos as f64 / 1e9)
        .collect();
    let (&first, &last) = train.sent.first().zip(train.sent.last())?;
    let seconds = (last - first) as f64 / 1e9;
    if took.is_empty() || seconds <= 0.0 {
        return None;
    }
    let (constant, jitter) = (
        spec.delay.as_nanos() as Nanos,
        spec.jitter.as_nanos() as Nanos,
    );
    let mut sum = 0.0;
    for seed in 0..VIRTUAL {
        let mut delay = Delay::new(constant, jitter, false, seed, 0);
        for sent in &train.sent {
            let from = (sent - first).max(0) as Nanos;
            sum += (delay.arrives(from) - from) as f64 / 1e9;
        }
    }
    let bits = size as f64 * 8.0;
    let serialised = spec.bandwidth.rate().map_or(0.0, |rate| bits / rate);
    let jitter = spec.jitter.as_secs_f64();
    Some(Check {
        way,
        what: Property::MeanInOrder,
        asked: sum / (VIRTUAL as usize * train.sent.len()) as f64 + serialised,
        seen: took.iter().sum::<f64>() / took.len() as f64,
        // Packets within the width of the jitter are delayed alike: as many are independent as there are such widths.
        tolerance: DELAY_TOLERANCE_S
            + DELAY_TOLERANCE * spec.delay.as_secs_f64()
            + RARE * jitter / (seconds / (2.0 * jitter)).max(1.0).sqrt(),
    })
}

/// The value below which lies this share of sorted ones, of which there is one at least.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    below + (above - below) * place.fract()
}

/// Judges what passed of more packets of `MTU` bytes than fit.
pub(crate) fn rate(way: Way, spec: &DirectionSpec, train: &Train) -> Option<Check> {
    let Bandwidth::Rate(asked) = spec.bandwidth else {
        return None;
    };
    let arrivals: Vec<i64> = train.arrived.iter().map(|(at, _)| *at).collect();
    let (seen, seconds) = passed(&arrivals)?;
    let asked = asked as f64;
    // The first and the last packet have jitter of their own.
    let jitter = 2.0 * spec.jitter.as_secs_f64() / seconds;
    Some(Check {
        way,
        what: Property::Rate,
        asked,
        seen,
        tolerance: asked * (RATE_TOLERANCE + jitter),
    })
}

/// Judges what passed of a train that was sent over a network with a trace, which began at `begun`:
/// beside what passes of the same packets in virtual time.
pub(crate) fn trace(spec: &Spec, way: Way, train: &Train, begun: i64) -> Option<Check> {
    if !matches!(spec.of(way).bandwidth, Bandwidth::Trace { .. }) {
        return None;
    }
    let mut direction = Direction::new(spec, way);
    let mut expected = Vec::new();
    for sent in &train.sent {
        let now = (sent - begun).max(0) as Nanos;
        expected.extend(iter::from_fn(|| direction.poll(now)).map(|(at, _)| at as i64));
        direction.receive(now, vec![0_u8; MTU]);
    }
    while let Some(due) = direction.due() {
        expected.extend(iter::from_fn(|| direction.poll(due)).map(|(at, _)| at as i64));
    }
    let seen: Vec<i64> = train.arrived.iter().map(|(at, _)| *at).collect();
    let (asked, seconds) = passed(&expected)?;
    let (seen, _) = passed(&seen)?;
    let packets = expected.len() as f64;
    Some(Check {
        way,
        what: Property::Rate,
        asked,
        seen,
        // At each end a packet may have met its opportunity or just missed it.
        tolerance: asked * (RATE_TOLERANCE + 2.0 / packets + 2.0 * MILLISECOND / seconds),
    })
}

/// Bits per second between the first and the last arrival, and the seconds between them.
fn passed(arrivals: &[i64]) -> Option<(f64, f64)> {
    let [first, .., last] = arrivals else {
        return None;
    };
    let seconds = (last - first) as f64 / 1e9;
    let bits = ((arrivals.len() - 1) * MTU * 8) as f64;
    (seconds > 0.0).then_some((bits / seconds, seconds))
}

/// Judges which packets of a train that the link had room for were lost, and their order.
pub(crate) fn loss(way: Way, spec: &DirectionSpec, train: &Train) -> Vec<Check> {
    let sent = train.took.len() as f64;
    let mut checks = Vec::new();
    // Where a trace pauses, the queue may overflow, which is no loss of this kind.
    let paused = matches!(spec.bandwidth, Bandwidth::Trace { .. });
    if let (LossSpec::Random { share, burst }, false) = (&spec.loss, paused) {
        let (share, burst) = (*share, *burst);
        let lost = train.took.iter().filter(|took| took.is_none()).count() as f64;
        // A datagram with a bit flipped is dropped by the kernel that receives it.
        let asked = 1.0 - (1.0 - share) * (1.0 - spec.corrupt * (1.0 - spec.duplicate));
        // Where one loss makes the next more likely, fewer of them are independent.
        let like = burst.map_or(0.0, |burst| {
            1.0 - 1.0 / burst / (1.0 - share).max(f64::EPSILON)
        });
        let inflated = ((1.0 + like) / (1.0 - like)).max(1.0);
        let error = (asked * (1.0 - asked) * inflated / sent).sqrt();
        checks.push(Check {
            way,
            what: Property::Loss,
            asked,
            seen: lost / sent,
            // Where none is asked, none is lost.
            tolerance: if asked == 0.0 {
                0.0
            } else {
                RARE * error + 1.0 / sent
            },
        });
        let lengths = bursts(train);
        if let Some(burst) = burst.filter(|_| lengths.len() >= 10 && spec.corrupt == 0.0) {
            let number = lengths.len() as f64;
            checks.push(Check {
                way,
                what: Property::Burst,
                asked: burst,
                seen: lengths.iter().sum::<usize>() as f64 / number,
                // Of a geometric distribution.
                tolerance: RARE * (burst * (burst - 1.0) / number).sqrt() + 1e-9,
            });
        }
    }
    if !spec.reorder {
        let mut latest = 0;
        let overtaken = train.arrived.iter().filter(|(_, number)| {
            latest = latest.max(*number);
            *number < latest
        });
        checks.push(Check {
            way,
            what: Property::Order,
            asked: 0.0,
            seen: overtaken.count() as f64 / sent,
            tolerance: 0.0,
        });
    }
    checks
}

/// Lengths of the runs of packets that were lost, but for those at the ends.
fn bursts(train: &Train) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut current = None;
    for took in &train.took {
        match (took, &mut current) {
            (Some(_), length) => lengths.extend(length.replace(0).filter(|length| *length > 0)),
            (None, Some(length)) => *length += 1,
            (None, None) => {}
        }
    }
    lengths
}

#[cfg(test)]
mod tests;
