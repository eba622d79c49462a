//! `trilane load --search`: the highest rate at which a server keeps what is asked of it.
//!
//! A rate is found by doubling or halving, and narrowed down by halving the interval on a logarithmic
//! scale. One run proves little, so both ends are then repeated: at the lower one all of [`REPEATS`] runs
//! have to hold and at the higher one none, or the end moves outwards. Where in truth half of the
//! runs or fewer hold, all of six do so with a probability of 1/64: the ends are a 95 % interval (a sign test
//! at each, 3.1 % together) for the rate at which half of the runs hold.

use std::fmt::Write as _;

use serde::Serialize;
use trilane_engine::{Code, Gate, Outcome};

use crate::{BREACHED, INTERRUPTED, INVALID, OK};

/// Runs at each end of the interval.
const REPEATS: usize = 6;
/// The ends are no further apart than this, unless runs between them disagree.
const PRECISION: f64 = 1.05;
/// Rates that are tried at most.
const MOST_RATES: usize = 40;

/// One run at a rate.
#[derive(Clone, Debug, Serialize)]
struct Trial {
    /// Requests per second that were asked for.
    rate_per_s: f64,
    /// Whether everything held that was asked for.
    held: bool,
    /// What did not, in words; empty where all did.
    why: Vec<String>,
    /// Whether it was the client that could not send as many.
    client_bound: bool,
    /// The whole result.
    run: Outcome,
}

/// What the next run is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    /// A run at this rate.
    Run(f64),
    /// Nothing: the search is over.
    Found(Found),
}

/// What the search found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Found {
    /// The highest rate at which all runs held; none where it does at no rate.
    low_per_s: Option<f64>,
    /// The lowest rate above it at which none did; none where all that were tried held.
    high_per_s: Option<f64>,
}

/// Whether runs at a rate held.
#[derive(Clone, Debug)]
struct Search {
    /// In the order of the rates.
    rates: Vec<Rate>,
    /// The lowest rate that is tried, in requests per second.
    lowest: f64,
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    per_s: f64,
    held: usize,
    runs: usize,
}

impl Rate {
    /// Whether more of its runs held than did not; a tie holds not.
    fn mostly_held(&self) -> bool {
        2 * self.held > self.runs
    }
}

impl Search {
    /// Nothing below `lowest` requests per second is tried.
    fn new(lowest: f64) -> Self {
        let rates = Vec::new();
        Self { rates, lowest }
    }

    /// A run at this rate has ended.
    fn add(&mut self, per_s: f64, held: bool) {
        let held = usize::from(held);
        match self.rates.iter_mut().find(|rate| rate.per_s == per_s) {
            Some(rate) => {
                rate.runs += 1;
                rate.held += held;
            }
            None => {
                let rate = Rate {
                    per_s,
                    held,
                    runs: 1,
                };
                let at = self.rates.partition_point(|other| other.per_s < per_s);
                self.rates.insert(at, rate);
            }
        }
    }

    /// What to do next; `start` is the first rate, where there has been no run.
    fn next(&self, start: f64) -> Next {
        let Some((first, last)) = self.rates.first().zip(self.rates.last()) else {
            return Next::Run(start);
        };
        // The ends: below the first rate that mostly does not hold, and that.
        let above = self.rates.iter().position(|rate| !rate.mostly_held());
        let (low, high) = match above {
            None => (Some(last), None),
            Some(0) => (None, Some(first)),
            Some(at) => (Some(&self.rates[at - 1]), Some(&self.rates[at])),
        };
        let is_enough = self.rates.len() >= MOST_RATES;
        match (low, high) {
            (Some(low), None) if !is_enough => Next::Run(low.per_s * 2.0),
            (None, Some(high)) if !is_enough && high.per_s / 2.0 >= self.lowest => {
                Next::Run(high.per_s / 2.0)
            }
            (Some(low), Some(high)) if !is_enough && high.per_s / low.per_s > PRECISION => {
                Next::Run((low.per_s * high.per_s).sqrt())
            }
            _ => self.confirm(low, high, is_enough),
        }
    }

