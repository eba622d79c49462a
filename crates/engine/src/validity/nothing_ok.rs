//! Why requests of a run failed, or did not end.

use super::{Code, Reason, Verdict};
use crate::outcome::Outcome;
use crate::plan::accepted;

/// Of a run none of whose requests was answered as expected; `reads` when messages or events of a response would be a
/// result as well.
pub(super) fn reason(outcome: &Outcome, reads: bool) -> Reason {
    let (plan, requests) = (&outcome.plan, &outcome.requests);
    let invalid = |text: String, advice: String| {
        Reason::new(Verdict::Invalid, Code::NothingOk, [], text, advice)
    };
    let none_ended = requests.failed == 0 && requests.abandoned > 0;
    let Some(lasted) = plan.duration_s.filter(|_| none_ended) else {
        return invalid(
            format!("no request was answered as expected{}", hint(outcome)),
            advice(outcome),
        );
    };
    // A request that takes longer than its timeout ends by that.
    let longer = (20.0 * lasted).min(2.0 * lasted.max(plan.timeout_s));
    let longer = longer.round().max(1.0);
    if reads {
        return invalid(
            format!("no message arrived within {lasted} s"),
            format!("use -d {longer}s, or --warmup 0s: the warm-up is not counted"),
        );
    }
    invalid(
        format!("no response ended within {lasted} s"),
        format!("use -d {longer}s"),
    )
}

/// What to do about most of the requests that failed.
pub(crate) fn advice(outcome: &Outcome) -> String {
    let kinds = outcome.requests.failures.iter();
    let most = kinds.max_by_key(|(_, entry)| entry["count"].as_u64());
    match most.map(|(kind, _)| *kind) {
        Some("dns") => "check the name of the host",
        Some("connect" | "handshake_timeout") => "check that the server can be reached from here",
        Some("refused") => "check that the server runs, and listens on that port",
        Some("tls") => "check the server's certificate (--cacert FILE, or -k) and its versions",
        Some("timeout") => "ask for fewer connections with -c, or allow more time with --timeout",
        Some("closed" | "reset" | "goaway") => {
            "look into the server's log, or ask for fewer connections with -c"
        }
        Some("status") => of_status(outcome),
        _ => "",
    }
    .to_owned()
}

/// What to do about the status of most responses that should have had another.
fn of_status(outcome: &Outcome) -> &'static str {
    let expected = accepted(&[], &outcome.plan.asked.expect_status);
    let counted = outcome.status.iter();
    let codes = counted.filter_map(|(code, count)| Some((code.parse::<u16>().ok()?, count)));
    let unexpected = codes.filter(|(code, _)| {
        !expected
            .iter()
            .any(|(low, high)| (low..=high).contains(&code))
    });
    match unexpected.max_by_key(|(_, count)| *count) {
        Some((401, _)) => "send what the server knows you by, such as -H 'authorization: …'",
        Some((421, _)) => {
            "ask for a host that the server has: trilane serve takes others with --allow-host NAME"
        }
        Some((429, _)) => "ask for less, with a lower -R, -c or -m",
        _ => "check the URL, or name the status with --expect-status if that is what you measure",
    }
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
