//! What is counted in a tenth of a second.

use std::array;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure::{FailureKind, Failures};
use crate::latency::{Durations, Merge, Sparse};

use super::Traffic;

/// A tenth of a second of the measured part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Window<D = Durations> {
    pub(crate) index: usize,
    /// All of it, but for the last.
    pub(crate) length_ns: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) service: D,
    /// Where requests are there before they leave.
    pub(crate) waits: Option<Waits<D>>,
    /// What the worker counts over the whole run, as much of it as fell into this window.
    pub(crate) part: Part,
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

/// Durations from when a request was due.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Waits<D = Durations> {
    /// To the end of its response.
    pub(crate) response: D,
    /// To its first byte, as far as that was the worker's doing.
    pub(crate) late: D,
}

/// Windows of another machine, one after the other, as they travel.
pub(crate) type Windows = Vec<Window<Sparse>>;

/// What fell into a window of counts that go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Requests that left.
    pub(crate) started: u64,
    /// Payload of TCP or UDP, in bytes.
    pub(crate) sent: u64,
    /// Payload of TCP or UDP, in bytes.
    pub(crate) received: u64,
    /// Final responses by status code.
    pub(crate) status: BTreeMap<u16, u64>,
    /// Failed requests by kind, in the order of [`FailureKind::ALL`].
    pub(crate) failures: [u64; FailureKind::ALL.len()],
    /// Messages of calls.
    pub(crate) messages: Messages,
}

/// Messages of calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Messages {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// How long each of them took that were timed; none where none was.
    pub(crate) latency: Option<Durations>,
}

/// Where the counts that go on stood when the present window began.
#[derive(Debug)]
pub(crate) struct Standing {
    started: u64,
    sent: u64,
    received: u64,
    status: Box<[u64; 1000]>,
    failures: [u64; FailureKind::ALL.len()],
}

impl Window {
    /// An empty one; `waits` where requests are there before they leave.
    pub(crate) fn new(index: usize, waits: bool) -> Self {
        Self {
            index,
            length_ns: 0,
            ok: 0,
            failed: 0,
            service: Durations::new(),
            waits: waits.then(|| Waits {
                response: Durations::new(),
                late: Durations::new(),
            }),
            part: Part::default(),
            open: 0,
            in_flight: 0,
            backlog: 0,
            cpu_s: 0.0,
            server_cpu_s: None,
        }
    }

    /// Forgets the durations of what ended before the measured part.
    pub(crate) fn clear_durations(&mut self) {
        self.service.clear();
        if let Some(waits) = &mut self.waits {
            waits.response.clear();
            waits.late.clear();
        }
    }

    /// The form in which it travels.
    pub(crate) fn sparse(&self) -> Window<Sparse> {
        Window {
            index: self.index,
            length_ns: self.length_ns,
            ok: self.ok,
            failed: self.failed,
            service: Sparse::from(&self.service),
            waits: self.waits.as_ref().map(|waits| Waits {
                response: Sparse::from(&waits.response),
                late: Sparse::from(&waits.late),
            }),
            part: self.part.clone(),
            open: self.open,
            in_flight: self.in_flight,
            backlog: self.backlog,
            cpu_s: self.cpu_s,
            server_cpu_s: self.server_cpu_s,
        }
    }
}

impl<D> Window<D> {
    /// Whether what another machine sent can be a window: its length, a tenth of a second but for the last one of a
    /// slow run, and counts of which any number of machines can be added up.
    pub(crate) fn is_plausible(&self) -> bool {
        const MOST: u64 = 1 << 44;
        // Thirteen days: a rate of one request in a day is a rate.
        const LONGEST_NS: u64 = 1 << 50;
        let part = &self.part;
        let counts = [
            self.ok,
            self.failed,
            self.open,
            self.in_flight,
            self.backlog,
            part.started,
            part.sent,
            part.received,
            part.messages.sent,
            part.messages.received,
        ];
        let mut counts = counts.iter().chain(part.status.values());
        counts.all(|count| *count <= MOST)
            && part.failures.iter().all(|count| *count <= MOST)
            && self.length_ns <= LONGEST_NS
    }

