//! Latency against load: the runs of a search, a row for each rate.

use std::fmt::Write as _;

use trilane_engine::Summary;

use super::{Searched, Trial};
use crate::answer::Answer;
use crate::report::{Layout, lead, wrapped};

/// Rates that a report lists, unless it is verbose.
const MOST_ROWS: usize = 20;

impl Searched {
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
pub(super) struct Row {
    reached: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) failed: Option<f64>,
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
    pub(super) fn of<'a>(trials: impl Iterator<Item = &'a Trial>) -> Self {
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

pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
