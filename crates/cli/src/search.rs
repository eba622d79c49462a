//! `trilane load --search`: the highest rate at which a server keeps what is asked of it.
//!
//! A rate is found by doubling or halving, and narrowed down by halving the interval on a logarithmic
//! scale. One run proves little, so both ends are then repeated: at the lower one all of [`REPEATS`] runs
//! have to hold and at the higher one none, or the end moves outwards. Where in truth half of the
//! runs or fewer hold, all of six do so with a probability of 1/64: the ends are a 95 % interval (a sign test
//! at each, 3.1 % together) for the rate at which half of the runs hold.

use std::cmp::Reverse;
use std::fmt::Write as _;

use serde::Serialize;
use trilane_engine::{Code, Gate, Outcome, Reason, Summary, Verdict};

use crate::answer::{Answer, Confidence, Doubt, Figure, sign};
use crate::report::{Layout, brief_rate, lead, wrapped};
use crate::{BREACHED, INTERRUPTED, INVALID, OK};

/// Runs at each end of the interval.
const REPEATS: usize = 6;
/// The ends are no further apart than this, unless runs between them disagree.
const PRECISION: f64 = 1.05;
/// Rates that are tried at most.
const MOST_RATES: usize = 40;
/// Rates that a report lists, unless it is verbose.
const MOST_ROWS: usize = 20;
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

    /// What was found, and how far it may be believed.
    pub(crate) fn answer(&self) -> Answer {
        let Found {
            low_per_s,
            high_per_s,
        } = self.found;
        let asked = &self.asked;
        let headline = match (low_per_s.map(floor), high_per_s.map(ceiling)) {
            _ if self.interrupted => "No result: the search was interrupted".to_owned(),
            (Some(low), Some(_)) if self.is_client_bound() => {
                format!("{low} requests/s hold {asked}; above, this client is the limit")
            }
            (Some(low), Some(high)) => format!("{low} requests/s hold {asked}; {high} do not"),
            (Some(low), None) => {
                format!("{low} requests/s, the highest rate tried, hold {asked}")
            }
            (None, _) if self.is_client_bound() => {
                "No result: this client could not send more, even at the lowest rate".to_owned()
            }
            (None, _) => format!(
                "No rate tried holds {asked}, down to {} requests/s",
                floor(self.lowest_tried())
            ),
        };
        let doubts = self.doubts();
        let verdict = doubts.iter().map(|doubt| doubt.verdict).max();
        let verdict = verdict.unwrap_or(Verdict::Valid);
        Answer {
            line: match verdict {
                Verdict::Valid => format!("{headline}; valid"),
                Verdict::Suspect => format!("{headline}; suspect"),
                Verdict::Invalid => headline.clone(),
            },
            sign: match verdict {
                Verdict::Valid if low_per_s.is_none() => '✗',
                _ => sign(verdict),
            },
            headline,
            because: self.because(),
            confidence: Confidence { verdict, doubts },
            figures: self.figures(),
            details: Vec::new(),
            thresholds: Vec::new(),
        }
    }

    /// What speaks against what was found: how the search ended, then the runs at the rate that held.
    fn doubts(&self) -> Vec<Doubt> {
        let doubt = |code, verdict, text: String, advice: &str| Doubt {
            code,
            verdict,
            text,
            advice: advice.to_owned(),
        };
        let Found {
            low_per_s,
            high_per_s,
        } = self.found;
        if self.interrupted {
            let text = "the search was interrupted".to_owned();
            let advice = "let it run to its end";
            return vec![doubt(Code::Interrupted, Verdict::Invalid, text, advice)];
        }
        let mut doubts = Vec::new();
        if self.is_client_bound() {
            let (verdict, rate) = match low_per_s {
                Some(low) => (Verdict::Suspect, format!("above {}", floor(low))),
                None => (
                    Verdict::Invalid,
                    format!("even at {}", floor(self.lowest_tried())),
                ),
            };
            doubts.push(doubt(
                Code::NoCapacity,
                verdict,
                format!("{rate} requests/s this client could not send more"),
                "use more threads with -t, or another machine",
            ));
        } else if high_per_s.is_none() {
            doubts.push(doubt(
                Code::NoCapacity,
                Verdict::Suspect,
                "no rate that was tried was too high".to_owned(),
                "begin at a higher one with -R",
            ));
        }
        let at_low: Vec<_> = self.at(low_per_s).collect();
        let mut reasons: Vec<(usize, &Reason)> = Vec::new();
        for reason in at_low.iter().flat_map(|trial| &trial.run.validity.reasons) {
            match reasons
                .iter_mut()
                .find(|(_, other)| other.code == reason.code)
            {
                Some((count, _)) => *count += 1,
                None => reasons.push((1, reason)),
            }
        }
        doubts.extend(reasons.into_iter().map(|(count, reason)| {
            let text = format!("{} ({count} of {} runs)", reason.text, at_low.len());
            doubt(reason.code, reason.verdict, text, &reason.advice)
        }));
        doubts.sort_by_key(|doubt| Reverse(doubt.verdict));
        doubts
    }

    /// The runs at a rate.
    fn at(&self, per_s: Option<f64>) -> impl Iterator<Item = &Trial> {
        let trials = self.trials.iter();
        trials.filter(move |trial| Some(trial.rate_per_s) == per_s)
    }

    /// The lowest rate that was tried.
    fn lowest_tried(&self) -> f64 {
        let tried = self.trials.iter().map(|trial| trial.rate_per_s);
        tried.reduce(f64::min).unwrap_or(self.lowest_per_s)
    }

    fn because(&self) -> Vec<String> {
        let Found {
            low_per_s,
            high_per_s,
        } = self.found;
        let mut because = Vec::new();
        if self.interrupted {
            return because;
        }
        if let (Some(low), Some(high)) = (low_per_s.map(floor), high_per_s.map(ceiling)) {
            because.push(format!(
                "All {REPEATS} runs at {low} requests/s held, and none of {REPEATS} at {high}: a 95 % interval."
            ));
        }
        let first = self.at(high_per_s).find(|trial| !trial.why.is_empty());
        if let Some(trial) = first {
            because.push(format!(
                "The first run at {} requests/s: {}.",
                ceiling(trial.rate_per_s),
                trial.why.join("; ")
            ));
        }
        if low_per_s.is_none() {
            because.push(format!(
                "Below {} requests/s a run has too few responses to tell: give it more time with -d.",
                floor(self.lowest_per_s)
            ));
        }
        because
    }

    /// The rate, and what users have of it.
    fn figures(&self) -> Vec<Figure> {
        let Found {
            low_per_s,
            high_per_s,
        } = self.found;
        let mut figures = Vec::new();
        if let Some(low) = low_per_s {
            // On a scale of ratios; where no end is the server's, only the lower one says something.
            let high = high_per_s.filter(|_| !self.is_client_bound());
            let middle = high.map_or(low, |high| (low * high).sqrt());
            let measure = ("highest requests/s that hold", "capacity_per_s", "1/s");
            figures.push(Figure::ranged(measure, middle, low_per_s, high));
        }
        let row = Row::of(self.at(low_per_s.or(high_per_s)));
        let times = [
            ("p50 latency", "p50", row.p50),
            ("p99 latency", "p99", row.p99),
        ];
        for (label, measure, value) in times {
            figures.extend(value.map(|value| Figure::new(label, measure, value, "s")));
        }
        let failed = row.failed.map(|share| share * 100.0);
        figures.extend(failed.map(|share| Figure::new("failed", "failed_share", share, "%")));
        figures
    }

    /// The report for people: the answer, and latency against load.
    pub(crate) fn text(&self, answer: &Answer, layout: Layout) -> String {
        let mut out = lead(answer);
        // Writing to a string does not fail.
        let _ = self.write(&mut out, layout);
        wrapped(&out, layout.width)
    }

    fn write(&self, out: &mut String, layout: Layout) -> std::fmt::Result {
        writeln!(out)?;
        if let Some(trial) = self.trials.first() {
            writeln!(out, "Target       {}", trial.run.target.url)?;
        }
        writeln!(out, "Search       {}", self.goals.join(", "))?;
        let mut rates: Vec<f64> = self.trials.iter().map(|trial| trial.rate_per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let left_out = match layout.verbose {
            true => 0,
            false => rates.len().saturating_sub(MOST_ROWS),
        };
        let answer = self
            .found
            .low_per_s
            .or(self.found.high_per_s)
            .unwrap_or(1.0);
        let distance = |rate: &f64| (rate / answer).ln().abs();
        rates.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
        rates.truncate(rates.len() - left_out);
        rates.sort_by(f64::total_cmp);
        let width = layout.width.unwrap_or(usize::MAX);
        writeln!(out, "\n{}", Row::head(width))?;
        for rate in rates {
            let row = Row::of(self.at(Some(rate)));
            writeln!(out, "{}", row.line(rate, width))?;
        }
        match left_out {
            0 => Ok(()),
            _ => writeln!(out, "More with -v: {left_out} other rates"),
        }
    }
}

