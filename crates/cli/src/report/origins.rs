//! The requests to each of several origins, in the text report.

use std::fmt::{Result, Write as _};

use trilane_engine::Outcome;

use super::{printable, time};

/// Writes a table of the origins, where there are several.
pub(super) fn origins(out: &mut String, outcome: &Outcome) -> Result {
    let Some(origins) = &outcome.origins else {
        return Ok(());
    };
    writeln!(out, "Origins      service time of what was sent to each")?;
    let names: Vec<_> = origins.iter().map(|each| printable(&each.origin)).collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0).max(6);
    writeln!(
        out,
        "  {:width$} {:>10} {:>10} {:>8} {:>9} {:>11} {:>11} {:>11} {:>11}",
        "origin", "started", "ok", "failed", "abandoned", "connections", "mean", "p50", "p99"
    )?;
    for (name, each) in names.iter().zip(origins) {
        writeln!(
            out,
            "  {name:width$} {:>10} {:>10} {:>8} {:>9} {:>11} {:>11} {:>11} {:>11}",
            each.started,
            each.ok,
            each.failed,
            each.abandoned,
            each.connections,
            time(each.service.mean),
            time(each.service.p50),
            time(each.service.p99)
        )?;
    }
    Ok(())
}
