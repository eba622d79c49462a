//! The requests in flight on one connection, and the sink that ends them.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use trilane_wire::{Events, Fields, Head, StreamError, StreamId, Unprocessed};

use crate::concurrency::Share;
use crate::failure::FailureKind;
use crate::grpc::Calls;
use crate::plan::Plan;
use crate::record::{Instants, Recorder};

/// Attempts that a request gets in all, when the peer proved that it did not process the former ones.
/// A server that goes away closes all connections at once, and a request may try each of them.
const ATTEMPTS: u8 = 64;

/// A request that is to be sent: a new one, or one more time. The oldest is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) request: u32,
    pub(crate) attempts: u8,
    pub(crate) intended: u64,
    /// When it was first sent; 0 for a new one.
    pub(crate) start: u64,
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |pending: &Self| Reverse((pending.intended, pending.start, pending.request));
        key(self)
            .cmp(&key(other))
            .then(self.attempts.cmp(&other.attempts))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One request in flight.
#[derive(Clone, Copy, Debug)]
struct Stream {
    number: u64,
    at: Instants,
    body_bytes: u64,
    /// Content of the request that had not left when the response ended.
    unsent: u64,
    request: u32,
    crc: u32,
    status: u16,
    attempts: u8,
    live: bool,
}

/// The requests in flight on one connection, by slot.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    slots: Vec<Stream>,
    free: Vec<u32>,
    completed: u64,
    pub(crate) share: Share,
    pub(crate) calls: Calls,
}

impl Exchanges {
    pub(crate) fn new(plan: &Plan) -> Self {
        let count = plan.streams;
        let empty = Stream {
            number: 0,
            at: Instants::default(),
            body_bytes: 0,
            unsent: 0,
            request: 0,
            crc: 0,
            status: 0,
            attempts: 0,
            live: false,
        };
        Self {
            slots: vec![empty; count],
            free: (0..count as u32).rev().collect(),
            completed: 0,
            share: Share::default(),
            calls: Calls::new(plan.call.as_ref(), count),
        }
    }

    /// The slot that the next request takes.
    pub(crate) fn next_slot(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Puts a request that has been sent into the slot that `next_slot` named.
    pub(crate) fn open(&mut self, id: StreamId, pending: Pending, now: u64) {
        self.free.pop();
        let start = if pending.start == 0 {
            now
        } else {
            pending.start
        };
        self.slots[id.slot as usize] = Stream {
            number: id.number,
            at: Instants {
                intended: pending.intended,
                start,
                head: 0,
            },
            body_bytes: 0,
            unsent: 0,
            request: pending.request,
            crc: 0,
            status: 0,
            attempts: pending.attempts + 1,
            live: true,
        };
    }

    pub(crate) fn in_flight(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }

    /// Complete responses so far, over all connections that had these slots.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// When the oldest of the requests in flight was sent.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let live = self.slots.iter().filter(|stream| stream.live);
        live.map(|stream| stream.at.start).min()
    }

    /// The requests sent at or before `deadline` that have not ended.
    pub(crate) fn overdue(&self, deadline: u64) -> impl Iterator<Item = StreamId> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(move |(slot, stream)| {
                (stream.live && stream.at.start <= deadline).then_some(StreamId {
                    number: stream.number,
                    slot: slot as u32,
                })
            })
    }

    /// Frees a slot and says when its request was sent.
    pub(crate) fn close(&mut self, id: StreamId) -> Instants {
        let stream = &mut self.slots[id.slot as usize];
        stream.live = false;
        self.free.push(id.slot);
        self.calls.close(id.slot);
        stream.at
    }

    /// When the request in a slot was sent.
    pub(crate) fn started(&self, id: StreamId) -> u64 {
        self.slots[id.slot as usize].at.start
    }

    /// The response is complete: frees the slot and says when its request was sent, and how much of
    /// the request's content had not left.
    #[inline]
    pub(crate) fn complete(&mut self, id: StreamId) -> (Instants, u64) {
        self.completed += 1;
        let unsent = self.slots[id.slot as usize].unsent;
        (self.close(id), unsent)
    }

    /// The head of a response has come.
    #[inline]
    pub(crate) fn head(&mut self, id: StreamId, now: u64, head: &Head<'_>, tally: &mut Tally<'_>) {
        let stream = &mut self.slots[id.slot as usize];
        stream.at.head = now;
        stream.status = head.status;
        let recorder = &mut tally.recorder;
        if let Some(count) = recorder.status.get_mut(usize::from(head.status)) {
            *count += 1;
        }
        recorder.traffic.fields_received_encoded += head.encoded_bytes as u64;
        recorder.traffic.fields_received_decoded += head.decoded_bytes as u64;
    }

    /// A piece of a body has come.
    #[inline]
    pub(crate) fn data(&mut self, id: StreamId, length: usize, tally: &mut Tally<'_>) {
        self.slots[id.slot as usize].body_bytes += length as u64;
        tally.recorder.traffic.body_received += length as u64;
    }

    /// The response ends, and so much of the request's content has not left.
    pub(crate) fn unsent(&mut self, id: StreamId, bytes: u64) {
        self.slots[id.slot as usize].unsent += bytes;
    }

    /// The request failed: it is sent again where the peer proved that it did not process it, else
    /// counted. A connection that closes is no proof, and a failure in every version alike.
    pub(crate) fn fail(
        &mut self,
        id: StreamId,
        error: StreamError,
        now: u64,
        cause: Option<&str>,
        tally: &mut Tally<'_>,
    ) {
        let stream = self.slots[id.slot as usize];
        self.close(id);
        if error.unprocessed == Unprocessed::Proved && stream.attempts < ATTEMPTS {
            tally.recorder.retried += 1;
            tally.retries.push(Pending {
                request: stream.request,
                attempts: stream.attempts,
                intended: stream.at.intended,
                start: stream.at.start,
            });
            return;
        }
        if tally.plan.call.is_none() {
            tally.no_body(stream.request);
        }
        tally
            .recorder
            .failed(error.kind.into(), now, Some(stream.at), || match cause {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            });
    }
}

