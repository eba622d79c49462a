//! What is counted in a tenth of a second.

use crate::latency::Durations;

/// A tenth of a second of the measured part.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) index: usize,
    /// All of it, but for the last.
    pub(crate) length_ns: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) service: Durations,
    /// Connections open at its end.
    pub(crate) open: u64,
    /// Requests in flight at its end.
    pub(crate) in_flight: u64,
    /// Open model: requests that were due at its end and had not left.
    pub(crate) backlog: u64,
    /// Processor time of the worker in it, in seconds.
    pub(crate) cpu_s: f64,
    /// Processor time of the server in it, in seconds, where the worker watches it.
    pub(crate) server_cpu_s: Option<f64>,
}

impl Window {
    pub(crate) fn new(index: usize) -> Self {
        Self {
            index,
            length_ns: 0,
            ok: 0,
            failed: 0,
            service: Durations::new(),
            open: 0,
            in_flight: 0,
            backlog: 0,
            cpu_s: 0.0,
            server_cpu_s: None,
        }
    }
}

impl Window {
    /// Adds what another worker did in the same window.
    pub(crate) fn add(&mut self, other: &Window) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.length_ns = self.length_ns.max(other.length_ns);
        self.service.merge(&other.service);
        self.open += other.open;
        self.in_flight += other.in_flight;
        self.backlog += other.backlog;
        self.cpu_s += other.cpu_s;
        self.server_cpu_s = self.server_cpu_s.or(other.server_cpu_s);
    }
}
