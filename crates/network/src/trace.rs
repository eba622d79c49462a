//! When a link carried what, as Mahimahi writes it down.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{MTU, Nanos};

const MS: Nanos = 1_000_000;
/// Lines that are read at most: twenty minutes at 1 Gbit/s.
const LONGEST: usize = 100_000_000;

/// The opportunities of a link: at each the bytes of one full packet ([`MTU`]) may pass.
///
/// The format is that of [Mahimahi]: one line for each opportunity, with its milliseconds since the
/// beginning, in order; the same number again is another opportunity at that instant. After the
/// last the trace begins again. What of an opportunity no packet uses is lost.
///
/// [Mahimahi]: https://www.usenix.org/conference/atc15/technical-session/presentation/netravali
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Nanoseconds.
    stamps: Arc<[Nanos]>,
}

impl Trace {
    /// Bits per second in the mean.
    pub fn rate(&self) -> f64 {
        let bits = (self.stamps.len() * MTU * 8) as f64;
        bits * 1e9 / self.period() as f64
    }

    fn period(&self) -> Nanos {
        self.stamps[self.stamps.len() - 1]
    }

    /// Of the opportunity of that number, from 0.
    fn instant(&self, number: u64) -> Nanos {
        let count = self.stamps.len() as u64;
        number / count * self.period() + self.stamps[(number % count) as usize]
    }

    /// Number of the first opportunity at an instant or after it.
    fn first_from(&self, instant: Nanos) -> u64 {
        // The last opportunity of a turn lies where the next turn begins.
        let turn = instant.saturating_sub(1) / self.period();
        let within = instant - turn * self.period();
        let place = self.stamps.partition_point(|&stamp| stamp < within);
        turn * self.stamps.len() as u64 + place as u64
    }
}

impl FromStr for Trace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut stamps: Vec<Nanos> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |what: &str| Err(format!("line {}: {line:?} {what}", index + 1));
            let Ok(ms) = line.trim().parse::<u32>() else {
                return wrong("is not a number of milliseconds");
            };
            let stamp = Nanos::from(ms) * MS;
            if stamps.last().is_some_and(|&before| stamp < before) {
                return wrong("is earlier than the line before");
            }
            if stamps.len() == LONGEST {
                return wrong("is one too many");
            }
            stamps.push(stamp);
        }
        match stamps.last() {
            None => Err("it has no line".into()),
            Some(0) => Err("it ends at 0 ms, where it begins".into()),
            Some(_) => Ok(Self {
                stamps: stamps.into(),
            }),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stamps
            .iter()
            .try_for_each(|stamp| writeln!(out, "{}", stamp / MS))
    }
}

/// A trace under way.
#[derive(Clone, Debug)]
pub(crate) struct Opportunities {
    trace: Trace,
    /// Number of the opportunity that comes next.
    next: u64,
    /// The last that was used, and what is left of it.
    used: Option<(Nanos, u64)>,
}

impl Opportunities {
    pub(crate) fn new(trace: Trace) -> Self {
        Self {
            trace,
            next: 0,
            used: None,
        }
    }

    /// When a packet has passed that is the first to wait from `from` on.
    pub(crate) fn pass(&mut self, from: Nanos, size: u64) -> Nanos {
        let (mut at, mut left) = match self.used {
            // The packet before it left some.
            Some((at, left)) if at == from => (at, left),
            _ => {
                self.next = self.next.max(self.trace.first_from(from));
                (from, 0)
            }
        };
        let mut missing = size;
        while missing > left {
            missing -= left;
            at = self.trace.instant(self.next);
            self.next += 1;
            left = MTU as u64;
        }
        self.used = Some((at, left - missing));
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds at which packets of these sizes pass, all of which wait from `from` (ms) on.
    fn passed(trace: &str, from: Nanos, sizes: &[u64]) -> Vec<Nanos> {
        let mut opportunities = Opportunities::new(trace.parse().unwrap());
        let mut at = from * MS;
        sizes
            .iter()
            .map(|&size| {
                at = opportunities.pass(at, size);
                at / MS
            })
            .collect()
    }

    #[test]
    fn a_full_packet_takes_an_opportunity() {
        assert_eq!(
            passed("1\n1\n3\n5\n", 0, &[1500; 8]),
            [1, 1, 3, 5, 6, 6, 8, 10]
        );
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_take_several() {
        assert_eq!(passed("2\n5\n", 0, &[500, 500, 500, 1]), [2, 2, 2, 5]);
        assert_eq!(passed("2\n5\n", 0, &[1000, 1000, 1000]), [2, 5, 5]);
        assert_eq!(passed("2\n5\n9\n", 0, &[4000, 500]), [9, 9]);
    }

    #[test]
    fn what_nobody_used_is_lost() {
        let mut opportunities = Opportunities::new("1\n2\n3\n4\n".parse().unwrap());
        assert_eq!(opportunities.pass(0, 700), MS);
        // The rest of the first opportunity, and the second, passed unused.
        assert_eq!(opportunities.pass(2 * MS + 1, 1500), 3 * MS);
    }

    #[test]
    fn a_trace_begins_again_however_long_nobody_used_it() {
        assert_eq!(passed("0\n4\n", 400, &[1500; 3]), [400, 400, 404]);
        assert_eq!(
            passed("1\n4\n", 1_000_001, &[1500; 2]),
            [1_000_001, 1_000_004]
        );
        assert_eq!(
            passed("1\n4\n", 1_000_002, &[1500; 2]),
            [1_000_004, 1_000_005]
        );
    }

    #[test]
    fn a_trace_is_written_as_it_is_read_and_has_a_rate() {
        let trace: Trace = "0\n4\n4\n10\n".parse().unwrap();
        assert_eq!(trace.to_string(), "0\n4\n4\n10\n");
        assert!((trace.rate() - 4.8e6).abs() < 1.0);
    }

    #[test]
    fn what_is_not_a_trace_is_named() {
        for (text, said) in [
            ("", "it has no line"),
            ("0\n0\n", "it ends at 0 ms"),
            ("1\nx\n", "line 2: \"x\" is not a number of milliseconds"),
            ("1\n\n2\n", "line 2: \"\" is not"),
            ("-1\n", "line 1: \"-1\" is not"),
            ("5\n4\n", "line 2: \"4\" is earlier than the line before"),
        ] {
            let error = text.parse::<Trace>().unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