    /// Both ends are repeated, until all runs of the one hold and none of the other.
    fn confirm(&self, low: Option<&Rate>, high: Option<&Rate>, is_enough: bool) -> Next {
        let below = low.map(|low| {
            let below = self.rates.iter().rev();
            below
                .filter(|rate| rate.per_s <= low.per_s)
                .find(|rate| rate.held == rate.runs)
                .ok_or(low.per_s)
        });
        let above = high.map(|high| {
            let mut above = self.rates.iter();
            above
                .find(|rate| rate.per_s >= high.per_s && rate.held == 0)
                .ok_or(high.per_s)
        });
        // An end that was moved is as far from the one before as the ends are apart.
        for (end, step) in [(&below, 1.0 / PRECISION), (&above, PRECISION)] {
            match end {
                Some(Ok(rate)) if rate.runs < REPEATS => return Next::Run(rate.per_s),
                Some(Err(_)) if !is_enough => {
                    let edge = if step < 1.0 {
                        self.rates.first()
                    } else {
                        self.rates.last()
                    };
                    let moved = edge.map_or(self.lowest, |rate| rate.per_s) * step;
                    if moved >= self.lowest {
                        return Next::Run(moved);
                    }
                }
                _ => (),
            }
        }
        let known =
            |end: Option<Result<&Rate, f64>>| end.and_then(Result::ok).map(|rate| rate.per_s);
        Next::Found(Found {
            low_per_s: known(below),
            high_per_s: known(above),
        })
    }
}

/// Whether these are things that a search can keep, such as `p99<10ms`, and there is one.
pub fn check_goals(goals: &[String]) -> Result<(), String> {
    if goals.is_empty() {
        return Err("it takes what has to hold, such as p99<10ms".to_owned());
    }
    let parsed = goals
        .iter()
        .try_for_each(|goal| Gate::parse_goal(goal).map(drop));
    parsed.map_err(|error| error.to_string())
}

/// Searches by `run`, whose argument is the rate, or none for the closed model; `start` is the first rate,
/// and `tell` gets a line for each run. A run that the user ends ends the search.
pub(crate) fn search(
    goals: &[Gate],
    lowest: f64,
    start: Option<f64>,
    run: impl Fn(Option<f64>) -> Result<Outcome, String>,
    tell: impl Fn(&str),
) -> Result<Searched, String> {
    let (mut search, mut trials) = (Search::new(lowest), Vec::new());
    let start = match start {
        Some(start) => start,
        None => {
            let closed = run(None)?;
            if closed.interrupted {
                return Ok(Searched::new(goals, lowest, None, trials));
            }
            let rate = closed.rate.requests_per_s;
            if rate == 0.0 {
                let failure = closed.requests.failures.values().next();
                let why = failure.and_then(|entry| entry["example"].as_str());
                return Err(format!(
                    "no request was answered as expected, so there is nothing to search: {}",
                    why.unwrap_or("none ended")
                ));
            }
            tell(&format!(
                "{rate:.1} requests/s are reached in the closed model"
            ));
            rate / 2.0
        }
    };
    loop {
        match search.next(start.max(lowest)) {
            Next::Found(found) => {
                return Ok(Searched::new(goals, lowest, Some(found), trials));
            }
            Next::Run(rate) => {
                let outcome = run(Some(rate))?;
                if outcome.interrupted {
                    return Ok(Searched::new(goals, lowest, None, trials));
                }
                let trial = Trial::new(rate, goals, outcome);
                tell(&trial.line());
                search.add(rate, trial.held);
                trials.push(trial);
            }
        }
    }
}

impl Trial {
    /// Judges a run at this rate.
    fn new(rate_per_s: f64, goals: &[Gate], run: Outcome) -> Self {
        let mut why: Vec<_> = goals.iter().filter_map(|goal| goal.miss(&run)).collect();
        // Of a short run the last responses are missing: what was sent counts.
        let sent = run.requests.started as f64 / run.rate.window_s.max(1e-9);
        let is_short = sent < 0.99 * rate_per_s;
        if is_short && run.requests.unsent > 0 {
            why.push(format!("{sent:.1} requests/s were all that could be sent"));
        }
        let mut reasons = run.validity.reasons.iter();
        let was_late = reasons.any(|reason| reason.code == Code::Late);
        let client_bound = is_short && was_late || run.validity.bound == "client";
        if client_bound {
            why.push("the client itself was at its limit".to_owned());
        }
        Self {
            rate_per_s,
            held: why.is_empty(),
            why,
            client_bound,
            run,
        }
    }

