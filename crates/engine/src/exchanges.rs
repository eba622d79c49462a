//! The requests in flight on one connection, and the sink that ends them.

mod carried;

use trilane_wire::{Events, Fields, Head, StreamError, StreamId, Unprocessed};

use crate::concurrency::Share;
use crate::events::{EventStreams, EventsPlan};
use crate::failure::FailureKind;
use crate::grpc::{Calls, code_of_error};
use crate::plan::Plan;
use crate::record::{Instants, is_sampled};
use crate::scenario::Visits;
use crate::slowest::Of;
use crate::tally::{BodySum, Pending, Tally};
use crate::websocket::Sessions;

/// Attempts that a request gets in all, when the peer proved that it did not process the former ones.
/// A server that goes away closes all connections at once, and a request may try each of them.
const ATTEMPTS: u8 = 64;

/// The server does not want to risk a replay: the request is sent once more behind the handshake, and
/// not in early data (RFC 8470 §5.2).
const TOO_EARLY: u16 = 425;

/// One request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    at: Instants,
    body_bytes: u64,
    /// Content of the request, and what of it had not left when the response ended.
    content: u64,
    unsent: u64,
    crc: u32,
    /// Bytes that came behind its response and belong to none.
    surplus: u32,
    status: u16,
    attempts: u8,
    live: bool,
    /// Whether the body of the response is summed, which has not been thrown away so far.
    summed: bool,
    /// Whether it was sent in early data that the server has not rejected.
    early: bool,
}

impl Stream {
    /// Sums a piece of the body. Few bodies are summed: out of line, this leaves the code for the others short.
    #[inline(never)]
    fn sum(&mut self, bytes: &[u8]) {
        let mut crc = crc32fast::Hasher::new_with_initial(self.crc);
        crc.update(bytes);
        self.crc = crc.finalize();
    }

    /// Has the request sent once more.
    fn repeat(&self, user: u32, tally: &mut Tally<'_>) {
        tally.recorder.retried += 1;
        tally.send_again(Pending {
            request: self.at.of.request,
            number: self.at.of.number,
            attempts: self.attempts,
            intended: self.at.intended,
            start: self.at.start,
            user,
        });
    }
}

/// The requests in flight on one connection, by slot.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    slots: Vec<Stream>,
    free: Vec<u32>,
    completed: u64,
    /// Requests that a connection may carry in all, and how many more the present one may.
    most: u64,
    left: u64,
    /// Closed model: since when requests have been waiting for the present connection, as the one
    /// before it ended; 0 where they have not.
    waiting_since: u64,
    /// When the present connection was begun.
    began: u64,
    /// Whether its first response, and its first request, are still to come.
    unanswered: bool,
    unused: bool,
    /// Bytes of content of the largest request that any has carried.
    largest_content: u64,
    /// Requests that were sent on it in early data.
    sent_early: u64,
    /// Whether a connection that has carried what it may stays for a ticket, and until when the
    /// present one does; 0 where it does not.
    stays: bool,
    staying_until: u64,
    /// Where their connection stands among those of the worker, and which of the plan's origins it goes to.
    place: u32,
    origin: u32,
    /// Which of the schedule's lanes they take requests from: see [`crate::schedule::Schedule::take`].
    lane: u32,
    /// Whether all bodies are summed, those of a sample otherwise.
    sums_all: bool,
    /// Slots that stay empty: of a number in flight that changes, this connection has a part.
    withheld: usize,
    /// Where the connection has a rate of its own: since when it has had room for a request; none where it
    /// has none, or the room came in this turn.
    pub(crate) room_since: Option<u64>,
    pub(crate) share: Share,
    pub(crate) calls: Calls,
    pub(crate) events: EventStreams,
    pub(crate) visits: Visits,
    pub(crate) sessions: Sessions,
}

