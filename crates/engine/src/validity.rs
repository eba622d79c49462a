//! Whether a run may be believed.

pub(crate) mod nothing_ok;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::concurrency::Concurrency;
use crate::failure::FailureKind;
use crate::outcome::{Distribution, Outcome};
use crate::windows::{cold_start, outages, trend, usually_open};

/// How far a run may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing speaks against it.
    Valid,
    /// Believe it with care.
    Suspect,
    /// Do not believe it: it is shown, never ranked.
    Invalid,
}

/// What may speak against a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// No request was answered as expected.
    NothingOk,
    /// More than one in a thousand requests failed.
    Failed,
    /// Requests that were started and those that ended are not as many.
    Accounts,
    /// For whole seconds every request failed.
    Outage,
    /// The run was given up before its end.
    GivenUp,
    /// A machine of the run was lost, or could not do its share.
    WorkerLost,
    /// The user ended it early.
    Interrupted,
    /// The server allows fewer streams than were asked for.
    StreamsAllowed,
    /// Open model: the client sent less than was asked for, and late.
    Late,
    /// Open model: less than was asked for could be sent, as no stream was free.
    Queued,
    /// Open model: requests were due and not sent when the run ended.
    Unsent,
    /// A worker had little processor time left, or none.
    WorkerBusy,
    /// A worker stood still for a while: requests waited for it, and not for the server.
    StoodStill,
    /// Other programs of the machine took processor time.
    OthersBusy,
    /// Datagrams were lost in our own buffers.
    DatagramsDropped,
    /// Other machines of the host took processor time.
    Steal,
    /// Responses came before the content of their requests had left.
    EarlyResponses,
    /// Fewer connections were open than were asked for.
    FewConnections,
    /// Every response was a redirect.
    Redirects,
    /// Our machine had no file descriptor or local port left.
    Exhausted,
    /// The server sent what belongs to no response, or more than our limits.
    BrokenConnections,
    /// The run began slower than it went on.
    ColdStart,
    /// The rate rose or fell over the run.
    Drift,
    /// Too few responses for a 99th percentile.
    FewForP99,
}

/// One thing that speaks against a run.
#[derive(Clone, Debug, Serialize)]
pub struct Reason {
    /// What it is, for programs.
    pub code: Code,
    /// How much it weighs.
    pub verdict: Verdict,
    /// The numbers in `text`, by name; each name says its unit.
    pub numbers: BTreeMap<&'static str, f64>,
    /// One sentence for people.
    pub text: String,
}

