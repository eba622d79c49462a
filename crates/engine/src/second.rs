//! Each second of the measured part as soon as it is over, and all that has been measured by then, for whoever
//! watches a run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::assemble::ratio;
use crate::failure::FailureKind;
use crate::latency::Durations;
use crate::plan::Plan;
use crate::record::{Messages, Window};
use crate::stage::WINDOW;

/// A second of the measured part, as soon as it is over. Serialises to `trilane.second/1`.
#[derive(Clone, Debug, Serialize)]
pub struct SecondOut {
    /// `trilane.second/1`.
    pub schema: &'static str,
    /// When it began, in seconds since the measured part did.
    pub start_s: f64,
    /// Seconds: one, but for the last.
    pub length_s: f64,
    /// Requests that ended as expected.
    pub ok: u64,
    /// And otherwise.
    pub failed: u64,
    /// `ok` in a second.
    pub requests_per_s: f64,
    /// Requests that left.
    pub sent: u64,
    /// Open model: how many a second were asked for, or iterations of a scenario.
    pub asked_per_s: Option<f64>,
    /// From the first byte sent to the end of the response.
    #[serde(flatten)]
    pub service: Quantiles,
    /// From when it was due to the end of the response; none where nothing is due.
    pub response: Option<Quantiles>,
    /// From when it was due and could leave to its first byte; none where nothing is due.
    pub late: Option<Quantiles>,
    /// Messages, where requests are gRPC calls that are streams.
    pub messages: Option<MessagesOut>,
    /// Failed requests by kind.
    pub failures: BTreeMap<&'static str, u64>,
    /// Final responses by status code.
    pub status: BTreeMap<u16, u64>,
    /// Bytes of TCP or UDP payload.
    pub bytes_sent: u64,
    /// Bytes of TCP or UDP payload.
    pub bytes_received: u64,
    /// Connections open at its end.
    pub open: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Requests that were due at its end and had not left; open model.
    pub backlog: u64,
    /// Processor time of the workers in it, in seconds.
    pub cpu_s: f64,
}

/// Quantiles of durations, in seconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// How many by size, as in [`crate::WindowOut::latencies`].
    #[serde(skip)]
    pub steps: Vec<(u32, u64)>,
    /// Their sum, in seconds.
    #[serde(skip)]
    pub sum_s: f64,
}

/// Messages of gRPC calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MessagesOut {
    /// That left.
    pub sent: u64,
    /// That came.
    pub received: u64,
    /// `sent` in a second.
    pub sent_per_s: f64,
    /// `received` in a second.
    pub received_per_s: f64,
    /// As [`crate::Grpc::message_latency`]; none where servers send no streams.
    pub latency: Option<Quantiles>,
}

/// Is handed each second of the measurement when it is over, and all that has been measured by then.
pub type Watch<'a> = &'a mut dyn FnMut(&SecondOut, &SecondOut);

impl SecondOut {
    /// Windows in a second.
    pub(crate) const WINDOWS: u64 = 1_000_000_000 / WINDOW;

    pub(crate) fn new(window: &Window, plan: &Plan) -> Self {
        let length_s = window.length_ns as f64 / 1e9;
        let start_s = window.index as f64 / Self::WINDOWS as f64;
        let (waits, part) = (window.waits.as_ref(), &window.part);
        let late = waits.filter(|_| plan.sends_when_due());
        let kinds = FailureKind::ALL.iter().zip(part.failures);
        Self {
            schema: "trilane.second/1",
            start_s,
            length_s,
            ok: window.ok,
            failed: window.failed,
            requests_per_s: ratio(window.ok as f64, length_s).unwrap_or(0.0),
            sent: part.started,
            asked_per_s: plan
                .expected_between(start_s, start_s + length_s)
                .and_then(|expected| ratio(expected, length_s)),
            service: Quantiles::new(&window.service),
            response: waits.map(|waits| Quantiles::new(&waits.response)),
            late: late.map(|waits| Quantiles::new(&waits.late)),
            messages: plan
                .calls
                .as_ref()
                .filter(|calls| calls.has_streams())
                .map(|calls| MessagesOut::new(&part.messages, length_s, calls.receives_streams())),
            failures: kinds
                .filter(|(_, count)| *count > 0)
                .map(|(kind, count)| (kind.name(), count))
                .collect(),
            status: part.status.clone(),
            bytes_sent: part.sent,
            bytes_received: part.received,
            open: window.open,
            in_flight: window.in_flight,
            backlog: window.backlog,
            cpu_s: window.cpu_s,
        }
    }
}

impl MessagesOut {
    fn new(messages: &Messages, length_s: f64, are_timed: bool) -> Self {
        let per_second = |count: u64| ratio(count as f64, length_s).unwrap_or(0.0);
        let latency = || {
            let latency = messages.latency.as_ref();
            latency.map_or_else(Quantiles::default, Quantiles::new)
        };
        Self {
            sent: messages.sent,
            received: messages.received,
            sent_per_s: per_second(messages.sent),
            received_per_s: per_second(messages.received),
            latency: are_timed.then(latency),
        }
    }
}

impl Quantiles {
    fn new(durations: &Durations) -> Self {
        let summary = durations.summary();
        Self {
            p50: summary.p50,
            p90: summary.p90,
            p99: summary.p99,
            max: summary.max,
            steps: durations.steps(),
            sum_s: durations.sum_s(),
        }
    }
}

/// Adds up the windows of the present second, and of all, for whoever watches.
pub(crate) struct Seconds<'a> {
    plan: &'a Plan,
    watch: Watch<'a>,
    present: Option<Window>,
    so_far: Window,
}

impl<'a> Seconds<'a> {
    pub(crate) fn new(plan: &'a Plan, watch: Watch<'a>) -> Self {
        Self {
            plan,
            watch,
            present: None,
            so_far: Window::new(0, plan.has_waiting_requests()),
        }
    }

    /// Adds a window; the last of a second ends it. They come in order, and none is left out.
    pub(crate) fn add(&mut self, window: &Window) {
        let waits = window.waits.is_some();
        self.present
            .get_or_insert_with(|| Window::new(window.index, waits))
            .append(window);
        if (window.index as u64 + 1).is_multiple_of(SecondOut::WINDOWS) {
            self.end();
        }
    }

    pub(crate) fn end(&mut self) {
        if let Some(second) = self.present.take() {
            self.so_far.append(&second);
            (self.watch)(
                &SecondOut::new(&second, self.plan),
                &SecondOut::new(&self.so_far, self.plan),
            );
        }
    }
}
