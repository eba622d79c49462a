//! What is known of a machine that was lost: the sum of its windows.

use std::collections::BTreeMap;

use crate::concurrency::Concurrency;
use crate::connections::Connections;
use crate::context::Learned;
use crate::cost::Spent;
use crate::failure::Failures;
use crate::latency::{Durations, Merge, Sparse};
use crate::record::{Recorder, Window};
use crate::schedule::Unsent;
use crate::tally::FirstResponse;
use crate::worker::Report;

/// The report that such a machine would have sent for all of its threads together, as far as its windows tell. How
/// connections were made, what content there was and what is known of requests beside their latency is not in it.
pub(super) fn report(all: &Window<Sparse>) -> Report {
    let mut recorder = Recorder::new(all.waits.is_some());
    // Those in flight at the end of the last window were abandoned with the machine.
    recorder.started = all.ok + all.failed + all.in_flight;
    recorder.ok = all.ok;
    recorder.failures =
        Failures::of_counts(all.part.failures, "its machine was lost before it told one");
    for (&code, &count) in &all.part.status {
        if let Some(sum) = recorder.status.get_mut(usize::from(code)) {
            *sum += count;
        }
    }
    recorder.service = dense(&all.service);
    // It has the ok ones, and those that were given up for the time they took.
    recorder.censored = recorder.service.count().saturating_sub(all.ok);
    if let Some(waits) = &all.waits {
        recorder.response = dense(&waits.response);
        recorder.late = dense(&waits.late);
    }
    recorder.traffic.sent = all.part.sent;
    recorder.traffic.received = all.part.received;
    let mut used = Spent::default();
    // Windows do not tell user mode from the kernel.
    used.worker.user_s = all.cpu_s;
    Report {
        recorder,
        connections: Connections::at_least(all.open),
        origins: Vec::new(),
        peers: BTreeMap::new(),
        concurrency: Concurrency::default(),
        learned: Learned::default(),
        first: FirstResponse::default(),
        iterations: None,
        used,
        measured: all.length_ns,
        sending: all.length_ns,
        // What it said last does not tell.
        stood_still: 0,
        unsent: Unsent {
            shed: 0,
            waiting: all.backlog,
        },
        cut_short: None,
    }
}

fn dense(sparse: &Sparse) -> Durations {
    let mut durations = Durations::new();
    Merge::merge(&mut durations, sparse);
    durations
}
