//! What the workers brought home, added up as it comes.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::concurrency::Concurrency;
use crate::connections::Connections;
use crate::context::Learned;
use crate::cost::Spent;
use crate::origin::OriginReport;
use crate::plan::Plan;
use crate::record::Recorder;
use crate::scenario::Iterations;
use crate::schedule::Unsent;
use crate::tally::FirstResponse;
use crate::worker::Report;

/// What the workers of a run brought home: memory does not grow with how many they are.
pub(crate) struct Totals<'p> {
    pub(super) plan: &'p Plan,
    pub(super) recorder: Recorder,
    pub(super) connections: Connections,
    pub(super) concurrency: Concurrency,
    pub(super) learned: Learned,
    pub(super) peers: BTreeMap<String, u64>,
    pub(super) first: FirstResponse,
    pub(super) used: Spent,
    pub(super) busy: Vec<f64>,
    pub(super) stood_still_s: Vec<f64>,
    pub(super) iterations: Option<Iterations>,
    pub(super) origins: Vec<OriginReport>,
    pub(super) measured: u64,
    pub(super) sending: u64,
    pub(super) unsent: Unsent,
    pub(super) cut_short: Option<String>,
}

impl<'p> Totals<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Self {
        Self {
            plan,
            recorder: Recorder::new(plan.has_waiting_requests()),
            connections: Connections::default(),
            concurrency: Concurrency::default(),
            learned: Learned::default(),
            peers: BTreeMap::new(),
            first: FirstResponse::default(),
            used: Spent::default(),
            busy: vec![0.0; plan.threads],
            stood_still_s: vec![0.0; plan.threads],
            iterations: None,
            origins: vec![OriginReport::default(); plan.origins.len()],
            measured: 0,
            sending: 0,
            unsent: Unsent::default(),
            cut_short: None,
        }
    }

    /// Adds what this worker brought home, on whose clock the measured part began at `measured_since`.
    pub(crate) fn add(&mut self, worker: usize, mut report: Report, measured_since: u64) {
        report.recorder.slowest.of_worker(worker, measured_since);
        if let Some(busy) = self.busy.get_mut(worker) {
            *busy = report.busy();
        }
        if let Some(stood_still_s) = self.stood_still_s.get_mut(worker) {
            *stood_still_s = report.stood_still as f64 / 1e9;
        }
        self.measured = self.measured.max(report.measured);
        self.sending = self.sending.max(report.sending);
        self.unsent.shed += report.unsent.shed;
        self.unsent.waiting += report.unsent.waiting;
        self.used.add(report.used);
        self.connections.merge(&report.connections);
        for (sum, more) in self.origins.iter_mut().zip(&report.origins) {
            sum.merge(more);
        }
        for (peer, count) in report.peers {
            *self.peers.entry(peer).or_default() += count;
        }
        self.concurrency.merge(report.concurrency);
        self.learned.merge(report.learned);
        if self.first.server.is_none() {
            self.first = report.first;
        }
        match (&mut self.iterations, report.iterations) {
            (Some(sum), Some(more)) => sum.merge(&more),
            (sum, more) => *sum = sum.take().or(more),
        }
        if self.cut_short.is_none() {
            self.cut_short = report.cut_short;
        }
        self.recorder.merge(report.recorder);
    }

    /// These workers have been busy for this share of the window each.
    pub(crate) fn set_busy(&mut self, workers: Range<usize>, share: f64) {
        for busy in self.busy.get_mut(workers).into_iter().flatten() {
            *busy = share;
        }
    }
}
