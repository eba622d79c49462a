//! What a worker counts and reads for its report: windows, resources, the sum at the end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::assemble::ratio;
use crate::concurrency::Concurrency;
use crate::connections::Connections;
use crate::context::Learned;
use crate::cost::Spent;
use crate::origin::OriginReport;
use crate::plan::Plan;
use crate::record::{MOST_COUNTED, Recorder};
use crate::scenario::Iterations;
use crate::schedule::Unsent;
use crate::tally::FirstResponse;

use super::Worker;

/// What a worker brings home.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) recorder: Recorder,
    pub(crate) connections: Connections,
    /// By origin.
    pub(crate) origins: Vec<OriginReport>,
    /// Connections on which requests could be sent, by where they went.
    pub(crate) peers: BTreeMap<String, u64>,
    pub(crate) concurrency: Concurrency,
    pub(crate) learned: Learned,
    pub(crate) first: FirstResponse,
    /// What virtual users did.
    pub(crate) iterations: Option<Iterations>,
    pub(crate) used: Spent,
    /// Length of the measured window, in nanoseconds.
    pub(crate) measured: u64,
    /// The part of it in which requests were to be sent, in nanoseconds: all of it, or until the last request
    /// of a counted run had been sent.
    pub(crate) sending: u64,
    /// The longest time for which the worker stood still in it, in nanoseconds.
    pub(crate) stood_still: u64,
    /// Requests that were due in the open model and never sent.
    pub(crate) unsent: Unsent,
    /// Why the run ended before its time.
    pub(crate) cut_short: Option<String>,
}

impl Report {
    /// Whether it can be the report of a run by `plan`: it comes from another machine, and is added up.
    pub(crate) fn is_plausible(&self, plan: &Plan) -> bool {
        let is_any = |count: u64| count <= MOST_COUNTED;
        let steps = plan.scenario.as_ref().map_or(0, |plan| plan.steps.len());
        self.recorder.is_plausible()
            && self.connections.is_plausible()
            && self.origins.len() <= plan.origins.len()
            && self.peers.values().all(|&count| is_any(count))
            && self.iterations.as_ref().is_none_or(|counts| {
                counts.steps.len() <= steps
                    && [counts.started, counts.begun, counts.ok, counts.failed].map(is_any)
                        == [true; 4]
                    && (counts.steps.iter()).all(|step| is_any(step.ok) && is_any(step.failed))
            })
            && [self.measured, self.sending].map(is_any) == [true; 2]
            && [self.unsent.shed, self.unsent.waiting].map(is_any) == [true; 2]
    }

    /// The share of the measured window in which the worker ran or was ready to run, 0…1.
    pub(crate) fn busy(&self) -> f64 {
        let used_s = self.used.worker.cpu_s() + self.used.worker.run_delay_s;
        let busy = ratio(used_s, self.measured as f64 / 1e9);
        busy.unwrap_or(0.0).min(1.0)
    }
}

impl Worker<'_> {
    /// The window that ends goes to whoever adds up those of all workers.
    pub(super) fn hand_over_window(&mut self, now: u64, length_ns: u64) {
        let length_ns = match &mut self.rest {
            Some(rest) => rest.own(now, length_ns),
            None => length_ns,
        };
        let mut window = self.context.tally.recorder.finish_window(length_ns);
        let used = self.spent();
        let in_window = used.since(self.used_in_window);
        window.open = self.pool.open() as u64;
        window.in_flight = self.context.in_flight.now();
        window.backlog = self.context.schedule.backlog(self.stage.last(now));
        window.cpu_s = in_window.worker.cpu_s();
        window.server_cpu_s = in_window.server_s;
        self.used_in_window = used;
        // The reader lives as long as any worker: an error cannot lose more than a row.
        let _ = self.windows.send(window);
    }

    /// Reads every counter that the measured window subtracts.
    pub(super) fn begin_measuring_resources(&mut self) {
        self.count_links();
        self.used_before = self.spent();
        self.used_in_window = self.used_before;
        self.traffic_before = self.context.tally.recorder.traffic;
    }

    /// What has been used up to now; the first worker watches the server for all.
    fn spent(&self) -> Spent {
        Spent::now((self.index == 0).then_some(&self.plan.server))
    }

    fn count_links(&mut self) {
        for link in &mut self.links {
            link.count(&mut self.context);
        }
    }

    /// For the live display.
    pub(super) fn publish(&mut self) {
        let recorder = &self.context.tally.recorder;
        let ok = recorder.warmup.ok + recorder.ok;
        let failed = recorder.warmup.failed + recorder.failures.total();
        self.control
            .publish(ok - self.published.0, failed - self.published.1);
        self.published = (ok, failed);
    }

    /// Stops sending, closes everything and adds up.
    pub(super) fn finish(mut self, now: u64, cut_short: Option<String>) -> Report {
        self.context.stopping = true;
        self.count_links();
        let used = self.spent().since(self.used_before);
        self.publish();
        let (measured, window) = self.stage.measured(now).unwrap_or_else(|| {
            // Interrupted during the warm-up: nothing was measured, the requests are told apart.
            self.finish_warmup();
            (0, 0)
        });
        // So many requests at a rate take as long as the rate says, however soon the last is answered.
        let least = self.plan.least_length().filter(|_| {
            let is_whole = cut_short.is_none() && measured > 0;
            is_whole && self.context.is_exhausted()
        });
        let rest = least.unwrap_or(0).saturating_sub(measured);
        let (measured, window) = (measured + rest, window + rest);
        let origins = self.origin_reports();
        let in_flight = self.in_flight();
        let recorder = &self.context.tally.recorder;
        debug_assert_eq!(
            recorder.started,
            recorder.ok + recorder.failures.total() + in_flight,
            "every request started is ok, failed or in flight"
        );
        let unsent = self.context.schedule.unsent(self.stage.last(now));
        self.hand_over_window(now, window);
        let measured = measured - self.rest.map_or(0, |rest| rest.total());
        let since = self.context.tally.recorder.measured_since();
        let sending = self.sent_all_at.map_or(measured, |at| {
            let length = at.saturating_sub(since).max(least.unwrap_or(0));
            length.min(measured)
        });
        let shares = self.links.iter().map(|link| link.exchanges.share);
        let in_flight = self.context.in_flight;
        let concurrency = Concurrency::new(in_flight, shares, self.plan.streams);
        self.say_goodbye();
        let mut recorder = self.context.tally.recorder;
        recorder.traffic.subtract(&self.traffic_before);
        Report {
            recorder,
            peers: self.pool.peers(),
            connections: all_of(self.pool.counts()),
            origins,
            concurrency,
            learned: self.context.learned,
            first: self.context.tally.first,
            iterations: self.context.tally.users.map(|users| users.counts),
            used,
            measured,
            sending,
            stood_still: self.lapses.longest(),
            unsent,
            cut_short,
        }
    }
}

/// One account of the connections to all origins.
fn all_of<'c>(counts: impl Iterator<Item = &'c Connections>) -> Connections {
    let mut all = Connections::default();
    for each in counts {
        all.merge(each);
    }
    all
}
