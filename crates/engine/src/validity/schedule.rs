//! Open model: whether requests left as they were due.

use std::fmt;

use super::connections::{shortage, streams_per_connection};
use super::{Circumstances, Code, Reason, Verdict};
use crate::outcome::{Distribution, Outcome};

/// The rate that was asked for was not reached.
pub(super) fn missed(outcome: &Outcome, around: &Circumstances<'_>) -> Option<Reason> {
    let (asked, plan) = (around.rate_asked?, &outcome.plan);
    let late = high(outcome.latency.late.as_ref());
    let queued = high(outcome.latency.queued.as_ref());
    let (reached, unit) = match &outcome.scenario {
        None => (outcome.rate.requests_per_s, "requests"),
        Some(scenario) => (scenario.iterations_per_s, "iterations"),
    };
    // Random arrivals are fewer than on average as often as more: three deviations of their number.
    let spread = match plan.arrivals {
        Some("poisson") => 3.0 * (asked / outcome.rate.window_s.max(1e-9)).sqrt(),
        _ => 0.0,
    };
    // A search asks for rates with many digits.
    let rounded = (asked * 10.0).round() / 10.0;
    // Where their number ends the run, its time has the last of the responses in it.
    let on_time = |high: Option<High>| high.is_some_and(|high| high.seconds <= 0.001);
    let is_tail = plan.requests.is_some() && on_time(late) && on_time(queued);
    if reached >= 0.99 * asked - spread || is_tail {
        return None;
    }
    let numbers = |wait: &'static str, high: High| {
        [
            ("reached_per_s", reached),
            ("asked_per_s", asked),
            (wait, high.seconds * 1e3),
        ]
    };
    // An invalid verdict is for what we did: a server that cannot follow is a result.
    if late.is_none_or(|late| late.seconds > 0.001) {
        let late = late.unwrap_or_default();
        return Some(Reason::new(
            Verdict::Invalid,
            Code::Late,
            numbers("late_ms", late),
            format!(
                "{reached:.1} {unit}/s of the {rounded} asked were reached, and requests left late ({late})"
            ),
            "use more threads with -t, more machines with --cluster, or a lower rate",
        ));
    }
    let queued = queued.unwrap_or_default();
    let (cause, advice) = match shortage(outcome, around) {
        Some(allowed) => (
            format!(": the server allows {}", streams_per_connection(allowed)),
            "use more connections with -c",
        ),
        None => (
            String::new(),
            "use more connections or streams (-c, -m): if that changes nothing, it is the server's limit",
        ),
    };
    let grew = outcome.backlog.filter(|backlog| backlog.at_most > 0);
    let grew = grew.map(|backlog| (backlog.since_s.unwrap_or_default(), backlog.at_most));
    let since = grew.map_or_else(String::new, |(since_s, at_most)| {
        format!(", and since {since_s:.1} s the queue grew to {at_most}")
    });
    let mut reason = Reason::new(
        Verdict::Suspect,
        Code::Queued,
        numbers("queued_ms", queued),
        format!(
            "{reached:.1} {unit}/s of the {rounded} asked were reached, as no stream was free ({queued} queued{since}){cause}"
        ),
        advice,
    );
    if let Some((since_s, at_most)) = grew {
        let more = [("since_s", since_s), ("backlog", at_most as f64)];
        reason.numbers.extend(more);
    }
    Some(reason)
}

/// Requests that were still due at the end.
pub(super) fn unsent(around: &Circumstances<'_>) -> Option<Reason> {
    let unsent = around.unsent;
    (around.rate_asked.is_some() && unsent > 0).then(|| {
        Reason::new(
            Verdict::Suspect,
            Code::Unsent,
            [("unsent", unsent as f64)],
            format!("{unsent} requests were due and had no free stream when the run ended"),
            "use more connections or streams (-c, -m), or a lower rate",
        )
    })
}

/// The p99 of a distribution, or its maximum where there are too few for a p99.
#[derive(Clone, Copy, Default)]
struct High {
    seconds: f64,
    is_p99: bool,
}

impl fmt::Display for High {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = if self.is_p99 { "p99" } else { "at most" };
        write!(f, "{label} {:.1} ms", self.seconds * 1e3)
    }
}

fn high(distribution: Option<&Distribution>) -> Option<High> {
    let summary = &distribution?.summary;
    Some(High {
        seconds: summary.p99.or(summary.max)?,
        is_p99: summary.p99.is_some(),
    })
}
