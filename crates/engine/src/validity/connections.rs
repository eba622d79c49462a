//! What became of the connections, and of the streams on them.

use super::{Circumstances, Code, Reason, Verdict};
use crate::failure::FailureKind;
use crate::outcome::Outcome;

/// The streams that each connection was allowed, where fewer were in flight for it than were asked for.
pub(super) fn shortage(outcome: &Outcome, around: &Circumstances<'_>) -> Option<u64> {
    let plan = &outcome.plan;
    let in_stages = plan.stages_in_flight.iter().map(|stage| stage.in_flight);
    let wanted = in_stages
        .max()
        .unwrap_or((plan.connections * plan.streams) as u64);
    let wanted = plan
        .requests
        .map_or(wanted, |requests| requests.min(wanted));
    around.concurrency.shortage(wanted)
}

pub(super) fn streams_allowed(outcome: &Outcome, around: &Circumstances<'_>) -> Option<Reason> {
    // In the open model the streams asked for are a bound, of which a run may need less.
    let allowed = shortage(outcome, around).filter(|_| around.rate_asked.is_none())?;
    let (at_most, asked) = (around.concurrency.at_most, outcome.plan.streams);
    Some(Reason::new(
        Verdict::Suspect,
        Code::StreamsAllowed,
        [
            ("at_most", at_most as f64),
            ("allowed", allowed as f64),
            ("asked", asked as f64),
        ],
        format!(
            "at most {at_most} in flight: the server allows {}, {asked} were asked for",
            streams_per_connection(allowed)
        ),
        "use more connections with -c",
    ))
}

/// A limit of the server's, in words.
pub(super) fn streams_per_connection(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} stream{plural} per connection")
}

/// Connections that could not be made, or did not last.
pub(super) fn troubled(outcome: &Outcome) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let origins = outcome.origins.as_ref().map_or(1, Vec::len);
    let asked = outcome.plan.connections * origins;
    let open = outcome.usually_open();
    if open < asked as u64 {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::FewConnections,
            [("open", open as f64), ("asked", asked as f64)],
            format!("no more than {open} of the {asked} connections asked for were open"),
            "ask for fewer connections with -c, or raise the server's limit",
        ));
    }
    let exhausted = outcome.connections.exhausted;
    if exhausted > 0 {
        reasons.push(Reason::new(
            Verdict::Invalid,
            Code::Exhausted,
            [("exhausted", exhausted as f64)],
            format!(
                "{exhausted} connections could not be made: this machine had no file descriptor or local port left for them"
            ),
            "ask for fewer connections with -c, or raise this machine's limits",
        ));
    }
    let lost = &outcome.connections.lost;
    let broken: u64 = [FailureKind::Protocol, FailureKind::Limit]
        .iter()
        .filter_map(|kind| lost.get(kind.name()))
        .sum();
    // Where it cost a request, that has failed and says so.
    if broken > 0 && outcome.requests.failed == 0 {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::BrokenConnections,
            [("broken", broken as f64)],
            format!(
                "{broken} connections were given up as the server sent what belongs to no response, or more than our limits"
            ),
            "",
        ));
    }
    reasons
}