    /// One line while the search goes on.
    fn line(&self) -> String {
        let verdict = match self.why.as_slice() {
            [] => "holds".to_owned(),
            why => format!("does not hold: {}", why.join("; ")),
        };
        format!("{:.1} requests/s: {verdict}", self.rate_per_s)
    }
}

/// The result of a search. Serialises to `trilane.search/1`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Searched {
    schema: &'static str,
    /// What had to hold.
    goals: Vec<String>,
    #[serde(flatten)]
    found: Found,
    /// Runs at each end.
    repeats: usize,
    /// Lower rates are not tried: a run of theirs has too few responses.
    lowest_per_s: f64,
    /// Whether the user ended it early: the ends have not been repeated as often.
    interrupted: bool,
    /// Every run, in order.
    trials: Vec<Trial>,
}

impl Searched {
    fn new(goals: &[Gate], lowest_per_s: f64, found: Option<Found>, trials: Vec<Trial>) -> Self {
        Self {
            schema: "trilane.search/1",
            goals: goals.iter().map(Gate::to_string).collect(),
            interrupted: found.is_none(),
            found: found.unwrap_or(Found {
                low_per_s: None,
                high_per_s: None,
            }),
            repeats: REPEATS,
            lowest_per_s,
            trials,
        }
    }

    /// The exit code: 0 for a rate between two ends, 3 where it holds at none, 4 where it was not the
    /// server that ended the search.
    pub(crate) fn code(&self) -> u8 {
        match (self.found.low_per_s, self.found.high_per_s) {
            _ if self.interrupted => INTERRUPTED,
            (Some(_), Some(_)) if !self.is_client_bound() => OK,
            (None, Some(_)) if !self.is_client_bound() => BREACHED,
            _ => INVALID,
        }
    }

    /// Whether above the lower end it was the client that did not keep up.
    fn is_client_bound(&self) -> bool {
        let high = self.found.high_per_s;
        let mut at_high = self
            .trials
            .iter()
            .filter(|trial| Some(trial.rate_per_s) == high);
        at_high.any(|trial| trial.client_bound)
    }

