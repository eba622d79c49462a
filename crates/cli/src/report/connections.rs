//! The connections of a run in the text report: how many, what it took to make them, and what the time of
//! their requests consists of.

use std::fmt::Write as _;

use trilane_engine::{Distribution, EarlyDataOut, HandshakesOut, Outcome};

use super::time;

pub(super) fn counts(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let counts = &outcome.connections;
    write!(
        out,
        "Connections  {} of {} attempts established; open: {} at the start, {} at the end",
        counts.established, counts.attempted, counts.open_at_start, counts.open_at_end
    )?;
    for (what, by_kind) in [("failed", &counts.failed), ("lost", &counts.lost)] {
        let kinds: Vec<_> = by_kind
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        if !kinds.is_empty() {
            write!(out, "\n             {what}: {}", kinds.join(", "))?;
        }
    }
    if counts.spent > 0 {
        write!(
            out,
            "\n             closed with their requests done, and replaced: {}",
            counts.spent
        )?;
    }
    writeln!(out)
}

pub(super) fn phases(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let phases = &outcome.phases;
    let in_latency = match outcome.plan.asked.requests_per_connection {
        Some(_) => "in the response time, not in the service time",
        None => "not in any latency",
    };
    writeln!(
        out,
        "Phases (set-up: {in_latency}; at most {} at a time)",
        outcome.connections.handshakes_at_most
    )?;
    let (cold, warm) = (&phases.cold, &phases.warm);
    steps(
        out,
        [
            ("DNS", Some(&phases.dns)),
            ("TCP", phases.connect.as_ref()),
            ("TLS", phases.tls.as_ref()),
            ("QUIC", phases.quic.as_ref()),
            ("cold wait", cold.wait.as_ref()),
            ("cold first byte", Some(&cold.ttfb)),
            ("cold body", Some(&cold.body)),
            ("warm wait", warm.wait.as_ref()),
            ("warm first byte", Some(&warm.ttfb)),
            ("warm body", Some(&warm.body)),
        ],
    )?;
    handshakes(out, outcome, &phases.handshakes, phases.early_data.as_ref())?;
    let Some(measured) = &phases.measured else {
        return Ok(());
    };
    writeln!(out, "  of those begun in the measured window")?;
    steps(
        out,
        [
            ("TCP", measured.connect.as_ref()),
            ("TLS", measured.tls.as_ref()),
            ("QUIC", measured.quic.as_ref()),
            ("first byte", measured.first_byte.as_ref()),
        ],
    )?;
    handshakes(
        out,
        outcome,
        &measured.handshakes,
        measured.early_data.as_ref(),
    )
}

fn steps<const N: usize>(
    out: &mut String,
    rows: [(&str, Option<&Distribution>); N],
) -> std::fmt::Result {
    for (name, distribution) in rows {
        let Some(Distribution { summary, .. }) = distribution else {
            continue;
        };
        writeln!(
            out,
            "  {name:15} {:>8} times, p50 {:>10}, p99 {:>10}, max {:>10}",
            summary.count,
            time(summary.p50),
            time(summary.p99),
            time(summary.max)
        )?;
    }
    Ok(())
}

fn handshakes(
    out: &mut String,
    outcome: &Outcome,
    counts: &HandshakesOut,
    early: Option<&EarlyDataOut>,
) -> std::fmt::Result {
    if outcome.target.tls.is_none() {
        return Ok(());
    }
    writeln!(
        out,
        "  handshakes: {} full, {} resumed",
        counts.full, counts.resumed
    )?;
    let Some(early) = early else {
        return Ok(());
    };
    writeln!(
        out,
        "  early data: {} offered, {} accepted, {} rejected",
        early.offered, early.accepted, early.rejected
    )?;
    writeln!(
        out,
        "  requests in it: {}, of which {} were rejected with it, {} answered 425, and both sent again",
        early.requests, early.requests_rejected, early.too_early
    )
}
