//! What one worker counts of its calls.

use serde::{Deserialize, Serialize};
use trilane_grpc::status::Code;

use super::kept::Response;
use crate::latency::Durations;
use crate::record::Messages;

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
    /// Streams: from the event that a message follows to its arrival. The sum of what [`Self::recent`] has been.
    pub(crate) message: Durations,
    /// The same in the present window.
    pub(crate) recent: Durations,
    /// Messages sent and received that windows have been told of.
    told: (u64, u64),
    pub(crate) encoding: Spent,
    pub(crate) decoding: Spent,
    /// The last response, where responses are kept: by a run of one machine alone.
    #[serde(skip)]
    pub(crate) response: Option<Box<Response>>,
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
            recent: Durations::new(),
            told: (0, 0),
            encoding: Spent::default(),
            decoding: Spent::default(),
            response: None,
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

    /// What is kept of a response that has begun; none where responses are not kept.
    #[inline]
    pub(crate) fn kept(&mut self) -> Option<&mut Response> {
        self.response.as_deref_mut()
    }

    /// What there was of messages in the present window; the next one begins.
    pub(crate) fn finish_window(&mut self) -> Messages {
        let (sent, received) = self.told;
        let messages = Messages {
            // Those that had not left when their call ended are taken back: they have been told by then.
            sent: self.sent.saturating_sub(sent),
            received: self.received.saturating_sub(received),
            latency: (self.recent.count() > 0).then(|| {
                self.message.merge(&self.recent);
                std::mem::replace(&mut self.recent, Durations::new())
            }),
        };
        self.told = (sent + messages.sent, received + messages.received);
        messages
    }

    /// Begins anew, at the end of the warm-up.
    pub(crate) fn clear(&mut self) {
        self.response = None;
        self.message.clear();
        self.recent.clear();
        self.told = (0, 0);
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
        if let Some(response) = &other.response {
            self.response = Some(response.clone());
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
