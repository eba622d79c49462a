//! `trilane load --search`: the highest rate at which a server keeps what is asked of it.
//!
//! A rate is found by doubling or halving, and narrowed down by halving the interval on a logarithmic
//! scale. One run proves little, so both ends are then repeated: at the lower one all of [`REPEATS`] runs
//! have to hold and at the higher one none, or the end moves outwards. Where in truth half of the
//! runs or fewer hold, all of six do so with a probability of 1/64: the ends are a 95 % interval (a sign test
//! at each, 3.1 % together) for the rate at which half of the runs hold.

mod answer;
mod rows;

use serde::Serialize;
use trilane_engine::{Code, Gate, Outcome};

use crate::{BREACHED, INTERRUPTED, INVALID, OK};

/// Runs at each end of the interval.
const REPEATS: usize = 6;
/// The ends are no further apart than this, unless runs between them disagree.
const PRECISION: f64 = 1.05;
/// Rates that are tried at most.
const MOST_RATES: usize = 40;
/// Of more goals a headline has the number.
const MOST_GOALS: usize = 2;

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

/// Whether these are things that a search can keep, such as `p99<10ms`.
pub fn check_goals(goals: &[String]) -> Result<(), String> {
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
    /// The same in a sentence.
    #[serde(skip)]
    asked: String,
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
            asked: match goals.len() {
                ..=MOST_GOALS => goals
                    .iter()
                    .map(Gate::spaced)
                    .collect::<Vec<_>>()
                    .join(" and "),
                count => format!("all {count} goals"),
            },
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
        let mut at_high = self.at(self.found.high_per_s);
        at_high.any(|trial| trial.client_bound)
    }
}

#[cfg(test)]
mod tests;