    /// Adds what another worker did in the same window.
    pub(crate) fn add<E>(&mut self, other: &Window<E>)
    where
        D: Merge<E>,
    {
        self.ok += other.ok;
        self.failed += other.failed;
        self.length_ns = self.length_ns.max(other.length_ns);
        self.service.merge(&other.service);
        if let (Some(sum), Some(more)) = (&mut self.waits, &other.waits) {
            sum.response.merge(&more.response);
            sum.late.merge(&more.late);
        }
        self.part.add(&other.part);
        self.open += other.open;
        self.in_flight += other.in_flight;
        self.backlog += other.backlog;
        self.cpu_s += other.cpu_s;
        self.server_cpu_s = self.server_cpu_s.or(other.server_cpu_s);
    }

    /// Adds what came after it.
    pub(crate) fn append<E>(&mut self, later: &Window<E>)
    where
        D: Merge<E>,
    {
        let length_ns = self.length_ns + later.length_ns;
        self.add(later);
        self.length_ns = length_ns;
        // Not a sum over time: what it is at the end.
        (self.open, self.in_flight, self.backlog) = (later.open, later.in_flight, later.backlog);
    }
}

impl Part {
    fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.sent += other.sent;
        self.received += other.received;
        for (code, count) in &other.status {
            *self.status.entry(*code).or_default() += count;
        }
        for (sum, count) in self.failures.iter_mut().zip(other.failures) {
            *sum += count;
        }
        self.messages.add(&other.messages);
    }
}

impl Messages {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        if let Some(more) = &other.latency {
            self.latency.get_or_insert_with(Durations::new).merge(more);
        }
    }
}

impl Standing {
    /// Of a recorder that counts no more.
    pub(crate) fn of_nothing() -> Self {
        Self::new(0, &Traffic::default())
    }

    /// At the begin of the measured part, where so many requests were in flight and so many bytes had gone.
    pub(crate) fn new(started: u64, traffic: &Traffic) -> Self {
        Self {
            started,
            sent: traffic.sent,
            received: traffic.received,
            status: Box::new([0; 1000]),
            failures: [0; FailureKind::ALL.len()],
        }
    }

    /// What has been counted since the last time.
    pub(crate) fn advance(
        &mut self,
        started: u64,
        traffic: &Traffic,
        status: &[u64; 1000],
        failures: &Failures,
    ) -> Part {
        let counts = failures.counts();
        let mut part = Part {
            started: started.saturating_sub(self.started),
            sent: traffic.sent.saturating_sub(self.sent),
            received: traffic.received.saturating_sub(self.received),
            status: BTreeMap::new(),
            failures: array::from_fn(|kind| counts[kind].saturating_sub(self.failures[kind])),
            messages: Messages::default(),
        };
        (self.started, self.failures) = (started, counts);
        (self.sent, self.received) = (traffic.sent, traffic.received);
        for (code, (now, before)) in status.iter().zip(self.status.iter_mut()).enumerate() {
            if now > before {
                part.status.insert(code as u16, now - *before);
            }
            *before = *now;
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_what_came_since_the_last() {
        let moved = |sent, received| Traffic {
            sent,
            received,
            ..Traffic::default()
        };
        // Two in flight, and the bytes of the warm-up.
        let mut standing = Standing::new(2, &moved(500, 5000));
        let (mut status, mut failures) = ([0; 1000], Failures::default());
        (status[200], status[503]) = (4, 1);
        failures.add(FailureKind::Status, String::new);
        let part = standing.advance(7, &moved(600, 5500), &status, &failures);
        assert_eq!((part.started, part.sent, part.received), (5, 100, 500));
        assert_eq!(part.status, BTreeMap::from([(200, 4), (503, 1)]));
        assert_eq!(part.failures[FailureKind::Status as usize], 1);
        status[200] = 6;
        let part = standing.advance(8, &moved(600, 5501), &status, &failures);
        assert_eq!((part.started, part.sent, part.received), (1, 0, 1));
        assert_eq!(part.status, BTreeMap::from([(200, 2)]));
        assert_eq!(part.failures, [0; FailureKind::ALL.len()]);
    }

    #[test]
    fn what_comes_later_has_the_length_of_both_and_the_last_state() {
        let window = |index, length_ns, open| {
            let mut window = Window::new(index, true);
            (window.length_ns, window.open, window.ok) = (length_ns, open, 3);
            window
        };
        let mut sum = window(0, 100, 4);
        sum.append(&window(1, 50, 2));
        assert_eq!((sum.length_ns, sum.open, sum.ok), (150, 2, 6));
    }
}
