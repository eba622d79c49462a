//! The answer of a run or a search: what came of it in a sentence, why, how far it may be believed, and the numbers
//! that matter. The terminal, JSON and the page are views of it.

use serde::Serialize;
use trilane_engine::{Checked, Code, Gate, Outcome, Reason, Summary, Verdict};

use crate::report::{brief_rate, brief_time, printable, thousands};

/// Words of a headline at most.
const MOST_WORDS: usize = 20;
/// Words of an example of a failure at most: of a longer one the kind is named.
const EXAMPLE_WORDS: usize = 8;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    /// In a sentence of 20 words at most.
    pub(crate) headline: String,
    /// Up to three sentences of why, as far as the numbers carry them.
    pub(crate) because: Vec<String>,
    /// How far it may be believed.
    pub(crate) confidence: Confidence,
    /// The numbers that matter.
    pub(crate) figures: Vec<Figure>,
    /// What else was asked: each threshold, and what the run came to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) details: Vec<String>,
    /// The headline for a terminal, which has thresholds beside it.
    #[serde(skip)]
    pub(crate) line: String,
    /// What stands before that: ✓, ! or ✗.
    #[serde(skip)]
    pub(crate) sign: char,
    /// The thresholds.
    #[serde(skip)]
    pub(crate) thresholds: Vec<Checked>,
}

/// How far an answer may be believed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Confidence {
    /// The worst of the doubts.
    pub(crate) verdict: Verdict,
    /// Each once, the worst first.
    pub(crate) doubts: Vec<Doubt>,
}

/// Something that speaks against an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Doubt {
    /// What it is, for programs.
    pub(crate) code: Code,
    /// How much it weighs.
    pub(crate) verdict: Verdict,
    /// What it is.
    pub(crate) text: String,
    /// What to do about it; empty where nothing helps.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) advice: String,
}

/// A number of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// What it is, for people.
    pub(crate) label: &'static str,
    /// And for programs.
    pub(crate) measure: &'static str,
    pub(crate) value: f64,
    /// The lower end of its interval.
    pub(crate) low: Option<f64>,
    /// The upper end.
    pub(crate) high: Option<f64>,
    pub(crate) unit: &'static str,
}

impl Figure {
    /// A number without an interval.
    pub(crate) fn new(
        label: &'static str,
        measure: &'static str,
        value: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            label,
            measure,
            value,
            low: None,
            high: None,
            unit,
        }
    }

    /// A number with its interval: label, measure and unit before them.
    pub(crate) fn ranged(
        (label, measure, unit): (&'static str, &'static str, &'static str),
        value: f64,
        low: Option<f64>,
        high: Option<f64>,
    ) -> Self {
        Self {
            low,
            high,
            ..Self::new(label, measure, value, unit)
        }
    }
}

/// A result with its answer, as JSON.
#[derive(Serialize)]
pub(crate) struct Answered<'a, T> {
    #[serde(flatten)]
    pub(crate) result: &'a T,
    pub(crate) answer: &'a Answer,
}

impl Answer {
    /// The answer of a run with these thresholds.
    pub(crate) fn of_run(outcome: &Outcome, thresholds: &[Gate]) -> Self {
        let mut thresholds: Vec<_> = thresholds.iter().map(|gate| gate.check(outcome)).collect();
        thresholds.sort_by_key(|checked| checked.holds);
        let verdict = outcome.validity.verdict;
        let limit = Limit::of(outcome);
        let found = match verdict {
            Verdict::Invalid => format!("No result: {}", why_invalid(outcome)),
            _ => result(outcome),
        };
        let headline = match breached(&thresholds) {
            Some(breached) if verdict == Verdict::Invalid => {
                format!("{breached}; the run is invalid")
            }
            Some(breached) => breached,
            None => format!("{found}{}", limit.map_or("", Limit::sentence)),
        };
        let word = match verdict {
            Verdict::Valid => "; valid",
            Verdict::Suspect => "; suspect",
            Verdict::Invalid => "",
        };
        Self {
            headline,
            line: format!("{found}{}{word}", limit.map_or("", Limit::word)),
            sign: sign(verdict),
            because: because(outcome, limit),
            confidence: Confidence {
                verdict,
                doubts: doubts(&outcome.validity.reasons),
            },
            figures: figures(outcome),
            details: thresholds
                .iter()
                .map(|checked| {
                    let ended = if checked.holds { "passed" } else { "breached" };
                    format!("{}: {ended}", threshold(checked))
                })
                .collect(),
            thresholds,
        }
    }
}

/// What stands before an answer on a terminal.
pub(crate) fn sign(verdict: Verdict) -> char {
    match verdict {
        Verdict::Valid => '✓',
        Verdict::Suspect => '!',
        Verdict::Invalid => '✗',
    }
}

/// Which end was the limit of a closed model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Server,
    Client,
}