/// The medians of the runs at one rate.
struct Row {
    reached: Option<f64>,
    p50: Option<f64>,
    p99: Option<f64>,
    failed: Option<f64>,
    held: usize,
    runs: usize,
}

/// The columns of a row, each with its width, and how wide a terminal has to be for it.
const COLUMNS: [(&str, usize, usize); 6] = [
    ("requests/s", 14, 0),
    ("reached", 13, 72),
    ("p50", 12, 72),
    ("p99", 12, 0),
    ("errors", 12, 50),
    ("held", 8, 0),
];

impl Row {
    fn of<'a>(trials: impl Iterator<Item = &'a Trial>) -> Self {
        let trials: Vec<_> = trials.collect();
        let latency = |of: fn(&Summary) -> Option<f64>| {
            let values = trials.iter().filter_map(|trial| {
                let latency = &trial.run.latency;
                of(&latency
                    .response
                    .as_ref()
                    .unwrap_or(&latency.service)
                    .summary)
            });
            median(values)
        };
        Self {
            reached: median(trials.iter().map(|trial| trial.run.rate.requests_per_s)),
            p50: latency(|summary| summary.p50),
            p99: latency(|summary| summary.p99),
            failed: median(trials.iter().map(|trial| {
                let requests = &trial.run.requests;
                requests.failed as f64 / ((requests.ok + requests.failed) as f64).max(1.0)
            })),
            held: trials.iter().filter(|trial| trial.held).count(),
            runs: trials.len(),
        }
    }

    fn head(width: usize) -> String {
        Self::aligned(COLUMNS.map(|(name, ..)| name.to_owned()), width)
    }

    fn line(&self, rate: f64, width: usize) -> String {
        let time = |value: Option<f64>| {
            value.map_or_else(|| "–".to_owned(), |value| format!("{:.3} ms", value * 1e3))
        };
        let cells = [
            format!("{rate:.1}"),
            format!("{:.1}", self.reached.unwrap_or_default()),
            time(self.p50),
            time(self.p99),
            format!("{:.3} %", self.failed.unwrap_or_default() * 100.0),
            format!("{} of {}", self.held, self.runs),
        ];
        Self::aligned(cells, width)
    }

    /// Cells in the columns for which a terminal of this width has room.
    fn aligned(cells: [String; 6], width: usize) -> String {
        let columns = COLUMNS.iter().zip(cells);
        let columns = columns.filter(|((.., least), _)| *least <= width);
        columns
            .map(|(&(_, width, _), cell)| format!("{cell:>width$}"))
            .collect()
    }
}

