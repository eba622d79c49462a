//! Several runs that take turns of some milliseconds: each sends in its own, and nothing in those of the others.
//!
//! What a processor does in a second changes while others use its core, its caches and its power: by tens of percent
//! from one second to the next on a machine that is shared. Two runs, one after the other, meet different machines.
//! Two that alternate within milliseconds meet the same one.

use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::options::Options;
use crate::plan::{PlanError, given, usage};

/// The shortest turn: the beginning of one takes a wake-up of the worker.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest: beyond it one run may as well follow the other.
const LONGEST: Duration = Duration::from_secs(10);
/// Which part of a turn follows it as a pause, in which what is in flight ends.
const PAUSE: u32 = 10;
/// Runs that may take turns.
const MOST: usize = 64;

/// Which turns are this run's. Every run of a group has the same `start`, `length`, `of` and `seed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// When the first round begins.
    pub start: Instant,
    /// How long a turn is.
    pub length: Duration,
    /// How many runs there are: a round has a turn for each.
    pub of: usize,
    /// Which of them this one is, from 0.
    pub index: usize,
    /// The order of the turns in each round is random, and the same for all runs with this number.
    pub seed: u64,
}

/// Which turns a run had.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TurnsOut {
    /// Seconds of one.
    pub length_s: f64,
    /// Runs that took turns.
    pub of: usize,
}

impl Turns {
    /// Whether the options leave room for turns.
    pub(crate) fn check(options: &Options) -> Result<(), PlanError> {
        let Some(turns) = options.in_turn else {
            return Ok(());
        };
        let lengths = SHORTEST..=LONGEST;
        if !lengths.contains(&turns.length) || turns.of > MOST || turns.index >= turns.of {
            return usage(format!(
                "--in-turn: turn {} of {}, of {:?} each: a turn takes 1ms to 10s, and up to {MOST} runs have one, from 0",
                turns.index, turns.of, turns.length
            ));
        }
        let other = given(&[
            ("-R", options.rate.is_some()),
            ("-n", options.requests.is_some()),
            ("--stages", !options.stages.is_empty()),
            ("--stages-in-flight", !options.stages_in_flight.is_empty()),
            (
                "--rate-per-connection",
                options.rate_per_connection.is_some(),
            ),
            ("--scenario", options.scenario.is_some()),
        ]);
        match other {
            Some(flag) => usage(format!(
                "--in-turn: requests leave as soon as others have ended, for a time; {flag} says something else"
            )),
            None => Ok(()),
        }
    }

    /// How long it takes to have turns of `own` together.
    pub(crate) fn whole(&self, own: Duration) -> Duration {
        let turns = own.as_secs_f64() / self.length.as_secs_f64();
        self.round().mul_f64(turns)
    }

    /// The time in which each run has a turn.
    fn round(&self) -> Duration {
        (self.length + self.length / PAUSE) * self.of as u32
    }

    /// Whether a turn of this run is under way at `now`, and when that changes, at the latest: the end of the turn,
    /// or the beginning of the next, perhaps of another's.
    pub(crate) fn at(&self, now: Instant) -> (bool, Instant) {
        let Some(since) = now.checked_duration_since(self.start) else {
            return (false, self.start);
        };
        let (round, place) = (self.round().as_nanos(), self.round() / self.of as u32);
        let number = since.as_nanos() / round;
        let in_round = since.as_nanos() % round;
        let begun = now - Duration::from_nanos(in_round as u64);
        let begin = begun + place * self.place_in(number as u64) as u32;
        let end = begin + self.length;
        if now < begin {
            (false, begin)
        } else if now < end {
            (true, end)
        } else {
            // Where its turn in the next round lies is looked up there.
            (false, begun + self.round())
        }
    }