/// The `server` field of a response, bounded.
pub(crate) fn server_name(fields: Fields<'_>) -> String {
    let server = fields.first(b"server").unwrap_or_default();
    String::from_utf8_lossy(server).chars().take(200).collect()
}

/// The body that every other must equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodySum {
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// What the first response told about the server; later ones are only counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstResponse {
    pub(crate) server: Option<String>,
    /// For each prepared request the body of its first complete response.
    pub(crate) bodies: Vec<Option<BodySum>>,
}

/// Everything of a worker that the end of a request touches.
#[derive(Debug)]
pub(crate) struct Tally<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) recorder: Recorder,
    /// Requests to be sent again, the oldest first: none is overtaken for ever by those that failed
    /// before it.
    pub(crate) retries: BinaryHeap<Pending>,
    pub(crate) first: FirstResponse,
    /// Prepared requests whose first body is not known yet, and may still come.
    unknown_bodies: usize,
    /// For each prepared request the attempts that ended without a body to know.
    fruitless: Vec<u8>,
}

/// A request that has ended without a good body so many times is not looked at for one any more: it
/// would keep every body of the run from being taken in the quick way.
const FRUITLESS: u8 = 100;

impl<'p> Tally<'p> {
    pub(crate) fn new(plan: &'p Plan, recorder: Recorder) -> Self {
        let requests = plan.prepared.len();
        Self {
            plan,
            recorder,
            retries: BinaryHeap::new(),
            first: FirstResponse {
                server: None,
                bodies: vec![None; requests],
            },
            // Calls are judged by their status and messages.
            unknown_bodies: if plan.call.is_some() { 0 } else { requests },
            fruitless: vec![0; requests],
        }
    }

    /// A request has ended without a body to know.
    fn no_body(&mut self, request: u32) {
        let request = request as usize;
        let fruitless = &mut self.fruitless[request];
        if self.first.bodies[request].is_none() && *fruitless < FRUITLESS {
            *fruitless += 1;
            if *fruitless == FRUITLESS {
                self.unknown_bodies = self.unknown_bodies.saturating_sub(1);
            }
        }
    }

    /// The first body of a request is known.
    fn know_body(&mut self, request: u32, sum: BodySum) {
        let request = request as usize;
        self.first.bodies[request] = Some(sum);
        if self.fruitless[request] < FRUITLESS {
            self.unknown_bodies = self.unknown_bodies.saturating_sub(1);
        }
    }

    /// Whether bodies have to be summed: until each request's first is known, and always where asked.
    pub(crate) fn sums_bodies(&self) -> bool {
        self.plan.check_body || self.unknown_bodies > 0
    }
}

/// The sink of one call of `receive`. With `FULL` fields are decoded and bodies summed.
pub(crate) struct Sink<'a, 'p, const FULL: bool> {
    pub(crate) now: u64,
    pub(crate) exchanges: &'a mut Exchanges,
    pub(crate) tally: &'a mut Tally<'p>,
    /// What the transport said when it failed, for messages.
    pub(crate) cause: Option<&'a str>,
}

impl<const FULL: bool> Events for Sink<'_, '_, FULL> {
    const FIELDS: bool = FULL;

    #[inline]
    fn head(&mut self, id: StreamId, head: Head<'_>) {
        self.exchanges.head(id, self.now, &head, self.tally);
        if FULL && self.tally.first.server.is_none() {
            self.tally.first.server = Some(server_name(head.fields));
        }
    }

