//! How connections were made, in the outcome.

use std::time::Duration;

use crate::latency::Durations;
use crate::outcome::{EarlyDataOut, HandshakesOut, MeasuredOut, PhasesOut};
use crate::phases::Phases;
use crate::record::Recorder;

use super::distribution;

impl PhasesOut {
    pub(super) fn new(recorder: &Recorder, dns: Duration, early_data: bool) -> Self {
        let phases = &recorder.phases;
        let mut resolution = Durations::new();
        resolution.record(dns.as_nanos() as u64);
        let known = |durations: &Durations| (durations.count() > 0).then(|| durations.summary());
        Self {
            dns: resolution.summary(),
            connect: known(&phases.connect),
            tls: known(&phases.tls),
            quic: known(&phases.quic),
            handshakes: HandshakesOut::new(phases),
            early_data: early_data.then(|| EarlyDataOut::new(phases)),
            measured: recorder
                .made
                .as_deref()
                .map(|made| MeasuredOut::new(made, early_data)),
        }
    }
}

impl MeasuredOut {
    fn new(phases: &Phases, early_data: bool) -> Self {
        let known =
            |durations: &Durations| (durations.count() > 0).then(|| distribution(durations));
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
