//! Where the run stands: its warm-up, its measured part and its windows, by one clock for all workers.

use crate::plan::Plan;

/// The length of a window of the measured part, in nanoseconds.
pub(crate) const WINDOW: u64 = 100_000_000;

/// What an instant has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    /// Nothing that ended before is measured.
    WarmupEnded,
    /// A window of so many nanoseconds has ended; `advance` has to be called again.
    WindowEnded(u64),
    /// The duration asked for is over.
    Over,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No connection of the run has been ready.
    Connecting,
    /// Until the instant.
    Warmup(u64),
    /// Since the instant; the present window began and ends at these.
    Measuring { since: u64, window: (u64, u64) },
}

/// The stage of one worker. Instants are nanoseconds since the process began the run; warm-up and
/// duration count from the first connection of the run that is ready, whichever worker made it, so
/// that a worker without one ends with the others, and the windows of all are of the same instants.
#[derive(Debug)]
pub(crate) struct Stage {
    warmup: u64,
    duration: Option<u64>,
    state: State,
    /// The end of the measured part, where it is known.
    end: Option<u64>,
}

impl Stage {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            warmup: plan.takes(plan.warmup).as_nanos() as u64,
            duration: plan
                .duration
                .map(|duration| plan.takes(duration).as_nanos() as u64),
            state: State::Connecting,
            end: None,
        }
    }

    /// Whether no connection of the run has been ready.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting)
    }

    /// The first connection of the run was ready at `begun`.
    pub(crate) fn begin(&mut self, begun: u64) {
        if !self.is_connecting() {
            return;
        }
        let until = begun + self.warmup;
        self.end = self.duration.map(|duration| until + duration);
        // Without a warm-up everything counts, from the first byte.
        self.state = if self.warmup == 0 {
            State::Measuring {
                since: begun,
                window: (begun, begun + WINDOW),
            }
        } else {
            State::Warmup(until)
        };
    }

    /// Whether [`Self::advance`] will end the warm-up: what the measurement is to subtract is read
    /// before that.
    pub(crate) fn ends_warmup(&self, now: u64) -> bool {
        matches!(self.state, State::Warmup(until) if now >= until)
    }

    /// What has changed by `now`, one thing at a time.
    pub(crate) fn advance(&mut self, now: u64) -> Change {
        match &mut self.state {
            State::Connecting => Change::Nothing,
            State::Warmup(until) if now < *until => Change::Nothing,
            State::Warmup(until) => {
                // What ended between the two is not in the counts: nor is the time.
                let window = (now, *until + WINDOW);
                self.state = State::Measuring { since: now, window };
                Change::WarmupEnded
            }
            // A worker that comes late to the end ends the windows before it first.
            State::Measuring { window, .. }
                if self.end.is_some_and(|end| now >= end && window.1 >= end) =>
            {
                Change::Over
            }
            State::Measuring { since, window } if now >= window.1 => {
                let length = window.1.saturating_sub(window.0.max(*since));
                *window = (window.1, window.1 + WINDOW);
                Change::WindowEnded(length)
            }
            State::Measuring { .. } => Change::Nothing,
        }
    }

    /// The next instant at which [`Self::advance`] has something to say.
    pub(crate) fn next(&self) -> Option<u64> {
        match self.state {
            State::Connecting => None,
            State::Warmup(until) => Some(until),
            State::Measuring { window, .. } => {
                Some(self.end.map_or(window.1, |end| end.min(window.1)))
            }
        }
    }

    /// `now`, but never the end of the run: a request that is due at the end does not belong to the run.
    pub(crate) fn last(&self, now: u64) -> u64 {
        self.end.map_or(now, |end| now.min(end.saturating_sub(1)))
    }

    /// How long has been measured, and how much of it lies in the present window, in nanoseconds.
    /// None before the measured part.
    pub(crate) fn measured(&self, now: u64) -> Option<(u64, u64)> {
        let State::Measuring { since, window } = self.state else {
            return None;
        };
        let window = window.0.max(since);
        Some((now.saturating_sub(since), now.saturating_sub(window)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::Options;

    /// Both in windows.
    fn stage(warmup: u64, duration: Option<u64>) -> Stage {
        let windows = |count| Duration::from_nanos(count * WINDOW);
        let plan = Plan::new(&Options {
            urls: vec!["http://a/".into()],
            warmup: Some(windows(warmup)),
            duration: duration.map(windows),
            requests: duration.is_none().then_some(5),
            ..Options::default()
        });
        Stage::new(&plan.unwrap())
    }

    #[test]
    fn everything_counts_from_the_first_connection_of_the_run() {
        let mut stage = stage(0, Some(2));
        assert_eq!(stage.advance(9 * WINDOW), Change::Nothing);
        assert_eq!(stage.next(), None);
        let begun = 10 * WINDOW;
        stage.begin(begun);
        // Another worker's connection is none of the run's first.
        stage.begin(11 * WINDOW);
        assert_eq!(stage.next(), Some(begun + WINDOW));
        assert_eq!(stage.advance(begun + WINDOW - 1), Change::Nothing);
        assert_eq!(stage.advance(begun + WINDOW), Change::WindowEnded(WINDOW));
        assert_eq!(stage.advance(begun + WINDOW), Change::Nothing);
        assert_eq!(stage.measured(begun + WINDOW + 7), Some((WINDOW + 7, 7)));
        assert_eq!(stage.next(), Some(begun + 2 * WINDOW));
        assert_eq!(stage.advance(begun + 2 * WINDOW), Change::Over);
    }

    #[test]
    fn a_worker_that_is_late_at_the_end_of_the_warm_up_measures_less() {
        let mut stage = stage(1, Some(3));
        stage.begin(0);
        assert_eq!(stage.next(), Some(WINDOW));
        assert_eq!(stage.measured(WINDOW / 2), None);
        let late = WINDOW + WINDOW / 4;
        assert_eq!(stage.advance(late), Change::WarmupEnded);
        // The windows of all workers end together.
        let window = Change::WindowEnded(WINDOW - WINDOW / 4);
        assert_eq!(stage.advance(2 * WINDOW), window);
        assert_eq!(stage.advance(3 * WINDOW), Change::WindowEnded(WINDOW));
        assert_eq!(stage.advance(4 * WINDOW), Change::Over);
        assert_eq!(
            stage.measured(4 * WINDOW),
            Some((4 * WINDOW - late, WINDOW))
        );
    }

    #[test]
    fn a_worker_that_is_late_at_the_end_has_all_windows() {
        let mut stage = stage(0, Some(3));
        stage.begin(0);
        let late = 3 * WINDOW + WINDOW / 4;
        assert_eq!(stage.advance(late), Change::WindowEnded(WINDOW));
        assert_eq!(stage.advance(late), Change::WindowEnded(WINDOW));
        assert_eq!(stage.advance(late), Change::Over);
        // The last one is as long as the worker measured.
        assert_eq!(stage.measured(late), Some((late, late - 2 * WINDOW)));
    }

    #[test]
    fn a_worker_that_is_later_than_a_window_has_nothing_in_it() {
        let mut stage = stage(1, None);
        stage.begin(0);
        let late = 3 * WINDOW + WINDOW / 4;
        assert_eq!(stage.advance(late), Change::WarmupEnded);
        let ended = [0, 0, 3 * WINDOW / 4].map(Change::WindowEnded);
        assert_eq!([(); 3].map(|()| stage.advance(4 * WINDOW)), ended);
        assert_eq!(stage.advance(4 * WINDOW), Change::Nothing);
    }

    #[test]
    fn windows_that_passed_unseen_end_one_after_the_other() {
        let mut stage = stage(0, None);
        stage.begin(0);
        let now = 3 * WINDOW + 1;
        for _ in 0..3 {
            assert_eq!(stage.advance(now), Change::WindowEnded(WINDOW));
        }
        assert_eq!(stage.advance(now), Change::Nothing);
        assert_eq!(stage.next(), Some(4 * WINDOW));
    }
}
