//! The sink of calls: counts messages and finds out how a call ended.

use trilane_grpc::status::{self, Code};
use trilane_wire::{ErrorKind, Events, Fields, Head, StreamError, StreamId};

use super::kept::Response;
use super::plan::{CallPlan, CallsPlan};
use super::response::{LONGEST_ERROR, Verdict, shown};
use super::state::{Encoding, State};
use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::record::Instants;
use crate::tally::Tally;

/// The sink of one call of `receive` where requests are gRPC calls.
pub(crate) struct CallSink<'a, 'p> {
    pub(crate) now: u64,
    pub(crate) plan: &'p CallsPlan,
    pub(crate) exchanges: &'a mut Exchanges,
    pub(crate) tally: &'a mut Tally<'p>,
    /// What the transport said when it failed, for messages.
    pub(crate) cause: Option<&'a str>,
}

impl<'p> CallSink<'_, 'p> {
    /// A piece of content that is one message, or says what went wrong.
    fn bare(&mut self, id: StreamId, plan: &CallPlan, bytes: &[u8]) {
        let state = self.state(id);
        if state.broken.is_some() {
            return;
        }
        let most = match state.http {
            None => plan.max_message,
            Some(_) => LONGEST_ERROR,
        };
        let room = most.saturating_sub(state.body.len());
        state
            .body
            .extend_from_slice(&bytes[..room.min(bytes.len())]);
        if bytes.len() > room && state.http.is_none() {
            state.break_off(FailureKind::Limit, Code::ResourceExhausted, || {
                format!("a message is over the limit of {most} bytes: for larger ones type --max-message")
            });
            self.exchanges.calls.ended.push(id);
            self.exchanges.calls.over.push(id);
            end_ours(self.plan, self.exchanges, self.tally, self.now);
        }
    }

    fn state(&mut self, id: StreamId) -> &mut State {
        &mut self.exchanges.calls.slots[id.slot as usize]
    }

    fn call(&self, id: StreamId) -> &'p CallPlan {
        self.plan.of(self.exchanges.request(id))
    }
}

/// Counts the calls on a connection that were ended by us: those that have lasted as long as they may are
/// ok, and CANCELLED; others have failed.
pub(crate) fn end_ours(
    plan: &CallsPlan,
    exchanges: &mut Exchanges,
    tally: &mut Tally<'_>,
    now: u64,
) {
    while let Some(id) = exchanges.calls.over.pop() {
        let call = plan.of(exchanges.request(id));
        let (at, _) = exchanges.complete(id);
        let state = &mut exchanges.calls.slots[id.slot as usize];
        let verdict = match state.broken.take() {
            Some((kind, code, text)) => (code, Err((kind, text))),
            None => (Code::Cancelled, Ok(())),
        };
        end(call, exchanges, tally, (id, at), verdict, now);
    }
}

/// A call has ended so.
fn end(
    call: &CallPlan,
    exchanges: &mut Exchanges,
    tally: &mut Tally<'_>,
    (id, at): (StreamId, Instants),
    (code, verdict): Verdict,
    now: u64,
) {
    if let Some(plan) = &tally.plan.events
        && call.receives_stream()
    {
        let times = (at.start, now);
        let counts = tally.recorder.events();
        exchanges.events.end(plan, id, times, counts);
    }
    tally.count_call(code, Some(at), now, verdict.is_ok());
    match verdict {
        Ok(()) => tally.recorder.ok(now, at),
        Err((kind, text)) => tally.recorder.failed(kind, now, Some(at), || text),
    }
}

impl Events for CallSink<'_, '_> {
    // A call that fails has its status in the head.
    const FIELDS: bool = true;

    fn head(&mut self, id: StreamId, head: Head<'_>) {
        if !self.exchanges.calls.is_live(id) {
            return;
        }
        self.exchanges.head(id, self.now, &head, self.tally);
        self.tally.know_server(head.fields);
        let (call, offers_gzip) = (self.call(id), self.plan.asked.gzip);
        let (encoding, _) = call.protocol.encoding_fields(call.kind());
        let state = self.state(id);
        state.read_status(head.fields);
        state.in_head = state.status.is_some();
        state.http_status = head.status;
        if call.keeps() {
            let kept = Box::new(Response::new(head.status, head.fields));
            self.tally.recorder.calls().response = Some(kept);
        }
        let state = self.state(id);
        state.encoding = match head.fields.first(encoding.as_bytes()) {
            None | Some(b"identity") => Encoding::None,
            Some(b"gzip") if offers_gzip => Encoding::Offered,
            Some(other) => Encoding::Other(shown(other)),
        };
        if head.status != 200 {
            let code = status::of_http(head.status);
            let text = format!("HTTP status {}, which is {code} in gRPC", head.status);
            state.http = Some((code, text));
            if call.is_bare() {
                // The content says it better.
                state.broken = None;
            }
            return;
        }
        let kind = head.fields.first(b"content-type").unwrap_or_default();
        if !call.protocol.is_answer(call.kind(), kind) {
            let kind = shown(kind);
            let wanted = call.protocol.content_type(call.kind());
            let code = match call.protocol.is_other_codec(call.kind(), kind.as_bytes()) {
                true => Code::Internal,
                // As for any other status of HTTP that says nothing.
                false => Code::Unknown,
            };
            state.break_off(FailureKind::Protocol, code, || {
                format!("the content-type of the response is {kind:?}, not {wanted}")
            });
        }
    }