/// A rate for people, not higher than it was.
fn floor(per_s: f64) -> String {
    brief_rate(if per_s < 100.0 {
        (per_s * 10.0).floor() / 10.0
    } else {
        per_s.floor()
    })
}

/// And not lower.
fn ceiling(per_s: f64) -> String {
    brief_rate(if per_s < 99.0 {
        (per_s * 10.0).ceil() / 10.0
    } else {
        per_s.ceil()
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

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

    const LOW: f64 = 48_935.4;
    const HIGH: f64 = 51_101.9;

    /// A search that ended so, with six runs at each end.
    fn ended(
        goals: &[&str],
        low_per_s: Option<f64>,
        high_per_s: Option<f64>,
        bound: &'static str,
    ) -> Searched {
        let goals: Vec<_> = goals
            .iter()
            .map(|goal| Gate::parse_goal(goal).unwrap())
            .collect();
        let ends = [
            (low_per_s, 0.007, "server_or_network"),
            (high_per_s, 0.0124, bound),
        ];
        let runs = ends.into_iter().flat_map(|(rate, p99, bound)| {
            let mut run = sample::outcome();
            run.latency.service.summary.p99 = Some(p99);
            run.validity.bound = bound;
            rate.map(|rate| vec![Trial::new(rate, &goals, run); REPEATS])
        });
        let trials = runs.flatten().collect();
        let found = Found {
            low_per_s,
            high_per_s,
        };
        Searched::new(&goals, 600.0, Some(found), trials)
    }

    /// The headline, which is short.
    fn headline(searched: &Searched) -> String {
        let headline = searched.answer().headline;
        assert!(headline.split_whitespace().count() <= 20, "{headline}");
        headline
    }

    #[test]
    fn a_headline_is_the_rate_that_holds_and_what_is_above() {
        let goal = ["p99<10ms"];
        let server = ended(&goal, Some(LOW), Some(HIGH), "server_or_network");
        assert_eq!(
            headline(&server),
            "48,935 requests/s hold p99 < 10 ms; 51,102 do not"
        );
        let answer = server.answer();
        assert_eq!(
            answer.because,
            [
                "All 6 runs at 48,935 requests/s held, and none of 6 at 51,102: a 95 % interval.",
                "The first run at 51,102 requests/s: p99<10ms is not true: it is 12.400 ms.",
            ]
        );
        assert_eq!(answer.confidence.verdict, Verdict::Valid);
        let capacity = &answer.figures[0];
        assert_eq!(capacity.measure, "capacity_per_s");
        assert_eq!((capacity.low, capacity.high), (Some(LOW), Some(HIGH)));
        assert!(LOW < capacity.value && capacity.value < HIGH);
        assert!((3..=5).contains(&answer.figures.len()));

        let client = ended(&goal, Some(LOW), Some(HIGH), "client");
        assert_eq!(
            headline(&client),
            "48,935 requests/s hold p99 < 10 ms; above, this client is the limit"
        );
        let answer = client.answer();
        assert_eq!(
            answer.confidence.doubts[0].advice,
            "use more threads with -t, or another machine"
        );
        assert_eq!(
            (answer.figures[0].value, answer.figures[0].high),
            (LOW, None)
        );

        let everywhere = ended(&goal, Some(LOW), None, "");
        assert_eq!(
            headline(&everywhere),
            "48,935 requests/s, the highest rate tried, hold p99 < 10 ms"
        );
        assert_eq!(everywhere.answer().confidence.verdict, Verdict::Suspect);
        // FINDINGS N9: it was not the end of the search that was tried last.
        let nowhere = ended(&goal, None, Some(1976.54), "server_or_network");
        assert_eq!(
            headline(&nowhere),
            "No rate tried holds p99 < 10 ms, down to 1,976 requests/s"
        );
        assert!(nowhere.answer().because[1].starts_with("Below 600 requests/s a run has too few"));
        assert_eq!(nowhere.answer().sign, '✗');
        let late = ended(&goal, None, Some(1976.54), "client");
        assert_eq!(
            headline(&late),
            "No result: this client could not send more, even at the lowest rate"
        );
        let none = Searched::new(&[], 600.0, None, Vec::new());
        assert_eq!(headline(&none), "No result: the search was interrupted");
        assert_eq!(none.answer().confidence.verdict, Verdict::Invalid);

        let two = ["p99<10ms", "error_rate<0.1%"];
        assert_eq!(
            headline(&ended(&two, Some(LOW), Some(HIGH), "client")),
            "48,935 requests/s hold p99 < 10 ms and error_rate < 0.1 %; above, this client is the limit"
        );
        let many = ["p99<10ms", "p50<1ms", "error_rate<0.1%"];
        assert_eq!(
            headline(&ended(&many, Some(LOW), Some(HIGH), "server_or_network")),
            "48,935 requests/s hold all 3 goals; 51,102 do not"
        );
    }

    #[test]
    fn what_speaks_against_the_runs_that_held_is_told_once() {
        let mut searched = ended(&["p99<10ms"], Some(LOW), Some(HIGH), "server_or_network");
        for trial in searched.trials.iter_mut().take(4) {
            let text = "other programs took 9 % of this machine's CPU";
            let run = trial.run.clone();
            trial.run = sample::doubted(run, Verdict::Suspect, Code::OthersBusy, text);
        }
        let answer = searched.answer();
        let [only] = answer.confidence.doubts.as_slice() else {
            panic!("{answer:?}");
        };
        assert!(only.text.ends_with("CPU (4 of 6 runs)"), "{only:?}");
        assert!(
            answer.line.ends_with("51,102 do not; suspect"),
            "{answer:?}"
        );
    }

    #[test]
    fn a_report_lists_the_rates_near_the_answer_in_columns_that_fit() {
        let mut searched = ended(&["p99<10ms"], Some(LOW), Some(HIGH), "server_or_network");
        for step in 1..=25 {
            let mut far = searched.trials[0].clone();
            far.rate_per_s /= 1.1_f64.powi(step);
            searched.trials.push(far);
        }
        let text = |verbose, width| {
            let layout = Layout {
                verbose,
                slowest: false,
                width,
            };
            searched.text(&searched.answer(), layout)
        };
        let brief = text(false, None);
        assert!(brief.lines().count() <= 30, "{brief}");
        assert!(brief.starts_with("✓ 48,935 requests/s hold p99 < 10 ms; 51,102 do not; valid\n"));
        assert!(brief.contains("More with -v: 7 other rates"), "{brief}");
        assert!(
            brief.contains(
                "       48935.4      54359.7    0.880 ms    7.000 ms     0.000 %  6 of 6"
            ),
            "{brief}"
        );
        assert!(!text(true, None).contains("-v"));
        for width in [55, 40] {
            let narrow = text(true, Some(width));
            assert!(
                narrow.lines().all(|line| line.chars().count() <= width),
                "{narrow}"
            );
            assert!(narrow.contains("12.400 ms"), "{narrow}");
        }
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