    /// Which turn of a round is this run's.
    fn place_in(&self, round: u64) -> usize {
        let mut chance =
            Pcg64Mcg::seed_from_u64(self.seed ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut places: Vec<usize> = (0..self.of).collect();
        places.shuffle(&mut chance);
        places[self.index]
    }
}

impl From<&Turns> for TurnsOut {
    fn from(turns: &Turns) -> Self {
        Self {
            length_s: turns.length.as_secs_f64(),
            of: turns.of,
        }
    }
}

/// What of a run's time is not its own: others have their turn, and nothing of it is in flight. Instants are
/// nanoseconds since the process began the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    /// Since when the run rests, where it does.
    since: Option<u64>,
    /// Rest in the present window.
    in_window: u64,
    /// Rest in the windows before.
    before: u64,
}

impl Rest {
    /// The run begins to rest, unless it does already.
    pub(crate) fn begin(&mut self, now: u64) {
        self.since.get_or_insert(now);
    }

    /// It has something to do again.
    pub(crate) fn end(&mut self, now: u64) {
        if let Some(since) = self.since.take() {
            self.in_window += now.saturating_sub(since);
        }
    }

    /// The measurement begins: what was before does not count.
    pub(crate) fn begin_measuring(&mut self, now: u64) {
        *self = Self {
            since: self.since.map(|_| now),
            ..Self::default()
        };
    }

    /// A window of `length` has ended: how much of it was the run's own.
    pub(crate) fn own(&mut self, now: u64, length: u64) -> u64 {
        if self.since.is_some() {
            self.end(now);
            self.begin(now);
        }
        let rest = self.in_window.min(length);
        self.in_window = 0;
        self.before += rest;
        length - rest
    }

    /// All rest in windows that have ended.
    pub(crate) fn total(&self) -> u64 {
        self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn turns(start: Instant, of: usize, index: usize) -> Turns {
        Turns {
            start,
            length: 20 * MS,
            of,
            index,
            seed: 7,
        }
    }

    #[test]
    fn one_run_has_a_turn_at_a_time_and_each_has_one_in_a_round() {
        let start = Instant::now();
        let all: Vec<_> = (0..3).map(|index| turns(start, 3, index)).collect();
        assert!(!all[0].at(start - MS).0, "before the first round");
        assert_eq!(all[0].at(start - MS).1, start);
        let mut orders = std::collections::BTreeSet::new();
        for round in 0..50 {
            let begun = start + 66 * MS * round;
            let mut order = Vec::new();
            for at in 0..66 {
                let now = begun + MS * at + MS / 2;
                let whose: Vec<_> = (0..3).filter(|&run| all[run].at(now).0).collect();
                let is_pause = at % 22 >= 20;
                assert_eq!(whose.len(), usize::from(!is_pause), "{at} ms");
                order.extend(whose);
            }
            let count = |run| order.iter().filter(|&&other| other == run).count();
            assert_eq!([0, 1, 2].map(count), [20; 3]);
            order.dedup();
            orders.insert(order);
        }
        assert_eq!(orders.len(), 6, "every order comes");
    }

    #[test]
    fn what_is_told_of_the_next_change_holds_until_then() {
        let start = Instant::now();
        for index in 0..4 {
            let turns = turns(start, 4, index);
            let mut now = start;
            for _ in 0..200 {
                let (mine, until) = turns.at(now);
                assert!(until > now);
                let just_before = until - Duration::from_nanos(1);
                assert_eq!(turns.at(just_before).0, mine);
                now = until;
            }
        }
    }

    #[test]
    fn a_second_of_ones_own_takes_as_long_as_the_turns_of_all() {
        let turns = turns(Instant::now(), 3, 0);
        assert_eq!(
            turns.whole(Duration::from_secs(1)),
            Duration::from_millis(3300)
        );
    }

    #[test]
    fn rest_is_taken_from_the_windows_in_which_it_was() {
        let mut rest = Rest::default();
        rest.begin(0);
        rest.begin_measuring(100);
        rest.end(130);
        rest.begin(170);
        rest.begin(180);
        assert_eq!(rest.own(200, 100), 40);
        assert_eq!(rest.own(300, 100), 0);
        rest.end(310);
        assert_eq!(rest.own(400, 100), 90);
        assert_eq!(rest.total(), 170);
    }
}