    #[inline]
    fn data(&mut self, id: StreamId, bytes: &[u8]) {
        self.exchanges.data(id, bytes.len(), self.tally);
        if FULL {
            let stream = &mut self.exchanges.slots[id.slot as usize];
            let mut crc = crc32fast::Hasher::new_with_initial(stream.crc);
            crc.update(bytes);
            stream.crc = crc.finalize();
        }
    }

    fn unsent(&mut self, id: StreamId, bytes: u64) {
        self.exchanges.unsent(id, bytes);
    }

    #[inline]
    fn end(&mut self, id: StreamId, _trailers: Option<Fields<'_>>) {
        let stream = self.exchanges.slots[id.slot as usize];
        let (_, unsent) = self.exchanges.complete(id);
        if unsent > 0 {
            let body = self.tally.plan.prepared[stream.request as usize].body();
            self.tally.recorder.early.add(body.len() as u64, unsent);
        }
        let status = stream.status;
        if !self.tally.plan.accepts(status) {
            self.tally.no_body(stream.request);
            self.tally
                .recorder
                .failed(FailureKind::Status, self.now, Some(stream.at), || {
                    format!("the server answered with status {status}")
                });
            return;
        }
        if FULL {
            let sum = BodySum {
                bytes: stream.body_bytes,
                crc32: stream.crc,
            };
            match self.tally.first.bodies[stream.request as usize] {
                None => self.tally.know_body(stream.request, sum),
                Some(expected) if self.tally.plan.check_body && expected != sum => {
                    self.tally.recorder.failed(FailureKind::Body, self.now, Some(stream.at), || {
                        format!(
                            "a body of {} bytes with CRC-32 {:08x} differs from the first, {} bytes with {:08x}",
                            sum.bytes, sum.crc32, expected.bytes, expected.crc32
                        )
                    });
                    return;
                }
                Some(_) => (),
            }
        }
        self.tally.recorder.ok(self.now, stream.at);
    }

    fn fail(&mut self, id: StreamId, error: StreamError) {
        self.exchanges
            .fail(id, error, self.now, self.cause, self.tally);
    }
}

/// Evaluates `$call` with the sink that fits the run: for calls, with bodies summed, or counting
/// alone. `$cause` is what the transport said when it failed, for messages.
macro_rules! with_sink {
    ($context:expr, $exchanges:expr, $now:expr, $cause:expr, $sink:ident => $call:expr) => {{
        let (now, exchanges, cause) = ($now, &mut *$exchanges, $cause);
        let tally = &mut $context.tally;
        if let Some(plan) = &tally.plan.call {
            let $sink = &mut $crate::grpc::CallSink {
                now,
                plan,
                exchanges,
                tally,
                cause,
            };
            $call
        } else if tally.sums_bodies() {
            let $sink = &mut $crate::exchanges::Sink::<true> {
                now,
                exchanges,
                tally,
                cause,
            };
            $call
        } else {
            let $sink = &mut $crate::exchanges::Sink::<false> {
                now,
                exchanges,
                tally,
                cause,
            };
            $call
        }
    }};
}

pub(crate) use with_sink;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn a_url_that_is_never_good_does_not_hold_up_the_others() {
        let plan = Plan::new(&Options {
            urls: vec!["http://a/good".into(), "http://a/bad".into()],
            ..Options::default()
        })
        .unwrap();
        let mut exchanges = Exchanges::new(&plan);
        let mut tally = Tally::new(&plan, Recorder::new(false));
        for turn in 0..u64::from(FRUITLESS) {
            assert!(tally.sums_bodies(), "after {turn}");
            for (request, status) in [(0, 200), (1, 404)] {
                let id = StreamId {
                    number: 2 * turn + u64::from(request),
                    slot: exchanges.next_slot().unwrap(),
                };
                let pending = Pending {
                    request,
                    attempts: 0,
                    intended: 0,
                    start: 0,
                };
                exchanges.open(id, pending, 1);
                exchanges.slots[id.slot as usize].status = status;
                let mut sink = Sink::<true> {
                    now: 2,
                    exchanges: &mut exchanges,
                    tally: &mut tally,
                    cause: None,
                };
                sink.end(id, None);
            }
        }
        assert!(!tally.sums_bodies());
        assert_eq!(tally.first.bodies.iter().flatten().count(), 1);
    }

    #[test]
    fn the_oldest_request_is_sent_again_first() {
        let pending = |intended, attempts| Pending {
            request: 0,
            attempts,
            intended,
            start: intended,
        };
        let mut retries = BinaryHeap::from([pending(30, 1), pending(10, 2), pending(20, 9)]);
        retries.push(pending(10, 3));
        let order = std::iter::from_fn(|| retries.pop());
        let order: Vec<_> = order.map(|p| (p.intended, p.attempts)).collect();
        assert_eq!(order, [(10, 3), (10, 2), (20, 9), (30, 1)]);
    }
}