impl Limit {
    /// The one that is known.
    fn of(outcome: &Outcome) -> Option<Self> {
        if outcome.plan.rate_per_s.is_some() || outcome.validity.verdict == Verdict::Invalid {
            return None;
        }
        match outcome.validity.bound {
            "client" => Some(Self::Client),
            "server" => Some(Self::Server),
            _ => None,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Server => "; the server was the limit",
            Self::Client => "; this client was the limit",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Server => "; server-bound",
            Self::Client => "; client-bound",
        }
    }
}

/// A threshold and what the run came to, such as `p99 12.4 ms, allowed ≤ 10 ms`.
pub(crate) fn threshold(checked: &Checked) -> String {
    let value = checked.value.as_deref().unwrap_or("not known");
    format!("{} {value}, allowed {}", checked.measure, checked.allowed)
}

/// The first threshold that was breached, and how many others were.
fn breached(thresholds: &[Checked]) -> Option<String> {
    let breached = thresholds.iter().filter(|checked| !checked.holds);
    let others = match breached.clone().count() {
        0 | 1 => String::new(),
        count => format!("; {} more", count - 1),
    };
    let first = breached.map(threshold).next()?;
    Some(format!("Threshold breached: {first}{others}"))
}

/// Rate, latency and failures in the words of what was requested.
fn result(outcome: &Outcome) -> String {
    let requests = &outcome.requests;
    let mut parts = rates(outcome);
    parts.extend(latencies(outcome));
    parts.push(format!("{} failed", thousands(requests.failed)));
    if requests.shed > 0 {
        parts.push(format!("{} shed", thousands(requests.shed)));
    }
    let interrupted = if outcome.interrupted {
        "Interrupted: "
    } else {
        ""
    };
    format!("{interrupted}{}", parts.join(", "))
}

/// What was done in a second, of the open model beside what was asked for.
fn rates(outcome: &Outcome) -> Vec<String> {
    let per_s = outcome.rate.requests_per_s;
    let (reached, unit) = match (&outcome.scenario, &outcome.grpc, &outcome.websocket) {
        (Some(scenario), ..) => (scenario.iterations_per_s, "iterations/s"),
        (_, Some(_), _) => (per_s, "calls/s"),
        (.., Some(_)) => (per_s, "sessions/s"),
        _ => (per_s, "requests/s"),
    };
    let asked = outcome.plan.rate_per_s;
    let asked = asked.map_or_else(String::new, |asked| format!(" of {}", brief_rate(asked)));
    let mut parts = vec![format!("{}{asked} {unit}", brief_rate(reached))];
    if outcome.scenario.is_some() {
        parts.push(format!("{} requests/s", brief_rate(per_s)));
    } else if let Some(events) = &outcome.events {
        parts.push(format!("{} events/s", brief_rate(events.events_per_s)));
    } else if let Some(socket) = &outcome.websocket {
        parts.push(format!("{} messages/s", brief_rate(socket.received_per_s)));
    } else if let Some(grpc) = outcome.grpc.as_ref().filter(|grpc| grpc.kind != "unary") {
        let way = match grpc.kind {
            "client_streaming" => "sent",
            _ => "received",
        };
        let messages = grpc.messages_per_s[way].as_f64().unwrap_or_default();
        parts.push(format!("{} messages/s", brief_rate(messages)));
    }
    parts
}

/// The median and the 99th percentile, or the largest, of what users wait for.
fn latencies(outcome: &Outcome) -> Vec<String> {
    let (name, summary) = waited(outcome);
    let high = summary.p99.map(|p99| ("p99", p99));
    let high = high.or(summary.max.map(|max| ("max", max)));
    let low = summary.p50.map(|p50| ("p50", p50));
    let both = low.into_iter().chain(high).enumerate();
    both.map(|(at, (quantile, value))| {
        let name = if at == 0 { name } else { "" };
        format!("{name}{quantile} {}", brief_time(value))
    })
    .collect()
}

/// The latency that counts, and what stands before its quantiles.
fn waited(outcome: &Outcome) -> (&'static str, &Summary) {
    let messages = outcome.websocket.as_ref();
    let messages = messages.and_then(|socket| socket.round_trip.as_ref());
    let of_calls = outcome.grpc.as_ref();
    let of_calls = of_calls.and_then(|grpc| grpc.message_latency.as_ref());
    if let Some(distribution) = messages.or(of_calls) {
        return ("message ", &distribution.summary);
    }
    if let Some(events) = &outcome.events {
        return ("first event ", &events.first.summary);
    }
    let latency = &outcome.latency;
    let whole = latency.response.as_ref().unwrap_or(&latency.service);
    ("", &whole.summary)
}

