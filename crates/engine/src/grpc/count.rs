//! What one worker counts of its calls.

use trilane_grpc::status::Code;

use crate::latency::Durations;

/// The number of status codes.
const CODES: usize = 17;

/// The counts of one worker; nothing grows with the number of calls.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Calls that ended with a status, by its number.
    status: [u64; CODES],
    /// Streams: from the event that a message follows to its arrival.
    pub(crate) message: Durations,
    pub(crate) encoding: Spent,
    pub(crate) decoding: Spent,
}

/// Time spent on something, and how often.
#[derive(Clone, Copy, Debug, Default)]
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

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            sent: 0,
            received: 0,
            status: [0; CODES],
            message: Durations::new(),
            encoding: Spent::default(),
            decoding: Spent::default(),
        }
    }

    pub(crate) fn ended(&mut self, code: Code) {
        self.status[code as usize] += 1;
    }

    /// Begins anew, at the end of the warm-up.
    pub(crate) fn clear(&mut self) {
        self.message.clear();
        (self.sent, self.received) = (0, 0);
        (self.encoding, self.decoding) = (Spent::default(), Spent::default());
        self.status = [0; CODES];
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        for (sum, count) in self.status.iter_mut().zip(other.status) {
            *sum += count;
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
        self.status
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .filter_map(|(number, count)| {
                let code = Code::from_u32(number as u32)?;
                Some((code.name(), *count))
            })
    }
}