impl Exchanges {
    pub(crate) fn new(plan: &Plan, place: u32) -> Self {
        let count = plan.streams;
        let origin = place % plan.origins.len() as u32;
        let empty = Stream {
            at: Instants::default(),
            body_bytes: 0,
            content: 0,
            unsent: 0,
            crc: 0,
            surplus: 0,
            status: 0,
            attempts: 0,
            live: false,
            summed: false,
            early: false,
        };
        Self {
            slots: vec![empty; count],
            free: (0..count as u32).rev().collect(),
            completed: 0,
            most: plan.requests_per_connection.unwrap_or(u64::MAX),
            left: plan.requests_per_connection.unwrap_or(u64::MAX),
            waiting_since: 0,
            began: 0,
            unanswered: false,
            unused: false,
            largest_content: 0,
            sent_early: 0,
            stays: plan.resumption,
            staying_until: 0,
            place,
            origin,
            lane: if plan.rate_per_connection.is_some() {
                place
            } else {
                origin
            },
            sums_all: plan.check_body,
            withheld: if plan.stages_in_flight.is_empty() {
                0
            } else {
                count
            },
            room_since: None,
            share: Share::default(),
            calls: Calls::new(plan.calls.as_ref(), count),
            events: EventStreams::new(plan.events.as_ref(), count),
            visits: Visits::new(if plan.scenario.is_some() { count } else { 0 }),
            sessions: Sessions::new(plan.websocket.as_ref(), count),
        }
    }

    /// The slot that the next request takes.
    #[inline]
    pub(crate) fn next_slot(&self) -> Option<u32> {
        if self.left == 0 || self.free.len() <= self.withheld {
            return None;
        }
        self.free.last().copied()
    }

    /// At most so many requests may be in flight from now on; those that are beyond it end as they do.
    pub(crate) fn allow(&mut self, in_flight: u64) {
        self.withheld = self.slots.len().saturating_sub(in_flight as usize);
    }

    /// Which of the plan's origins their connection goes to.
    #[inline]
    pub(crate) fn origin(&self) -> usize {
        self.origin as usize
    }

    /// Which of the schedule's lanes they take requests from.
    #[inline]
    pub(crate) fn lane(&self) -> u32 {
        self.lane
    }

    /// Whether no request has been sent on the present connection.
    #[inline]
    pub(crate) fn are_unused(&self) -> bool {
        self.unused
    }

    /// Puts a request that has been sent, with `content` bytes of content, into the slot that
    /// `next_slot` named.
    #[inline]
    pub(crate) fn open(
        &mut self,
        id: StreamId,
        pending: Pending,
        content: u64,
        now: u64,
        early: bool,
    ) {
        self.free.pop();
        self.left -= 1;
        let cold = std::mem::replace(&mut self.unused, false);
        self.events.open(id.slot);
        self.visits.open(id.slot, pending.user);
        self.sent_early += u64::from(early);
        self.largest_content = self.largest_content.max(content);
        let start = if pending.start == 0 {
            now
        } else {
            pending.start
        };
        self.slots[id.slot as usize] = Stream {
            at: Instants {
                intended: pending.intended,
                start,
                head: 0,
                cold,
                of: Of {
                    request: pending.request,
                    place: self.place,
                    number: pending.number,
                    stream: id.number,
                },
            },
            body_bytes: 0,
            content,
            unsent: 0,
            crc: 0,
            surplus: 0,
            status: 0,
            attempts: pending.attempts + 1,
            live: true,
            summed: pending.request == 0 && (self.sums_all || is_sampled(pending.number)),
            early,
        };
    }

    pub(crate) fn in_flight(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }

    /// Complete responses so far, over all connections that had these slots.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// When the request in a slot was sent, or the stream that it is was last heard of.
    fn alive_at(&self, slot: usize) -> u64 {
        let start = self.slots[slot].at.start;
        self.calls.alive_at(slot).unwrap_or(start)
    }

