//! Whether a run may be believed.

mod accounts;
mod connections;
mod machine;
pub(crate) mod nothing_ok;
mod schedule;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::concurrency::Concurrency;
use crate::outcome::Outcome;
use crate::windows::{cold_start, trend, usually_open};

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
    /// A search did not come to the server's limit.
    NoCapacity,
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
    /// What to do about it; empty where nothing helps.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advice: String,
}

impl Reason {
    fn new<const N: usize>(
        verdict: Verdict,
        code: Code,
        numbers: [(&'static str, f64); N],
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            code,
            verdict,
            numbers: numbers.into(),
            text: text.into(),
            advice: advice.into(),
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
    /// `client` where a worker had no processor time left; `server` where, in the closed model, a server on this
    /// machine left no processor idle and the workers had time; else `server_or_network`.
    pub bound: &'static str,
}

/// What the verdict needs beside the outcome itself.
pub(crate) struct Circumstances<'a> {
    pub(crate) rate_asked: Option<f64>,
    pub(crate) concurrency: Concurrency,
    pub(crate) unsent: u64,
    pub(crate) steal: f64,
    pub(crate) others: Option<f64>,
    /// Whether a server on this machine left no processor idle.
    pub(crate) server_is_full: bool,
    pub(crate) udp_drops: u64,
    pub(crate) cut_short: Option<&'a str>,
    /// Whether each request takes 200 for an answer: one that does not asks for another status.
    pub(crate) takes_pages: bool,
}

pub(crate) fn judge(outcome: &Outcome, around: &Circumstances<'_>) -> Validity {
    let mut reasons = Vec::new();
    reasons.extend(accounts::kept(outcome));
    reasons.extend(accounts::ended_early(outcome, around));
    reasons.extend(connections::streams_allowed(outcome, around));
    reasons.extend(schedule::missed(outcome, around));
    reasons.extend(schedule::unsent(around));
    reasons.extend(machine::client(outcome, around));
    reasons.extend(machine::neighbours(around));
    reasons.extend(accounts::not_what_was_meant(outcome, around));
    reasons.extend(connections::troubled(outcome));
    reasons.extend(unsteady(outcome));
    reasons.extend(few_for_p99(outcome));
    reasons.sort_by_key(|reason| Reverse(reason.verdict));
    Validity {
        verdict: reasons
            .first()
            .map_or(Verdict::Valid, |worst| worst.verdict),
        reasons,
        bound: machine::bound(outcome, around),
    }
}

/// A rate that was not the same over the run; in stages it changes on purpose.
fn unsteady(outcome: &Outcome) -> Option<Reason> {
    let plan = &outcome.plan;
    if !plan.stages.is_empty() || !plan.stages_in_flight.is_empty() {
        return None;
    }
    if let Some((first, usual)) = cold_start(&outcome.windows) {
        return Some(Reason::new(
            Verdict::Suspect,
            Code::ColdStart,
            [("first_per_s", first), ("usual_per_s", usual)],
            format!("the run began with {first:.0} requests/s and went on with {usual:.0}"),
            "leave its beginning out with a longer --warmup",
        ));
    }
    trend(&outcome.windows).map(|change| {
        Reason::new(
            Verdict::Suspect,
            Code::Drift,
            [("drift_percent", change * 100.0)],
            format!(
                "requests/s drifted by {:+.0} % over the run",
                change * 100.0
            ),
            "use a longer --warmup and a longer run (-d)",
        )
    })
}

fn few_for_p99(outcome: &Outcome) -> Option<Reason> {
    let summary = &outcome.latency.service.summary;
    if outcome.requests.ok == 0 || summary.p99.is_some() {
        return None;
    }
    Some(Reason::new(
        Verdict::Suspect,
        Code::FewForP99,
        [("responses", summary.count as f64)],
        format!(
            "{} responses are too few for a p99 (1000 are needed)",
            summary.count
        ),
        match outcome.plan.requests {
            Some(_) => "send more requests with -n",
            None => "run it for longer with -d",
        },
    ))
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
