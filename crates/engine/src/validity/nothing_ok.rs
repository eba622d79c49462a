//! Why no request of a run was answered as expected.

use crate::outcome::Outcome;

/// In a sentence; `reads` when messages or events of a response would be a result as well.
pub(super) fn why(outcome: &Outcome, reads: bool) -> String {
    let (plan, requests) = (&outcome.plan, &outcome.requests);
    let none_ended = requests.failed == 0 && requests.abandoned > 0;
    let Some(lasted) = plan.duration_s.filter(|_| none_ended) else {
        return format!("no request was answered as expected{}", hint(outcome));
    };
    // A request that takes longer than its timeout ends by that.
    let longer = (20.0 * lasted).min(2.0 * lasted.max(plan.timeout_s));
    let longer = longer.round().max(1.0);
    if reads {
        return format!(
            "no message arrived within {lasted} s: use -d {longer}s, or --warmup 0s: the warm-up is not counted"
        );
    }
    format!("no response ended within {lasted} s: use -d {longer}s")
}

/// What may be the matter where no request was answered as expected.
pub(crate) fn hint(outcome: &Outcome) -> &'static str {
    let mut kinds = outcome.requests.failures.keys();
    let only_ended = outcome.status.is_empty()
        && outcome.requests.failed > 0
        && kinds.all(|kind| ["closed", "reset", "goaway"].contains(kind))
        // A server that ended TLS said why.
        && !outcome.connections.lost.contains_key("tls");
    match outcome.plan.asked.proxy_protocol {
        None if only_ended => {
            ": every connection ended without a response, as those do of a server that expects the PROXY protocol (type --proxy-protocol v2 for such a one)"
        }
        Some(_) => {
            ": does the server expect the PROXY protocol? Leave --proxy-protocol out where it does not"
        }
        None => "",
    }
}
