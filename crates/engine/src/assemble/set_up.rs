//! How connections were made, and what the time of requests consists of, in the outcome.

use std::time::Duration;

use crate::latency::Durations;
use crate::outcome::{Distribution, EarlyDataOut, HandshakesOut, MeasuredOut, PhasesOut};
use crate::phases::{Phases, RequestPhases, RequestPhasesOut};
use crate::record::Recorder;

use super::distribution;

impl PhasesOut {
    pub(super) fn new(recorder: &Recorder, dns: Duration, early_data: bool) -> Self {
        let phases = &recorder.phases;
        let mut resolution = Durations::new();
        resolution.record(dns.as_nanos() as u64);
        let none = RequestPhases::new();
        let cold = recorder.cold.as_deref().unwrap_or(&none);
        Self {
            dns: distribution(&resolution),
            connect: known(&phases.connect),
            tls: known(&phases.tls),
            quic: known(&phases.quic),
            cold: RequestPhasesOut::new(cold, recorder.waits),
            warm: RequestPhasesOut::new(&recorder.warm, recorder.waits),
            handshakes: HandshakesOut::new(phases),
            early_data: early_data.then(|| EarlyDataOut::new(phases)),
            measured: recorder
                .made
                .as_deref()
                .map(|made| MeasuredOut::new(made, early_data)),
        }
    }
}

fn known(durations: &Durations) -> Option<Distribution> {
    (durations.count() > 0).then(|| distribution(durations))
}

impl RequestPhasesOut {
    fn new(phases: &RequestPhases, waits: bool) -> Self {
        Self {
            wait: waits.then(|| distribution(&phases.wait)),
            ttfb: distribution(&phases.ttfb),
            body: distribution(&phases.body),
        }
    }
}

impl MeasuredOut {
    fn new(phases: &Phases, early_data: bool) -> Self {
        Self {
            connect: known(&phases.connect),
            tls: known(&phases.tls),
            quic: known(&phases.quic),
            first_byte: known(&phases.first_byte),
            handshakes: HandshakesOut::new(phases),
            early_data: early_data.then(|| EarlyDataOut::new(phases)),
        }
    }
}

impl EarlyDataOut {
    fn new(phases: &Phases) -> Self {
        let early = phases.early;
        Self {
            offered: early.accepted + early.rejected,
            accepted: early.accepted,
            rejected: early.rejected,
            requests: early.requests,
            requests_rejected: early.requests_rejected,
            too_early: early.too_early,
        }
    }
}

impl HandshakesOut {
    fn new(phases: &Phases) -> Self {
        Self {
            full: phases.full,
            resumed: phases.resumed,
            early_data: phases.early.accepted,
        }
    }
}