    /// Since when the request has been waited for, of those in flight, that has been for longest.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let live = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, stream)| stream.live);
        live.map(|(slot, _)| self.alive_at(slot)).min()
    }

    /// The requests that have been waited for since `deadline` or before, and have not ended.
    pub(crate) fn overdue(&self, deadline: u64) -> impl Iterator<Item = StreamId> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(move |(slot, stream)| {
                (stream.live && self.alive_at(slot) <= deadline).then_some(StreamId {
                    number: stream.at.of.stream,
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
        self.sessions.close(id.slot);
        stream.at
    }

    /// When the request in a slot was sent.
    pub(crate) fn started(&self, id: StreamId) -> u64 {
        self.slots[id.slot as usize].at.start
    }

    /// Which of the plan's requests is in a slot.
    pub(crate) fn request(&self, id: StreamId) -> u32 {
        self.slots[id.slot as usize].at.of.request
    }

    /// The status of the response in a slot, and the bytes of content of its request.
    pub(crate) fn answered(&self, id: StreamId) -> (u16, u64) {
        let stream = &self.slots[id.slot as usize];
        (stream.status, stream.content)
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
        if self.unanswered {
            self.unanswered = false;
            tally.recorder.first_byte(self.began, now);
        }
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

    /// A piece of a body has come: to this stream.
    #[inline]
    pub(crate) fn data(
        &mut self,
        id: StreamId,
        length: usize,
        tally: &mut Tally<'_>,
    ) -> &mut Stream {
        tally.recorder.traffic.body_received += length as u64;
        let stream = &mut self.slots[id.slot as usize];
        stream.body_bytes += length as u64;
        stream
    }

    /// Of the content that has come the events are counted.
    fn take_events(
        &mut self,
        plan: &EventsPlan,
        id: StreamId,
        bytes: &[u8],
        now: u64,
        tally: &mut Tally<'_>,
    ) {
        let start = self.slots[id.slot as usize].at.start;
        let counts = tally.recorder.events();
        self.events.data(plan, id, bytes, (start, now), counts);
    }

    /// Bytes of content of the largest request so far.
    #[inline]
    pub(crate) fn largest_content(&self) -> u64 {
        self.largest_content
    }

    /// Bytes of content of the requests in flight.
    pub(crate) fn content(&self) -> u64 {
        let live = self.slots.iter().filter(|stream| stream.live);
        live.map(|stream| stream.content).sum()
    }

    /// The request that is alone on its connection has content, `bytes` of which at most the peer has not
    /// acknowledged.
    pub(crate) fn unacknowledged(&mut self, bytes: u64) {
        for stream in self.slots.iter_mut().filter(|stream| stream.live) {
            stream.unsent = bytes.min(stream.content);
        }
    }

    /// The response ends, and so much of the request's content has not left.
    pub(crate) fn unsent(&mut self, id: StreamId, bytes: u64) {
        self.slots[id.slot as usize].unsent += bytes;
    }

    /// So many bytes came behind the response, which is about to end, and belong to none.
    #[cold]
    pub(crate) fn surplus(&mut self, id: StreamId, bytes: u64) {
        self.slots[id.slot as usize].surplus = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    /// What is wrong with a response that has ended, where bytes came behind it.
    #[inline]
    pub(crate) fn broken(&self, id: StreamId) -> Option<String> {
        let surplus = self.slots[id.slot as usize].surplus;
        (surplus > 0).then(|| surplus_text(surplus))
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
        let user = self.visits.user(id.slot);
        self.close(id);
        if error.unprocessed == Unprocessed::Proved && stream.attempts < ATTEMPTS {
            stream.repeat(user, tally);
            return;
        }
        if tally.plan.calls.is_none() {
            tally.no_body(stream.at.of.request);
        }
        let kind = error.kind.into();
        let code = code_of_error(&error);
        let goaway = tally.goaway(error.kind);
        tally.failed_as(code, kind, now, Some(stream.at), user, || match cause {
            Some(cause) => format!("{error}: {cause}{goaway}"),
            None => format!("{error}{goaway}"),
        });
    }
}

#[cold]
fn surplus_text(bytes: u32) -> String {
    format!(
        "{bytes} bytes came behind the complete response: it was longer than its head says, or another one that nobody asked for"
    )
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
        if FULL {
            self.tally.know_server(head.fields);
        }
    }

    #[inline]
    fn data(&mut self, id: StreamId, bytes: &[u8]) {
        let stream = self.exchanges.data(id, bytes.len(), self.tally);
        if FULL || stream.summed {
            stream.sum(bytes);
        }
        if let Some(plan) = &self.tally.plan.events {
            self.exchanges
                .take_events(plan, id, bytes, self.now, self.tally);
        }
    }

    fn discarded(&mut self, id: StreamId, bytes: u64) {
        self.exchanges.data(id, bytes as usize, self.tally).summed = false;
    }

    fn unsent(&mut self, id: StreamId, bytes: u64) {
        self.exchanges.unsent(id, bytes);
    }

    fn surplus(&mut self, id: StreamId, bytes: u64) {
        self.exchanges.surplus(id, bytes);
    }

    #[inline]
    fn end(&mut self, id: StreamId, _trailers: Option<Fields<'_>>) {
        let stream = self.exchanges.slots[id.slot as usize];
        let (at, unsent) = self.exchanges.complete(id);
        let request = at.of.request;
        if let Some(plan) = &self.tally.plan.events {
            let counts = self.tally.recorder.events();
            self.exchanges
                .events
                .end(plan, id, (at.start, self.now), counts);
        }
        if unsent > 0 {
            self.tally.recorder.early.add(stream.content, unsent);
        }
        let status = stream.status;
        if stream.surplus > 0 {
            self.tally.no_body(request);
            let kind = FailureKind::Protocol;
            let recorder = &mut self.tally.recorder;
            recorder.failed(kind, self.now, Some(stream.at), || {
                surplus_text(stream.surplus)
            });
            return;
        }
        if !self.tally.plan.accepts(request, status) {
            if stream.early && status == TOO_EARLY {
                let recorder = &mut self.tally.recorder;
                recorder.of_connection(self.exchanges.began, |phases| phases.early.too_early += 1);
                // The same connection may carry it: its handshake is done, or is about to be.
                self.exchanges.left += 1;
                stream.repeat(0, self.tally);
                return;
            }
            self.tally.no_body(request);
            self.tally
                .recorder
                .failed(FailureKind::Status, self.now, Some(stream.at), || {
                    format!("the server answered with status {status}")
                });
            return;
        }
        let sum = BodySum {
            bytes: stream.body_bytes,
            crc32: stream.crc,
        };
        if FULL {
            match self.tally.first.bodies[request as usize] {
                None => self.tally.know_body(request, sum),
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
        let recorder = &mut self.tally.recorder;
        recorder.bodies.add(sum.bytes);
        if stream.summed {
            recorder.bodies.sum(sum);
        }
        recorder.ok(self.now, stream.at);
    }

    fn goaway(&mut self, code: u64, debug: &[u8]) {
        self.tally.know_goaway(code, debug);
    }

    fn fail(&mut self, id: StreamId, error: StreamError) {
        self.exchanges
            .fail(id, error, self.now, self.cause, self.tally);
    }
}

/// Evaluates `$call` with the sink that fits the run: for calls, for sessions, for a scenario, with bodies summed, or counting
/// alone. `$cause` is what the transport said when it failed, for messages.
macro_rules! with_sink {
    ($context:expr, $exchanges:expr, $now:expr, $cause:expr, $sink:ident => $call:expr) => {{
        let (now, exchanges, cause) = ($now, &mut *$exchanges, $cause);
        let tally = &mut $context.tally;
        if let Some(plan) = &tally.plan.calls {
            let $sink = &mut $crate::grpc::CallSink {
                now,
                plan,
                exchanges,
                tally,
                cause,
            };
            $call
        } else if let Some(plan) = &tally.plan.websocket {
            let $sink = &mut $crate::websocket::SocketSink {
                now,
                plan,
                exchanges,
                tally,
                cause,
            };
            $call
        } else if let Some(plan) = &tally.plan.scenario {
            let $sink = &mut $crate::scenario::StepSink {
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
    use crate::record::Recorder;
    use crate::tally::FRUITLESS;

    #[test]
    fn a_url_that_is_never_good_does_not_hold_up_the_others() {
        let plan = Plan::new(&Options {
            urls: vec!["http://a/good".into(), "http://a/bad".into()],
            ..Options::default()
        })
        .unwrap();
        let mut exchanges = Exchanges::new(&plan, 0);
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
                    ..Pending::default()
                };
                exchanges.open(id, pending, 0, 1, false);
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
}
