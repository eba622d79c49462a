//! What virtual users did, in the text report.

use std::fmt::{Result, Write as _};

use trilane_engine::Outcome;

use super::{printable, time};

/// Columns that the name of a step gets at most.
const WIDEST: usize = 40;

/// Writes iterations, and a table of the steps.
pub(super) fn scenario(out: &mut String, outcome: &Outcome) -> Result {
    let Some(scenario) = &outcome.scenario else {
        return Ok(());
    };
    writeln!(
        out,
        "Scenario     {}: {:.2} iterations/s",
        printable(&scenario.name),
        scenario.iterations_per_s
    )?;
    writeln!(
        out,
        "  {} started = {} ok + {} failed + {} abandoned under way at the end",
        scenario.started, scenario.ok, scenario.failed, scenario.abandoned
    )?;
    let took = &scenario.duration.summary;
    writeln!(
        out,
        "  an iteration took p50 {}, p90 {}, p99 {}, max {}, pauses included",
        time(took.p50),
        time(took.p90),
        time(took.p99),
        time(took.max)
    )?;
    let names: Vec<_> = scenario
        .steps
        .iter()
        .map(|step| {
            printable(&step.name)
                .chars()
                .take(WIDEST)
                .collect::<String>()
        })
        .collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0).max(4);
    writeln!(
        out,
        "  {:width$} {:>10} {:>8} {:>11} {:>11} {:>11}",
        "step", "ok", "failed", "p50", "p90", "p99"
    )?;
    for (name, step) in names.iter().zip(&scenario.steps) {
        writeln!(
            out,
            "  {name:width$} {:>10} {:>8} {:>11} {:>11} {:>11}",
            step.ok,
            step.failed,
            time(step.service.p50),
            time(step.service.p90),
            time(step.service.p99)
        )?;
    }
    Ok(())
}
