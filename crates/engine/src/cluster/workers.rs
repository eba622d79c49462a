//! The machines of a run: who they are, and what each did.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::assemble::ratio;
use crate::latency::Durations;
use crate::worker::Report;

/// A machine of a run, as whoever started it knows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    /// Its name among the machines of the run.
    pub name: String,
    /// The name or address of its host.
    pub host: String,
    /// Processors that it has for the run.
    #[serde(default)]
    pub cores: Option<usize>,
    /// The first of its threads among those of the plan.
    pub first: usize,
    /// How many threads it has.
    pub count: usize,
    /// What its clock shows more than that of the machine that adds up, in seconds.
    #[serde(default)]
    pub clock_offset_s: Option<f64>,
    /// How much that may be wrong, in seconds.
    #[serde(default)]
    pub clock_error_s: Option<f64>,
}

impl Member {
    /// Its threads.
    pub(super) fn threads(&self) -> Range<usize> {
        self.first..self.first.saturating_add(self.count)
    }
}

/// What one machine of a run did, in a result.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerOut {
    /// Its name among the machines of the run.
    pub name: String,
    /// The name or address of its host.
    pub host: String,
    /// Threads of the plan that it had.
    pub threads: usize,
    /// Processors that it had for the run.
    pub cores: Option<usize>,
    /// What its clock showed more than that of the machine that added up, in seconds.
    pub clock_offset_s: Option<f64>,
    /// How much that may be wrong, in seconds.
    pub clock_error_s: Option<f64>,
    /// How long after the start of the run its threads began, in seconds of its own clock.
    pub start_late_s: Option<f64>,
    /// Requests that ended as expected.
    pub ok: u64,
    /// And otherwise.
    pub failed: u64,
    /// `ok` in a second of its measured window.
    pub requests_per_s: f64,
    /// Median latency in seconds: response time where there is one, else service time.
    pub p50: Option<f64>,
    /// The 99th percentile of the same.
    pub p99: Option<f64>,
    /// CPU microseconds of its threads per ok request.
    pub cpu_us_per_request: Option<f64>,
    /// Of its threads the busiest: the share of the window in which it ran or was ready to run, 0…1.
    pub busy: f64,
    /// Why it did not bring home what it did, where it did not: then the numbers are those of the windows that it had
    /// delivered.
    pub lost: Option<String>,
}

impl WorkerOut {
    /// One that has done nothing yet.
    pub(super) fn new(member: &Member) -> Self {
        Self {
            name: trilane_text::line(&member.name),
            host: trilane_text::line(&member.host),
            threads: member.count,
            cores: member.cores,
            clock_offset_s: member.clock_offset_s,
            clock_error_s: member.clock_error_s,
            start_late_s: None,
            ok: 0,
            failed: 0,
            requests_per_s: 0.0,
            p50: None,
            p99: None,
            cpu_us_per_request: None,
            busy: 0.0,
            lost: None,
        }
    }

    /// A sentence for people, where it was lost.
    pub(crate) fn lost_in_words(&self) -> Option<String> {
        let Self { name, host, .. } = self;
        self.lost.as_ref().map(|why| {
            let left = match self.ok + self.failed {
                0 => "nothing of it is in the result".to_owned(),
                ended => {
                    format!("of it {ended} requests are in the result, as far as it had told")
                }
            };
            format!("worker {name} on {host} was lost: {why}; {left}")
        })
    }
}

/// Adds up what one machine did.
pub(super) struct Done {
    latency: Durations,
    ok: u64,
    failed: u64,
    cpu_s: f64,
    measured: u64,
    busy: f64,
}

impl Done {
    pub(super) fn new() -> Self {
        Self {
            latency: Durations::new(),
            ok: 0,
            failed: 0,
            cpu_s: 0.0,
            measured: 0,
            busy: 0.0,
        }
    }

    /// Adds what one thread did; `waits` where requests are there before they leave.
    pub(super) fn add(&mut self, report: &Report, waits: bool) {
        let recorder = &report.recorder;
        self.latency.merge(if waits {
            &recorder.response
        } else {
            &recorder.service
        });
        self.ok += recorder.ok;
        self.failed += recorder.failures.total();
        self.cpu_s += report.used.worker.cpu_s();
        self.measured = self.measured.max(report.measured);
        self.busy = self.busy.max(report.busy());
    }

    /// Tells it.
    pub(super) fn tell(&self, out: &mut WorkerOut) {
        (out.ok, out.failed, out.busy) = (self.ok, self.failed, self.busy);
        let measured_s = self.measured as f64 / 1e9;
        out.requests_per_s = ratio(self.ok as f64, measured_s).unwrap_or(0.0);
        out.p50 = self.latency.quantile(0.5);
        out.p99 = self.latency.quantile(0.99);
        out.cpu_us_per_request = ratio(self.cpu_s * 1e6, self.ok as f64);
    }
}
