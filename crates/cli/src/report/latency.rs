//! How long requests took, in the text report.

use std::fmt::{Result, Write as _};

use trilane_engine::{Outcome, Summary};

use super::{Layout, Need, seconds, time};

/// A number of a distribution.
type Cell = fn(&Summary) -> Option<f64>;

/// The rows of the table.
pub(super) const ROWS: [(&str, Need, Cell); 11] = [
    ("mean", Need::IfRoom(1), |s| s.mean),
    ("stdev", Need::Verbose, |s| s.stdev),
    ("min", Need::Verbose, |s| s.min),
    ("p50", Need::Always, |s| s.p50),
    ("p75", Need::Verbose, |s| s.p75),
    ("p90", Need::IfRoom(1), |s| s.p90),
    ("p95", Need::Verbose, |s| s.p95),
    ("p99", Need::Always, |s| s.p99),
    ("p99.9", Need::IfRoom(1), |s| s.p99_9),
    ("p99.99", Need::Verbose, |s| s.p99_99),
    ("max", Need::Always, |s| s.max),
];

/// A distribution and its name.
pub(super) type Column<'a> = (&'static str, &'a Summary);

/// The distributions, as many as the terminal has room for unless all are asked for.
pub(super) fn columns(outcome: &Outcome, layout: Layout) -> Vec<Column<'_>> {
    let latency = &outcome.latency;
    let mut columns = vec![("service", &latency.service.summary)];
    if let Some(response) = &latency.response {
        columns.insert(0, ("response", &response.summary));
    }
    for (name, wait) in [("late", &latency.late), ("queued", &latency.queued)] {
        if let Some(wait) = wait {
            columns.push((name, &wait.summary));
        }
    }
    columns.push(("first byte", &latency.ttfb.summary));
    if let Some(failed) = &latency.failed {
        columns.push(("failed", &failed.summary));
    }
    if let Some(width) = layout.width.filter(|_| !layout.verbose) {
        columns.truncate((width.saturating_sub(10) / 13).max(1));
    }
    columns
}

pub(super) fn head(out: &mut String, columns: &[Column<'_>]) -> Result {
    write!(out, "Latency   ")?;
    for (name, _) in columns {
        write!(out, "{name:>13}")?;
    }
    writeln!(out)
}

pub(super) fn row(out: &mut String, columns: &[Column<'_>], name: &str, cell: Cell) -> Result {
    write!(out, "  {name:8}")?;
    for (_, summary) in columns {
        write!(out, "{:>13}", time(cell(summary)))?;
    }
    writeln!(out)
}

pub(super) fn censored(out: &mut String, outcome: &Outcome) -> Result {
    match outcome.requests.censored {
        0 => Ok(()),
        count => writeln!(
            out,
            "  {count} timeouts are in it with the time they lasted: their latency is longer"
        ),
    }
}

pub(super) fn drawing(out: &mut String, outcome: &Outcome) -> Result {
    let most = outcome
        .drawing
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(0);
    if most == 0 {
        return Ok(());
    }
    writeln!(out, "Service time from … up, requests")?;
    for &(bound, count) in &outcome.drawing {
        let bar = "█".repeat((count * 40 / most) as usize);
        writeln!(out, "{:>12} {count:>10} {bar}", seconds(bound))?;
    }
    Ok(())
}

pub(super) fn slowest(out: &mut String, outcome: &Outcome) -> Result {
    if outcome.slowest.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "Slowest            at     waited first byte       body  request    worker:connection:stream"
    )?;
    for slow in &outcome.slowest {
        writeln!(
            out,
            "{:>12} {:>8.3} s {:>10} {:>10} {:>10}  {:<10} {}:{}:{}{}",
            seconds(slow.latency_s),
            slow.at_s,
            seconds(slow.waited_s),
            time(slow.first_byte_s),
            time(slow.body_s),
            slow.number,
            slow.worker,
            slow.connection,
            slow.stream,
            if slow.timed_out { "  timed out" } else { "" }
        )?;
    }
    Ok(())
}
