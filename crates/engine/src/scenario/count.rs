//! What one worker counts of its users' iterations.

use serde::{Deserialize, Serialize};

use crate::assemble::{distribution, ratio};
use crate::latency::{Durations, Summary};
use crate::outcome::Distribution;

use super::ScenarioPlan;

/// Iterations of a scenario, and requests by step.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Iterations {
    /// Begun, or under way as the measurement began.
    pub(crate) started: u64,
    /// Begun since then.
    pub(crate) begun: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    /// From the intended start of those that were ok to their end.
    pub(crate) duration: Durations,
    pub(crate) steps: Vec<StepCounts>,
}

/// Requests of one step.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StepCounts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    /// From the first byte sent to the end of the response, of those that were ok.
    pub(crate) service: Durations,
}

impl Iterations {
    pub(crate) fn new(steps: usize) -> Self {
        let empty = || StepCounts {
            ok: 0,
            failed: 0,
            service: Durations::new(),
        };
        Self {
            started: 0,
            begun: 0,
            ok: 0,
            failed: 0,
            duration: Durations::new(),
            steps: (0..steps).map(|_| empty()).collect(),
        }
    }

    /// The warm-up is over, with so many under way.
    pub(crate) fn finish_warmup(&mut self, under_way: u64) {
        (self.started, self.begun) = (under_way, 0);
        (self.ok, self.failed) = (0, 0);
        self.duration.clear();
        for step in &mut self.steps {
            (step.ok, step.failed) = (0, 0);
            step.service.clear();
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.begun += other.begun;
        self.ok += other.ok;
        self.failed += other.failed;
        self.duration.merge(&other.duration);
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            mine.ok += theirs.ok;
            mine.failed += theirs.failed;
            mine.service.merge(&theirs.service);
        }
    }
}

/// What virtual users did, in a result.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioOut {
    /// The name of the scenario.
    pub name: String,
    /// Virtual users over all threads.
    pub users: usize,
    /// Iterations begun in the measured window, or under way at its beginning.
    pub started: u64,
    /// Those in which every request was answered as expected.
    pub ok: u64,
    /// Those that ended with a request that was not.
    pub failed: u64,
    /// Those under way at the end.
    pub abandoned: u64,
    /// `ok` in a second of the measured window.
    pub iterations_per_s: f64,
    /// From the intended start of those that were ok to their end, pauses included.
    pub duration: Distribution,
    /// Each step, in the order of the scenario.
    pub steps: Vec<StepOut>,
}

/// The requests of one step, in a result.
#[derive(Clone, Debug, Serialize)]
pub struct StepOut {
    /// Its name.
    pub name: String,
    /// Where its requests go, with the placeholders in it.
    pub url: String,
    /// Answered as expected.
    pub ok: u64,
    /// And otherwise.
    pub failed: u64,
    /// Of the ok ones from the first byte sent to the end of the response, in seconds.
    pub service: Summary,
}

impl ScenarioOut {
    pub(crate) fn new(plan: &ScenarioPlan, counts: &Iterations, window_s: f64) -> Self {
        let steps = plan.steps.iter().zip(&counts.steps);
        Self {
            name: plan.name.clone(),
            users: plan.users,
            started: counts.started,
            ok: counts.ok,
            failed: counts.failed,
            abandoned: counts.started.saturating_sub(counts.ok + counts.failed),
            iterations_per_s: ratio(counts.ok as f64, window_s).unwrap_or(0.0),
            duration: distribution(&counts.duration),
            steps: steps
                .map(|(step, counts)| StepOut {
                    name: step.name.clone(),
                    url: step.written.clone(),
                    ok: counts.ok,
                    failed: counts.failed,
                    service: counts.service.summary(),
                })
                .collect(),
        }
    }
}
