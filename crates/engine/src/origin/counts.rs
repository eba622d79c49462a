//! What one worker counts by origin, where there are several.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::connections::Connections;
use crate::latency::{Durations, Summary};
use crate::plan::Plan;

/// Requests by origin.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OriginCounts {
    /// The origin of each request of the plan.
    #[serde(skip)]
    of: Arc<[u32]>,
    each: Vec<Counts>,
}

/// The requests to one origin.
#[derive(Debug, Serialize, Deserialize)]
struct Counts {
    ok: u64,
    failed: u64,
    /// From the first byte sent to the end of those that have a latency.
    service: Durations,
}

impl OriginCounts {
    /// Those of `plan`; none where it has one origin.
    pub(crate) fn new(plan: &Plan) -> Option<Box<Self>> {
        let empty = || Counts {
            ok: 0,
            failed: 0,
            service: Durations::new(),
        };
        plan.has_several_origins().then(|| {
            Box::new(Self {
                of: Arc::clone(&plan.origin_of),
                each: plan.origins.iter().map(|_| empty()).collect(),
            })
        })
    }

    fn at(&mut self, request: u32) -> &mut Counts {
        &mut self.each[self.of[request as usize] as usize]
    }

    /// A request has ended that has a latency, and is ok unless it was given up for the time it took.
    pub(crate) fn lasted(&mut self, request: u32, took: u64, timed_out: bool) {
        let counts = self.at(request);
        counts.ok += u64::from(!timed_out);
        counts.service.record(took);
    }

    /// A request has failed.
    pub(crate) fn failed(&mut self, request: u32) {
        self.at(request).failed += 1;
    }

    /// What has ended is forgotten.
    pub(crate) fn clear(&mut self) {
        for counts in &mut self.each {
            (counts.ok, counts.failed) = (0, 0);
            counts.service.clear();
        }
    }

    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.each.iter_mut().zip(&other.each) {
            mine.ok += theirs.ok;
            mine.failed += theirs.failed;
            mine.service.merge(&theirs.service);
        }
    }
}

/// What is known of one origin at the end of a run, beside its requests that have ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OriginReport {
    /// Requests in flight.
    pub(crate) abandoned: u64,
    pub(crate) connections: Connections,
}

impl OriginReport {
    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.abandoned += other.abandoned;
        self.connections.merge(&other.connections);
    }
}

/// The requests to one of several origins, in a result: `started` = `ok` + `failed` + `abandoned`.
#[derive(Clone, Debug, Serialize)]
pub struct OriginOut {
    /// Scheme, host and, unless it is the scheme's default, port.
    pub origin: String,
    /// Sent in the measured window, or in flight at its beginning.
    pub started: u64,
    /// Complete and as expected.
    pub ok: u64,
    /// Not so.
    pub failed: u64,
    /// In flight at the end.
    pub abandoned: u64,
    /// Connections over the whole run that came to where requests may be sent.
    pub connections: u64,
    /// Attempts that did not.
    pub connections_failed: u64,
    /// From the first byte sent to the end of those that have a latency, in seconds.
    pub service: Summary,
}

impl OriginOut {
    /// Those of `plan`; none where it has one origin.
    pub(crate) fn all(
        plan: &Plan,
        counts: Option<&OriginCounts>,
        reports: &[OriginReport],
    ) -> Option<Vec<Self>> {
        let each = plan.origins.iter().zip(&counts?.each).zip(reports);
        let each = each.map(|((origin, counts), report)| Self {
            origin: origin.name.clone(),
            started: counts.ok + counts.failed + report.abandoned,
            ok: counts.ok,
            failed: counts.failed,
            abandoned: report.abandoned,
            connections: report.connections.established(),
            connections_failed: report.connections.failed(),
            service: counts.service.summary(),
        });
        Some(each.collect())
    }
}
