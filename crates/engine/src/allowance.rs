//! How many requests may be in flight where their number changes: the closed model in stages.
//!
//! The number follows the line that each stage draws, rounded to the nearest one, and each connection has
//! its part of it at every instant: nothing has to be agreed on between workers, and nothing drifts.

use serde::Serialize;

use crate::options::InFlightStage;

/// A part of the run in which the number of requests in flight changes evenly, from that of the stage before
/// or from none.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InFlightStageOut {
    /// Seconds that it takes.
    pub length_s: f64,
    /// Requests in flight at its end, over all connections.
    pub in_flight: u64,
}

impl From<&InFlightStage> for InFlightStageOut {
    fn from(stage: &InFlightStage) -> Self {
        Self {
            length_s: stage.length.as_secs_f64(),
            in_flight: stage.in_flight,
        }
    }
}

/// The requests that may be in flight on all connections of a run, as time goes by.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    stages: Vec<InFlightStage>,
    /// The stage of the present, when it began, in nanoseconds since the first did, and with how many.
    at: usize,
    began: u64,
    from: u64,
    allowed: u64,
    /// When it has to be looked at again; `u64::MAX` behind the last stage.
    changes: u64,
}

impl Allowance {
    /// None may be in flight before the first of `stages` begins.
    pub(crate) fn new(stages: &[InFlightStage]) -> Self {
        Self {
            stages: stages.to_vec(),
            at: 0,
            began: 0,
            from: 0,
            allowed: 0,
            changes: 0,
        }
    }

    /// Goes on to what holds so many nanoseconds after the begin: how many were allowed before, and how
    /// many are now. `None` where that is the same.
    pub(crate) fn advance(&mut self, elapsed: u64) -> Option<(u64, u64)> {
        if elapsed < self.changes {
            return None;
        }
        let before = self.allowed;
        while let Some(stage) = self.stages.get(self.at) {
            let line = Line::of(self.from, stage);
            let within = elapsed - self.began;
            if within < line.length {
                self.allowed = line.nearest(within);
                self.changes = self.began + line.next_change(self.allowed).min(line.length);
                return (self.allowed != before).then_some((before, self.allowed));
            }
            self.began += line.length;
            self.from = stage.in_flight;
            self.allowed = stage.in_flight;
            self.at += 1;
        }
        self.changes = u64::MAX;
        (self.allowed != before).then_some((before, self.allowed))
    }

    /// When [`Self::advance`] has to be called at the latest, in nanoseconds since the begin.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }
}

/// The part of connection `number` of `connections` in so many requests in flight: all have as many, and
/// the first ones one more where that leaves a rest.
pub(crate) fn part(in_flight: u64, number: u64, connections: u64) -> u64 {
    in_flight / connections + u64::from(number < in_flight % connections)
}

/// What a stage draws: from so many to so many in `length` nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Line {
    length: u64,
    from: u64,
    to: u64,
}

impl Line {
    fn of(from: u64, stage: &InFlightStage) -> Self {
        Self {
            length: stage.length.as_nanos() as u64,
            from,
            to: stage.in_flight,
        }
    }

    fn rise(&self) -> i128 {
        i128::from(self.to) - i128::from(self.from)
    }

    /// Twice the height of the line after so long, in units of which `length` make one request.
    fn doubled(&self, within: u64) -> i128 {
        2 * (i128::from(self.from) * i128::from(self.length) + self.rise() * i128::from(within))
    }

    /// The whole number that is nearest to the line after so long.
    fn nearest(&self, within: u64) -> u64 {
        let length = i128::from(self.length);
        (self.doubled(within) + length).div_euclid(2 * length) as u64
    }

    /// After how long another number than `nearest` is the nearest one; `u64::MAX` where the line is flat.
    fn next_change(&self, nearest: u64) -> u64 {
        let (length, rise) = (i128::from(self.length), self.rise());
        // Where the line is half a request above the number, or just more than half a request below it.
        let above = length * (2 * i128::from(nearest) + 1) - self.doubled(0);
        let below = self.doubled(0) - length * (2 * i128::from(nearest) - 1);
        match rise {
            0 => u64::MAX,
            1.. => ((above + 2 * rise - 1) / (2 * rise)) as u64,
            _ => (below / (-2 * rise) + 1) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn stage(millis: u64, in_flight: u64) -> InFlightStage {
        InFlightStage {
            length: Duration::from_millis(millis),
            in_flight,
        }
    }

    /// What is allowed, and since when, when it is looked at as often as it asks for.
    fn course(stages: &[InFlightStage]) -> Vec<(u64, u64)> {
        let mut allowance = Allowance::new(stages);
        let mut course = Vec::new();
        while allowance.changes() != u64::MAX {
            let now = allowance.changes();
            if let Some((_, allowed)) = allowance.advance(now) {
                course.push((now, allowed));
            }
        }
        course
    }

    #[test]
    fn the_number_is_the_nearest_to_the_line_at_every_instant() {
        let stages = [
            stage(1000, 10),
            stage(500, 10),
            stage(700, 3),
            stage(300, 3),
            stage(1, 1000),
            stage(999, 0),
        ];
        let course = course(&stages);
        let mut from = (0, 0);
        for stage in stages {
            let length = stage.length.as_nanos() as u64;
            for step in 0..1000 {
                let within = length / 1000 * step;
                let share = within as f64 / length as f64;
                let line = from.1 as f64 + (stage.in_flight as f64 - from.1 as f64) * share;
                let since = course.partition_point(|&(since, _)| since <= from.0 + within);
                let allowed = since.checked_sub(1).map_or(0, |last| course[last].1);
                let off = (allowed as f64 - line).abs();
                assert!(off <= 0.5 + 1e-6, "{allowed} and {line} after {within} ns");
            }
            from = (from.0 + length, stage.in_flight);
        }
        assert_eq!(course.last().map(|&(_, allowed)| allowed), Some(0));
        // Each change is one request: nobody has to look at the line in between.
        let steps = course.windows(2).map(|pair| pair[0].1.abs_diff(pair[1].1));
        assert_eq!(steps.max(), Some(1));
    }

    #[test]
    fn who_looks_seldom_finds_what_holds_by_then() {
        let mut allowance = Allowance::new(&[stage(1000, 10), stage(1000, 0)]);
        assert_eq!(allowance.advance(0), None);
        assert_eq!(allowance.advance(SECOND / 20 - 1), None);
        assert_eq!(allowance.advance(SECOND / 20), Some((0, 1)));
        assert_eq!(allowance.advance(SECOND), Some((1, 10)));
        // Over the peak, and down again.
        assert_eq!(allowance.advance(SECOND + SECOND / 2), Some((10, 5)));
        assert_eq!(allowance.advance(7 * SECOND), Some((5, 0)));
        assert_eq!(allowance.changes(), u64::MAX);
        assert_eq!(allowance.advance(8 * SECOND), None);
    }

    #[test]
    fn the_parts_of_all_connections_are_the_whole() {
        for connections in 1..9 {
            for in_flight in 0..100 {
                let parts: Vec<_> = (0..connections)
                    .map(|number| part(in_flight, number, connections))
                    .collect();
                assert_eq!(parts.iter().sum::<u64>(), in_flight);
                let (least, most) = (parts.iter().min(), parts.iter().max());
                assert!(most.unwrap() - least.unwrap() <= 1);
            }
        }
    }
}
