//! What became of the requests.

use super::{Circumstances, Code, Reason, Verdict, nothing_ok};
use crate::outcome::Outcome;
use crate::windows::outages;

/// Whether requests ended as expected, and none was lost on the way.
pub(super) fn kept(outcome: &Outcome) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let requests = &outcome.requests;
    let ended = requests.ok + requests.failed;
    // Responses without an end are read for their events or messages.
    let events = outcome.events.as_ref().map(|events| events.received);
    let messages = outcome.grpc.as_ref().and_then(|grpc| {
        let way = match grpc.kind {
            "unary" => return None,
            "client_streaming" => "sent",
            _ => "received",
        };
        grpc.messages[way].as_u64()
    });
    let only_reads = requests.failed == 0 && events.or(messages).is_some_and(|came| came > 0);
    if requests.ok == 0 && !only_reads {
        let reads = events.or(messages).is_some();
        reasons.push(nothing_ok::reason(outcome, reads));
    } else if requests.failed as f64 > 0.001 * ended as f64 {
        let share = 100.0 * requests.failed as f64 / ended as f64;
        reasons.push(Reason::new(
            Verdict::Invalid,
            Code::Failed,
            [("failed_percent", share)],
            format!("{share:.2} % of the requests failed (more than 0.1 %)"),
            nothing_ok::advice(outcome),
        ));
    }
    if requests.started != ended + requests.abandoned {
        reasons.push(Reason::new(
            Verdict::Invalid,
            Code::Accounts,
            [
                ("started", requests.started as f64),
                ("ended", ended as f64),
            ],
            format!(
                "{} requests were started and {ended} have ended: the books are wrong, which is a fault of Trilane's",
                requests.started
            ),
            "report it, please, with the command line",
        ));
    }
    // Attempts on a dead server are few beside the responses of a live one: shares do not show it.
    let dead = outages(&outcome.windows);
    if dead > 0 && requests.ok > 0 {
        reasons.push(Reason::new(
            Verdict::Invalid,
            Code::Outage,
            [("outage_s", dead as f64)],
            format!(
                "in {dead} of {:.0} seconds every request failed",
                outcome.rate.window_s.max(1.0)
            ),
            nothing_ok::advice(outcome),
        ));
    }
    reasons
}

/// What ended the run, or a part of it, before its time.
pub(super) fn ended_early(outcome: &Outcome, around: &Circumstances<'_>) -> Vec<Reason> {
    let given_up = around.cut_short.map(|reason| {
        Reason::new(
            Verdict::Invalid,
            Code::GivenUp,
            [],
            format!("the run was given up: {reason}"),
            "",
        )
    });
    let lost = outcome.workers.iter().flatten().filter_map(|worker| {
        let text = worker.lost_in_words()?;
        let left = [("threads", worker.threads as f64)];
        let advice = "repeat it without that machine, or when it is back";
        Some(Reason::new(
            Verdict::Invalid,
            Code::WorkerLost,
            left,
            text,
            advice,
        ))
    });
    let interrupted = outcome.interrupted.then(|| {
        Reason::new(
            Verdict::Suspect,
            Code::Interrupted,
            [],
            "the run was interrupted",
            "let it run to its end",
        )
    });
    given_up
        .into_iter()
        .chain(lost)
        .chain(interrupted)
        .collect()
}

/// Responses that may not be what was to be measured.
pub(super) fn not_what_was_meant(outcome: &Outcome, around: &Circumstances<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let requests = &outcome.requests;
    let early = requests.early_responses.count;
    let ended = requests.ok + requests.failed;
    if early as f64 > 0.001 * ended as f64 {
        let share = 100.0 * early as f64 / ended as f64;
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::EarlyResponses,
            [("early_percent", share)],
            format!(
                "{share:.2} % of the responses came before the request's content had been sent (more than 0.1 %): uploads that are cut do not compare with whole ones"
            ),
            "find out why the server does not read them",
        ));
    }
    if let Some(status) = only_redirects(outcome).filter(|_| around.takes_pages) {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::Redirects,
            [("status", f64::from(status))],
            format!("every response was a redirect ({status}), which is not followed"),
            format!(
                "type the URL that it leads to, or --expect-status {status} if that is what you measure"
            ),
        ));
    }
    reasons
}

/// The status of most responses where each was a redirect (RFC 9110 §15.4).
fn only_redirects(outcome: &Outcome) -> Option<u16> {
    let is_redirect = |status: &u16| matches!(status, 301..=303 | 307 | 308);
    let mut most = None;
    for (status, count) in &outcome.status {
        let status = status.parse().ok().filter(is_redirect)?;
        most = most.max(Some((*count, status)));
    }
    most.map(|(_, status)| status)
}
