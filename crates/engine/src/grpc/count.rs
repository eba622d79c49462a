//! What one worker counts of its calls.

use serde::{Deserialize, Serialize};
use trilane_grpc::status::Code;

use crate::latency::Durations;

/// The number of status codes.
const CODES: usize = Code::ALL.len();

/// The counts of one worker; nothing grows with the number of calls.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Calls that ended, by the number of their status.
    status: [u64; CODES],
    /// How long they took, each made by the first of its status.
    lasted: [Option<Box<Durations>>; CODES],
    /// By method.
    methods: Vec<MethodCounts>,
    /// Streams: from the event that a message follows to its arrival.
    pub(crate) message: Durations,
    pub(crate) encoding: Spent,
    pub(crate) decoding: Spent,
}

/// The calls of one of several methods.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MethodCounts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    /// How long the ok ones took.
    pub(crate) lasted: Durations,
}

/// Time spent on something, and how often.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spent {
    nanoseconds: u64,
    times: u64,
}

impl Spent {
    pub(crate) fn add(&mut self, nanoseconds: u64, times: u64) {
        self.nanoseconds += nanoseconds;
        self.times += times;
    }

    /// Microseconds each time.
    pub(crate) fn mean_us(self) -> Option<f64> {
        (self.times > 0).then(|| self.nanoseconds as f64 / 1e3 / self.times as f64)
    }
}

impl MethodCounts {
    pub(crate) fn new() -> Self {
        Self {
            ok: 0,
            failed: 0,
            lasted: Durations::new(),
        }
    }
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            sent: 0,
            received: 0,
            status: [0; CODES],
            lasted: [const { None }; CODES],
            methods: Vec::new(),
            message: Durations::new(),
            encoding: Spent::default(),
            decoding: Spent::default(),
        }
    }

    /// A call has ended with this status, so many nanoseconds after it was sent where it had been.
    #[inline]
    pub(crate) fn ended(&mut self, code: Code, lasted: Option<u64>) {
        self.status[code as usize] += 1;
        if let Some(lasted) = lasted {
            self.lasted[code as usize]
                .get_or_insert_with(|| Box::new(Durations::new()))
                .record(lasted);
        }
    }

    /// The counts of a method; of one that is called alone there is no need for any.
    pub(crate) fn method(&mut self, index: usize) -> &mut MethodCounts {
        while self.methods.len() <= index {
            self.methods.push(MethodCounts::new());
        }
        &mut self.methods[index]
    }

    /// Begins anew, at the end of the warm-up.
    pub(crate) fn clear(&mut self) {
        self.message.clear();
        (self.sent, self.received) = (0, 0);
        (self.encoding, self.decoding) = (Spent::default(), Spent::default());
        self.status = [0; CODES];
        for lasted in self.lasted.iter_mut().flatten() {
            lasted.clear();
        }
        for method in &mut self.methods {
            (method.ok, method.failed) = (0, 0);
            method.lasted.clear();
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        for (sum, count) in self.status.iter_mut().zip(other.status) {
            *sum += count;
        }
        for (sum, more) in self.lasted.iter_mut().zip(&other.lasted) {
            if let Some(more) = more {
                sum.get_or_insert_with(|| Box::new(Durations::new()))
                    .merge(more);
            }
        }
        for (index, more) in other.methods.iter().enumerate() {
            let sum = self.method(index);
            sum.ok += more.ok;
            sum.failed += more.failed;
            sum.lasted.merge(&more.lasted);
        }
        self.message.merge(&other.message);
        for (sum, part) in [
            (&mut self.encoding, other.encoding),
            (&mut self.decoding, other.decoding),
        ] {
            sum.add(part.nanoseconds, part.times);
        }
    }

    /// Name and count of each status that occurred.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counted = Code::ALL.into_iter().zip(self.status);
        counted
            .filter(|(_, count)| *count > 0)
            .map(|(code, count)| (code.name(), count))
    }

    /// Name of each status that occurred, and how long its calls took.
    pub(crate) fn lasted(&self) -> impl Iterator<Item = (&'static str, &Durations)> {
        let counted = Code::ALL.into_iter().zip(&self.lasted);
        counted.filter_map(|(code, lasted)| {
            let lasted = lasted.as_deref().filter(|lasted| lasted.count() > 0)?;
            Some((code.name(), lasted))
        })
    }
}