/// Why there is no result, without the details of the reason.
fn why_invalid(outcome: &Outcome) -> String {
    let Some(reason) = outcome.validity.reasons.first() else {
        return "the run is invalid".to_owned();
    };
    let requests = &outcome.requests;
    if reason.code == Code::NothingOk && requests.failed > 0 {
        let kinds = requests.failures.iter();
        let most = kinds.max_by_key(|(_, entry)| entry["count"].as_u64());
        let how = most.map_or_else(String::new, |(kind, entry)| {
            let example = entry["example"].as_str().unwrap_or_default();
            let is_short = (1..=EXAMPLE_WORDS).contains(&example.split_whitespace().count());
            let example = if is_short { example } else { kind };
            format!(" ({})", printable(example))
        });
        return format!("every request failed{how}");
    }
    let end = [": ", " ("].iter().filter_map(|end| reason.text.find(end));
    let text = &reason.text[..end.min().unwrap_or(reason.text.len())];
    let words: Vec<_> = text.split_whitespace().collect();
    match words.get(..MOST_WORDS - 2) {
        Some(first) if words.len() > MOST_WORDS - 2 => format!("{}…", first.join(" ")),
        _ => text.to_owned(),
    }
}

/// What the numbers say of why.
fn because(outcome: &Outcome, limit: Option<Limit>) -> Vec<String> {
    let (cost, latency) = (&outcome.cost, &outcome.latency);
    if outcome.validity.verdict == Verdict::Invalid {
        return Vec::new();
    }
    let mut because = Vec::new();
    let busiest = cost.busy.iter().copied().fold(0.0, f64::max);
    let busy = format!("{:.0} % busy", busiest * 100.0);
    match limit {
        Some(Limit::Server) => because.push(format!(
            "The server's CPU was the limit: it left no processor of this machine idle, and this client was {busy}."
        )),
        Some(Limit::Client) => {
            because.push(format!("This client was the limit: a worker was {busy}."));
        }
        None if outcome.plan.rate_per_s.is_none() && !is_disturbed(outcome) => {
            because.push(format!(
                "This client was not the limit ({busy}): the server, the network or the {} in flight were.",
                thousands(outcome.connections.in_flight_at_most)
            ));
        }
        None => (),
    }
    let of_client = cost.cpu_us_per_request;
    if let (Some(server), Some(client)) = (cost.server_cpu_us_per_request, of_client) {
        because.push(format!(
            "A request cost the server {server:.2} µs of CPU, and this client {client:.2} µs."
        ));
    } else if let (Some(Limit::Client), Some(client)) = (limit, of_client) {
        because.push(format!("A request cost it {client:.2} µs of CPU."));
    }
    let p99 = |all: &Option<trilane_engine::Distribution>| all.as_ref()?.summary.p99;
    if let (Some(queued), Some(service)) = (p99(&latency.queued), latency.service.summary.p99)
        && outcome.plan.rate_per_s.is_some()
        && queued > service
    {
        because.push(format!(
            "Requests waited up to {} (p99) for a free connection or stream; the server then answered within {}.",
            brief_time(queued),
            brief_time(service)
        ));
    }
    because
}

/// Whether the machine may be why, and not what was measured.
fn is_disturbed(outcome: &Outcome) -> bool {
    let mut reasons = outcome.validity.reasons.iter();
    reasons.any(|reason| {
        matches!(
            reason.code,
            Code::WorkerBusy | Code::StoodStill | Code::Steal | Code::OthersBusy
        )
    })
}

/// Equal reasons once, in their order.
fn doubts<'a>(reasons: impl IntoIterator<Item = &'a Reason>) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    for reason in reasons {
        let doubt = Doubt {
            code: reason.code,
            verdict: reason.verdict,
            text: reason.text.clone(),
            advice: reason.advice.clone(),
        };
        if !doubts.contains(&doubt) {
            doubts.push(doubt);
        }
    }
    doubts
}

/// The numbers that matter, as far as they are known.
fn figures(outcome: &Outcome) -> Vec<Figure> {
    let (_, waited) = waited(outcome);
    let cost = &outcome.cost;
    let rate = outcome.rate.requests_per_s;
    let cpu = match cost.server_cpu_us_per_request {
        Some(us) => Some(("server CPU per request", "server_cpu_us_per_request", us)),
        None => cost
            .cpu_us_per_request
            .map(|us| ("client CPU per request", "client_cpu_us_per_request", us)),
    };
    let high = waited.p99.map(|p99| ("p99 latency", "p99", p99));
    let high = high.or(waited.max.map(|max| ("longest latency", "max", max)));
    let requests = &outcome.requests;
    let figures = [
        Some(Figure::new("requests/s", "requests_per_s", rate, "1/s")),
        waited
            .p50
            .map(|p50| Figure::new("p50 latency", "p50", p50, "s")),
        high.map(|(label, name, value)| Figure::new(label, name, value, "s")),
        Some(Figure::new("failed", "failed", requests.failed as f64, "1")),
        Some(match cpu {
            Some((label, measure, us)) => Figure::new(label, measure, us, "us"),
            None => Figure::new("started", "started", requests.started as f64, "1"),
        }),
    ];
    figures.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