    /// The report for people: the answer, and latency against load.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        if let Some(trial) = self.trials.first() {
            writeln!(out, "Target       {}", trial.run.target.url)?;
        }
        writeln!(out, "Search       {}", self.goals.join(", "))?;
        writeln!(out, "\n{}", self.answer())?;
        writeln!(
            out,
            "\n{:>14} {:>12} {:>11} {:>11} {:>9}  held",
            "requests/s", "reached", "p50", "p99", "errors"
        )?;
        let mut rates: Vec<f64> = self.trials.iter().map(|trial| trial.rate_per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        for rate in rates {
            self.row(out, rate)?;
        }
        Ok(())
    }

    fn answer(&self) -> String {
        let Found {
            low_per_s,
            high_per_s,
        } = self.found;
        if self.interrupted {
            return "Interrupted: the search did not come to an answer; the runs are below"
                .to_owned();
        }
        match (low_per_s, high_per_s) {
            (Some(low), Some(_)) if self.is_client_bound() => format!(
                "It holds at {low:.1} requests/s, and above it was this client that could not send more: give it more threads (-t), or another machine"
            ),
            (Some(low), Some(high)) => format!(
                "The highest rate that holds lies between {low:.1} and {high:.1} requests/s (95 % interval: {REPEATS} of {REPEATS} runs held at the lower, none of {REPEATS} at the higher)"
            ),
            (Some(low), None) => {
                format!("It holds at every rate that was tried, up to {low:.1} requests/s")
            }
            (None, _) => {
                let tried = self.trials.iter().map(|trial| trial.rate_per_s);
                holds_nowhere(tried, self.lowest_per_s)
            }
        }
    }

    /// The medians of the runs at one rate.
    fn row(&self, out: &mut String, rate: f64) -> std::fmt::Result {
        let trials: Vec<_> = self
            .trials
            .iter()
            .filter(|trial| trial.rate_per_s == rate)
            .collect();
        let latency = |of: fn(&trilane_engine::Summary) -> Option<f64>| {
            let values = trials.iter().filter_map(|trial| {
                let latency = &trial.run.latency;
                of(&latency
                    .response
                    .as_ref()
                    .unwrap_or(&latency.service)
                    .summary)
            });
            median(values).map_or_else(|| "–".to_owned(), |value| format!("{:.3} ms", value * 1e3))
        };
        let reached = median(trials.iter().map(|trial| trial.run.rate.requests_per_s));
        let failed = median(trials.iter().map(|trial| {
            let requests = &trial.run.requests;
            requests.failed as f64 / ((requests.ok + requests.failed) as f64).max(1.0)
        }));
        let held = trials.iter().filter(|trial| trial.held).count();
        writeln!(
            out,
            "{rate:>14.1} {:>12.1} {:>11} {:>11} {:>7.3} %  {held} of {}",
            reached.unwrap_or_default(),
            latency(|summary| summary.p50),
            latency(|summary| summary.p99),
            failed.unwrap_or_default() * 100.0,
            trials.len()
        )
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// What is said where no run at these rates held; `lowest_per_s` is the rate below which none is tried.
fn holds_nowhere(tried: impl Iterator<Item = f64>, lowest_per_s: f64) -> String {
    format!(
        "It holds at no rate that was tried, down to {:.1} requests/s; below {lowest_per_s:.1} a run has too few responses to tell: give it more time (-d)",
        tried.reduce(f64::min).unwrap_or(lowest_per_s),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a server of which a run at a rate holds as `holds` says; the runs are counted.
    fn searched(start: f64, mut holds: impl FnMut(f64) -> bool) -> (Found, usize) {
        let mut search = Search::new(1.0);
        for runs in 0..1000 {
            match search.next(start) {
                Next::Run(rate) => {
                    let held = holds(rate);
                    search.add(rate, held);
                }
                Next::Found(found) => return (found, runs),
            }
        }
        panic!("the search does not end: {search:?}");
    }

    #[test]
    fn a_limit_is_found_from_below_and_from_above() {
        for start in [10.0, 1_000.0, 12_345.0, 1e6] {
            let (found, runs) = searched(start, |rate| rate <= 12_345.0);
            let (low, high) = (found.low_per_s.unwrap(), found.high_per_s.unwrap());
            assert!(low <= 12_345.0 && 12_345.0 < high, "{found:?}");
            assert!(high / low <= PRECISION, "{found:?}");
            assert!(runs < 36, "{runs} runs");
        }
    }

    #[test]
    fn what_never_holds_and_what_always_does_ends() {
        let (found, _) = searched(100.0, |_| false);
        assert_eq!(found.low_per_s, None);
        assert!(found.high_per_s.is_some_and(|high| high < 2.0));
        // FINDINGS N9.
        assert_eq!(
            Searched::new(&[], 1.0, Some(found), Vec::new()).code(),
            BREACHED
        );
        let (found, runs) = searched(100.0, |_| true);
        assert_eq!(found.high_per_s, None);
        assert!(found.low_per_s.is_some() && runs < 60);
    }

    /// FINDINGS N9: it was not the end of the search that was tried last.
    #[test]
    fn what_holds_nowhere_names_the_lowest_rate_that_was_tried() {
        let text = holds_nowhere([7905.8, 3952.9, 1976.5, 3952.9].into_iter(), 600.0);
        assert!(
            text.contains("tried, down to 1976.5 requests/s; below 600.0"),
            "{text}"
        );
        let text = holds_nowhere(std::iter::empty(), 600.0);
        assert!(text.contains("tried, down to 600.0 requests/s"), "{text}");
    }

    /// Near the limit it is chance whether a run holds: the interval has the rate at which half do.
    #[test]
    fn an_interval_of_95_percent_has_the_limit_in_95_of_100_searches() {
        let mut state = 7_u64;
        let mut uniform = move || {
            // Knuth's MMIX generator.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let (mut covered, mut runs) = (0, 0);
        for _ in 0..1000 {
            // A logistic curve: from 12 to 88 % within ±10 % of the limit.
            let (found, count) = searched(700.0, |rate| {
                let odds = (-20.0 * (rate / 1000.0).ln()).exp();
                uniform() < odds / (1.0 + odds)
            });
            runs += count;
            let low = found.low_per_s.unwrap_or(0.0);
            let high = found.high_per_s.unwrap_or(f64::MAX);
            covered += u32::from(low <= 1000.0 && 1000.0 <= high);
        }
        assert!(covered >= 950, "{covered} of 1000");
        assert!(runs / 1000 < 60, "{} runs each", runs / 1000);
    }

    #[test]
    fn medians_are_those_of_the_middle() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
    }
}