impl Reason {
    fn new<const N: usize>(
        verdict: Verdict,
        code: Code,
        numbers: [(&'static str, f64); N],
        text: impl Into<String>,
    ) -> Self {
        Self {
            code,
            verdict,
            numbers: numbers.into(),
            text: text.into(),
        }
    }
}

/// The verdict on a run with its reasons.
#[derive(Clone, Debug, Serialize)]
pub struct Validity {
    /// The worst of the reasons.
    pub verdict: Verdict,
    /// The worst first.
    pub reasons: Vec<Reason>,
    /// `client` where a worker had no processor time left, else `server_or_network`.
    pub bound: &'static str,
}

/// What the verdict needs beside the outcome itself.
pub(crate) struct Circumstances<'a> {
    pub(crate) rate_asked: Option<f64>,
    pub(crate) concurrency: Concurrency,
    pub(crate) unsent: u64,
    pub(crate) steal: f64,
    pub(crate) others: Option<f64>,
    pub(crate) udp_drops: u64,
    pub(crate) cut_short: Option<&'a str>,
    /// Whether each request takes 200 for an answer: one that does not asks for another status.
    pub(crate) takes_pages: bool,
}

/// A worker above this share of a processor was the bottleneck.
const SATURATED: f64 = 0.95;

/// A worker that stood still for as long, in seconds, may have made requests wait.
const STOOD_STILL: f64 = 0.05;

/// Other programs that took a larger share of all processors slow down client or server.
const OTHERS_BUSY: f64 = 0.05;

pub(crate) fn judge(outcome: &Outcome, around: &Circumstances<'_>) -> Validity {
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
        reasons.push(Reason::new(
            Verdict::Invalid,
            Code::NothingOk,
            [],
            nothing_ok::why(outcome, events.or(messages).is_some()),
        ));
    } else if requests.failed as f64 > 0.001 * ended as f64 {
        let share = 100.0 * requests.failed as f64 / ended as f64;
        reasons.push(Reason::new(
            Verdict::Invalid,
            Code::Failed,
            [("failed_percent", share)],
            format!("{share:.2} % of the requests failed (more than 0.1 %)"),
        ));
    }
    if requests.started != ended + requests.abandoned {
        reasons.push(Reason::new(Verdict::Invalid, Code::Accounts, [("started", requests.started as f64), ("ended", ended as f64)],
            format!(
                "{} requests were started and {ended} have ended: the books are wrong, which is a fault of Trilane's",
                requests.started
            ),
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
        ));
    }
    if let Some(reason) = around.cut_short {
        reasons.push(Reason::new(
            Verdict::Invalid,
            Code::GivenUp,
            [],
            format!("the run was given up: {reason}"),
        ));
    }
    let lost = outcome.workers.iter().flatten();
    reasons.extend(lost.filter_map(|worker| {
        let text = worker.lost_in_words()?;
        let left = [("threads", worker.threads as f64)];
        Some(Reason::new(Verdict::Invalid, Code::WorkerLost, left, text))
    }));
    if outcome.interrupted {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::Interrupted,
            [],
            "the run was interrupted".to_owned(),
        ));
    }

    // In the open model the streams asked for are a bound, of which a run may need less.
    let plan = &outcome.plan;
    let in_stages = plan.stages_in_flight.iter().map(|stage| stage.in_flight);
    let wanted = in_stages
        .max()
        .unwrap_or((plan.connections * plan.streams) as u64);
    let wanted = plan
        .requests
        .map_or(wanted, |requests| requests.min(wanted));
    let shortage = around.concurrency.shortage(wanted);
    if let Some(allowed) = shortage.filter(|_| around.rate_asked.is_none()) {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::StreamsAllowed,
            [
                ("at_most", around.concurrency.at_most as f64),
                ("allowed", allowed as f64),
                ("asked", plan.streams as f64),
            ],
            format!(
                "at most {} in flight: the server allows {}, {} were asked for",
                around.concurrency.at_most,
                streams_per_connection(allowed),
                plan.streams
            ),
        ));
    }

    if let Some(asked) = around.rate_asked {
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
        let told = (asked * 10.0).round() / 10.0;
        // Where their number ends the run, its time has the last of the responses in it.
        let on_time = |high: Option<High>| high.is_some_and(|high| high.seconds <= 0.001);
        let is_tail = plan.requests.is_some() && on_time(late) && on_time(queued);
        let is_short = reached < 0.99 * asked - spread && !is_tail;
        // An invalid verdict is for what we did: a server that cannot follow is a result.
        if is_short && late.is_none_or(|late| late.seconds > 0.001) {
            let late = late.unwrap_or_default();
            reasons.push(Reason::new(
                Verdict::Invalid,
                Code::Late,
                [
                    ("reached_per_s", reached),
                    ("asked_per_s", asked),
                    ("late_ms", late.seconds * 1e3),
                ],
                format!(
                    "{reached:.1} {unit}/s of the {told} asked were reached, and requests left late ({late})"
                ),
            ));
        } else if is_short {
            let queued = queued.unwrap_or_default();
            let cause = match shortage {
                Some(allowed) => format!("the server allows {}", streams_per_connection(allowed)),
                None => "more connections or streams are needed, or this is the server's limit"
                    .to_owned(),
            };
            let grew = outcome.backlog.filter(|backlog| backlog.at_most > 0);
            let since = grew.map_or_else(String::new, |backlog| {
                format!(
                    ", and since {:.1} s the queue grew to {}",
                    backlog.since_s.unwrap_or_default(),
                    backlog.at_most
                )
            });
            let mut reason = Reason::new(
                Verdict::Suspect,
                Code::Queued,
                [
                    ("reached_per_s", reached),
                    ("asked_per_s", asked),
                    ("queued_ms", queued.seconds * 1e3),
                ],
                format!(
                    "{reached:.1} {unit}/s of the {told} asked were reached, as no stream was free ({queued} queued{since}): {cause}"
                ),
            );
            if let Some(backlog) = grew {
                let since_s = backlog.since_s.unwrap_or_default();
                let told = [("since_s", since_s), ("backlog", backlog.at_most as f64)];
                reason.numbers.extend(told);
            }
            reasons.push(reason);
        }
        if around.unsent > 0 {
            reasons.push(Reason::new(
                Verdict::Suspect,
                Code::Unsent,
                [("unsent", around.unsent as f64)],
                format!(
                    "{} requests were due and had no free stream when the run ended",
                    around.unsent
                ),
            ));
        }
    }

    // The kernel's accounting is too coarse for less.
    let long_enough = outcome.rate.window_s >= 0.2;
    let busiest = outcome
        .cost
        .busy
        .iter()
        .copied()
        .filter(|_| long_enough)
        .fold(0.0, f64::max);
    let bound = if busiest > SATURATED {
        "client"
    } else {
        "server_or_network"
    };
    if busiest > 0.8 {
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
        ));
    }
    if around.steal > 0.02 {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::Steal,
            [("steal_percent", around.steal * 100.0)],
            format!(
                "other machines of the host took {:.1} % of the processor time",
                around.steal * 100.0
            ),
        ));
    }
    if let Some(share) = around.others.filter(|&share| share > OTHERS_BUSY) {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::OthersBusy,
            [("busy_percent", share * 100.0)],
            format!(
                "other programs took {:.0} % of this machine's CPU (name those of the server by --server-pid)",
                share * 100.0
            ),
        ));
    }
    let early = requests.early_responses.count;
    if early as f64 > 0.001 * ended as f64 {
        let share = 100.0 * early as f64 / ended as f64;
        reasons.push(Reason::new(Verdict::Suspect, Code::EarlyResponses, [("early_percent", share)],
            format!(
                "{share:.2} % of the responses came before the request's content had been sent (more than 0.1 %): uploads that are cut do not compare with whole ones"
            ),
        ));
    }
    let origins = outcome.origins.as_ref().map_or(1, Vec::len);
    let asked = outcome.plan.connections * origins;
    let open = outcome.usually_open();
    if open < asked as u64 {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::FewConnections,
            [("open", open as f64), ("asked", asked as f64)],
            format!("no more than {open} of the {asked} connections asked for were open"),
        ));
    }
    if let Some(status) = only_redirects(outcome).filter(|_| around.takes_pages) {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::Redirects,
            [("status", f64::from(status))],
            format!(
                "every response was a redirect ({status}), which is not followed: type the URL that it leads to, or --expect-status {status} if that is what you measure"
            ),
        ));
    }
    let exhausted = outcome.connections.exhausted;
    if exhausted > 0 {
        reasons.push(Reason::new(Verdict::Invalid, Code::Exhausted, [("exhausted", exhausted as f64)],
            format!(
                "{exhausted} connections could not be made: this machine had no file descriptor or local port left for them"
            ),
        ));
    }
    let lost = &outcome.connections.lost;
    let broken: u64 = [FailureKind::Protocol, FailureKind::Limit]
        .iter()
        .filter_map(|kind| lost.get(kind.name()))
        .sum();
    // Where it cost a request, that has failed and says so.
    if broken > 0 && requests.failed == 0 {
        reasons.push(Reason::new(Verdict::Suspect, Code::BrokenConnections, [("broken", broken as f64)],
            format!(
                "{broken} connections were given up as the server sent what belongs to no response, or more than our limits"
            ),
        ));
    }
    // In stages the load changes on purpose.
    let steady = match plan.stages.is_empty() && plan.stages_in_flight.is_empty() {
        true => outcome.windows.as_slice(),
        false => &[],
    };
    if let Some((first, usual)) = cold_start(steady) {
        reasons.push(Reason::new(Verdict::Suspect, Code::ColdStart, [("first_per_s", first), ("usual_per_s", usual)],
            format!(
                "the run began with {first:.0} requests/s and went on with {usual:.0}: a longer --warmup leaves its beginning out"
            ),
        ));
    } else if let Some(change) = trend(steady) {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::Drift,
            [("drift_percent", change * 100.0)],
            format!(
                "requests/s drifted by {:+.0} % over the run",
                change * 100.0
            ),
        ));
    }
    if requests.ok > 0 && outcome.latency.service.summary.p99.is_none() {
        reasons.push(Reason::new(
            Verdict::Suspect,
            Code::FewForP99,
            [("responses", outcome.latency.service.summary.count as f64)],
            format!(
                "{} responses are too few for a p99 (1000 are needed)",
                outcome.latency.service.summary.count
            ),
        ));
    }
    reasons.sort_by_key(|reason| Reverse(reason.verdict));
    Validity {
        verdict: reasons
            .first()
            .map_or(Verdict::Valid, |worst| worst.verdict),
        reasons,
        bound,
    }
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
    Some(match reached {
        Some((name, ..)) => Reason::new(
            Verdict::Invalid,
            Code::StoodStill,
            numbers,
            format!("{stood}: latencies from {name} on are its own, not the server's"),
        ),
        None => Reason::new(Verdict::Suspect, Code::StoodStill, numbers, stood),
    })
}

impl Outcome {
    /// How many connections were open most of the time, at most: those that the plan replaces, and a few
    /// that the server does, count as open.
    pub fn usually_open(&self) -> u64 {
        let most = self.connections.open_at_most;
        let usual = usually_open(&self.windows).unwrap_or(most);
        let replaced = self.plan.asked.requests_per_connection.is_some();
        if replaced || usual * 10 >= most * 9 {
            return most;
        }
        usual
    }
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

/// A limit of the server's, in words.
fn streams_per_connection(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} stream{plural} per connection")
}