    fn data(&mut self, id: StreamId, bytes: &[u8]) {
        if !self.exchanges.calls.is_live(id) {
            self.tally.recorder.traffic.body_received += bytes.len() as u64;
            return;
        }
        self.exchanges.data(id, bytes.len(), self.tally);
        let (plan, now) = (self.call(id), self.now);
        let state = &mut self.exchanges.calls.slots[id.slot as usize];
        if std::mem::take(&mut state.in_head) {
            // Only a response of a head alone has its status there (gRPC over HTTP/2, "Trailers-Only").
            state.status = None;
        }
        if plan.is_bare() {
            return self.bare(id, plan, bytes);
        }
        if state.broken.is_some() || state.http.is_some() {
            if let Some(kept) = self.tally.recorder.calls().kept() {
                kept.text(bytes);
            }
            return;
        }
        let before = state.received;
        state.take(plan, bytes, self.tally);
        let is_over = matches!(state.broken, Some((FailureKind::Limit, ..)));
        let messages = state.received - before;
        if messages > 0 {
            // One read may bring several frames.
            if state.last != now {
                state.before = std::mem::replace(&mut state.last, now);
            }
            let counts = self.tally.recorder.calls();
            counts.received += messages;
            if state.alive != 0 {
                state.alive = now;
            }
            if plan.awaits_answers() {
                state.answered(plan, messages, |since| {
                    counts.recent.record(now.saturating_sub(since));
                });
            } else if plan.receives_stream() {
                // Those of one read have come at the same time, and each after those before that.
                counts
                    .recent
                    .record_many(now.saturating_sub(state.before), messages);
            }
            if state.upload.is_open {
                self.exchanges.calls.is_due(id);
            }
            if let Some(plan) = self
                .tally
                .plan
                .events
                .as_ref()
                .filter(|_| plan.receives_stream())
            {
                let at = (self.exchanges.started(id), now);
                let counts = self.tally.recorder.events();
                for _ in 0..messages {
                    self.exchanges.events.message(plan, id, at, counts);
                }
            }
        }
        if is_over {
            // What else comes is of no use: the stream is given up when the next requests are sent.
            self.exchanges.calls.ended.push(id);
            self.exchanges.calls.over.push(id);
            end_ours(self.plan, self.exchanges, self.tally, now);
        }
    }

    fn unsent(&mut self, id: StreamId, bytes: u64) {
        if self.exchanges.calls.is_live(id) {
            self.exchanges.unsent(id, bytes);
        }
    }

    fn surplus(&mut self, id: StreamId, bytes: u64) {
        if self.exchanges.calls.is_live(id) {
            self.exchanges.surplus(id, bytes);
        }
    }

    fn end(&mut self, id: StreamId, trailers: Option<Fields<'_>>) {
        if !self.exchanges.calls.is_live(id) {
            return;
        }
        let plan = self.call(id);
        let (at, unsent) = self.exchanges.complete(id);
        let state = self.state(id);
        if let Some(trailers) = trailers {
            state.status = None;
            state.read_status(trailers);
            if plan.keeps()
                && let Some(kept) = self.tally.recorder.calls().kept()
            {
                kept.trailers(trailers);
            }
        }
        if plan.is_bare() {
            let state = &mut self.exchanges.calls.slots[id.slot as usize];
            state.conclude(plan, self.tally);
        }
        if let Some(text) = self.exchanges.broken(id) {
            self.state(id)
                .break_off(FailureKind::Protocol, Code::Internal, || text);
        }
        let state = self.state(id);
        let verdict = state.verdict(plan);
        let left = state.left(plan, unsent);
        let is_open = state.upload.is_open;
        if is_open {
            // To give up what is left of the content.
            self.exchanges.calls.ended.push(id);
        }
        let recorder = &mut self.tally.recorder;
        let counts = recorder.calls();
        counts.sent = counts.sent.saturating_sub(left.messages);
        if left.is_cut {
            recorder.early.add(left.content, left.bytes);
        }
        end(
            plan,
            self.exchanges,
            self.tally,
            (id, at),
            verdict,
            self.now,
        );
    }

    fn goaway(&mut self, code: u64, debug: &[u8]) {
        self.tally.know_goaway(code, debug);
    }

    fn fail(&mut self, id: StreamId, error: StreamError) {
        if !self.exchanges.calls.is_live(id) {
            return;
        }
        // Servers that see the deadline pass may reset the stream instead of answering.
        let since = self.now.saturating_sub(self.exchanges.started(id));
        if let Some(deadline) = self.tally.plan.deadline()
            && error.kind == ErrorKind::Reset
            && u128::from(since) >= deadline.as_nanos()
        {
            let at = self.exchanges.close(id);
            self.tally.deadline_exceeded(self.now, at, deadline);
            return;
        }
        self.exchanges
            .fail(id, error, self.now, self.cause, self.tally);
    }
}
