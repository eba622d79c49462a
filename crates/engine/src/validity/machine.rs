//! What the client's machine did to the run.

use super::{Circumstances, Code, Reason, Verdict};
use crate::outcome::Outcome;

/// A worker above this share of a processor was the bottleneck.
const SATURATED: f64 = 0.95;

/// A worker above this share of a processor may have been late.
const BUSY: f64 = 0.8;

/// A worker that stood still for as long, in seconds, may have made requests wait.
const STOOD_STILL: f64 = 0.05;

/// Other programs that took a larger share of all processors slow down client or server.
const OTHERS_BUSY: f64 = 0.05;

/// The share of a processor that the busiest worker had; the kernel's accounting is too coarse for less than 0.2 s.
fn busiest(outcome: &Outcome) -> f64 {
    let busy = outcome.cost.busy.iter().copied();
    match outcome.rate.window_s >= 0.2 {
        true => busy.fold(0.0, f64::max),
        false => 0.0,
    }
}

/// Which end was the limit, as far as the client can know.
pub(super) fn bound(outcome: &Outcome, around: &Circumstances<'_>) -> &'static str {
    let is_alone = around.others.is_some_and(|share| share <= OTHERS_BUSY);
    if busiest(outcome) > SATURATED {
        "client"
    } else if around.server_is_full && is_alone && around.rate_asked.is_none() {
        "server"
    } else {
        "server_or_network"
    }
}

/// Workers without a processor, or without room for what came.
pub(super) fn client(outcome: &Outcome, around: &Circumstances<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let busiest = busiest(outcome);
    if busiest > BUSY {
        let what = if busiest > SATURATED {
            ": the client was the bottleneck"
        } else {
            ""
        };
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::WorkerBusy,
            [("busy_percent", busiest * 100.0)],
            format!("a worker was {:.0} % busy{what}", busiest * 100.0),
            "use more threads with -t, or another machine for the client",
        ));
    }
    reasons.extend(stood_still(outcome, around));
    let drops = around.udp_drops;
    if let Some(received) = outcome.bytes.datagrams_received
        && drops as f64 > 0.001 * received as f64
    {
        reasons.push(Reason::new(
            Verdict::Invalid,
            Code::DatagramsDropped,
            [("dropped", drops as f64)],
            format!(
                "{drops} UDP datagrams found the buffers of our sockets full (more than 0.1 %)"
            ),
            "use more threads with -t, or ask for less in flight (-m)",
        ));
    }
    reasons
}

/// Whoever took processor time from client and server.
pub(super) fn neighbours(around: &Circumstances<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if around.steal > 0.02 {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::Steal,
            [("steal_percent", around.steal * 100.0)],
            format!(
                "other machines of the host took {:.1} % of the processor time",
                around.steal * 100.0
            ),
            "repeat it when they are quiet, or on a machine that shares nothing",
        ));
    }
    if let Some(share) = around.others.filter(|&share| share > OTHERS_BUSY) {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::OthersBusy,
            [("busy_percent", share * 100.0)],
            format!(
                "other programs took {:.0} % of this machine's CPU",
                share * 100.0
            ),
            "stop them, or name those of the server with --server-pid",
        ));
    }
    reasons
}

/// A worker that stood still for long: invalid where a quantile that is told is its doing, as there are enough
/// requests that waited for it, and the quantile is not so much longer that it is the server's.
fn stood_still(outcome: &Outcome, around: &Circumstances<'_>) -> Option<Reason> {
    let longest = outcome.cost.stood_still_s.iter().copied();
    let longest = longest.fold(0.0, f64::max);
    if longest < STOOD_STILL {
        return None;
    }
    let latency = &outcome.latency;
    let summary = &latency
        .response
        .as_ref()
        .unwrap_or(&latency.service)
        .summary;
    let due = around.rate_asked.map_or(0.0, |rate| rate * longest);
    let waited = (around.concurrency.at_most as f64 + due) / outcome.plan.threads as f64;
    let share = waited.max(1.0) / summary.count.max(1) as f64;
    let reached = summary.quantiles().into_iter().find(|&(_, q, seconds)| {
        let is_told = seconds.is_some_and(|s| (longest / 4.0..=2.0 * longest).contains(&s));
        is_told && share >= 1.0 - q
    });
    let told = match longest {
        1.0.. => format!("{longest:.1} s"),
        _ => format!("{:.0} ms", longest * 1e3),
    };
    let stood = format!("a worker stood still for {told} (stopped, or without a processor)");
    let numbers = [("stood_still_ms", longest * 1e3)];
    let advice = "stop other programs, or leave the client a processor of its own (--cpu)";
    Some(match reached {
        Some((name, ..)) => Reason::new(
            Verdict::Invalid,
            Code::StoodStill,
            numbers,
            format!("{stood}: latencies from {name} on are its own, not the server's"),
            advice,
        ),
        None => Reason::new(Verdict::Suspect, Code::StoodStill, numbers, stood, advice),
    })
}
