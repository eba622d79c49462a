//! The sink of calls: counts messages and finds out how a call ended.

use std::time::Instant;

use trilane_grpc::frame::FrameError;
use trilane_grpc::status::Code;
use trilane_grpc::{Method, gzip, status};
use trilane_wire::{ErrorKind, Events, Fields, Head, StreamError, StreamId};

use super::plan::{CallPlan, CallsPlan};
use super::state::{Encoding, State};
use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::record::Instants;
use crate::tally::Tally;

/// How a call ended: its status, and why it is not ok where it is not.
type Verdict = (Code, Result<(), (FailureKind, String)>);

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
        let offers_gzip = self.plan.asked.gzip;
        let state = self.state(id);
        state.read_status(head.fields);
        state.in_head = state.status.is_some();
        state.encoding = match head.fields.first(b"grpc-encoding") {
            None | Some(b"identity") => Encoding::None,
            Some(b"gzip") if offers_gzip => Encoding::Offered,
            Some(other) => Encoding::Other(shown(other)),
        };
        if head.status != 200 {
            let code = status::of_http(head.status);
            let text = format!("HTTP status {}, which is {code} in gRPC", head.status);
            state.http = Some((code, text));
            return;
        }
        let kind = head.fields.first(b"content-type").unwrap_or_default();
        if !is_grpc(kind) {
            let kind = shown(kind);
            // As for any other status of HTTP that says nothing.
            state.break_off(FailureKind::Protocol, Code::Unknown, || {
                format!("the content-type of the response is {kind:?}, not application/grpc")
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
        if state.broken.is_some() || state.http.is_some() {
            return;
        }
        let before = state.received;
        state.take(plan, bytes, self.tally);
        let is_over = matches!(state.broken, Some((FailureKind::Limit, ..)));
        let messages = state.received - before;
        if messages > 0 {
            let counts = self.tally.recorder.calls();
            counts.received += messages;
            if state.alive != 0 {
                state.alive = now;
            }
            if plan.awaits_answers() {
                state.answered(plan, messages, |since| {
                    counts.message.record(now.saturating_sub(since));
                });
            } else if plan.receives_stream() {
                // Those of one read have come at the same time, and each after those before that.
                counts
                    .message
                    .record_many(now.saturating_sub(state.last), messages);
            }
            state.last = now;
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
            self.exchanges.calls.due.push_back(id);
            self.exchanges.calls.over.push(id);
            end_ours(self.plan, self.exchanges, self.tally, now);
        }
    }

    fn unsent(&mut self, id: StreamId, bytes: u64) {
        if self.exchanges.calls.is_live(id) {
            self.exchanges.unsent(id, bytes);
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
        }
        let verdict = state.verdict(plan);
        let left = state.left(plan, unsent);
        let is_open = state.upload.is_open;
        if is_open {
            // To give up what is left of the content.
            self.exchanges.calls.due.push_back(id);
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

/// What of a call's content had not left when its response ended.
struct Left {
    is_cut: bool,
    /// Bytes of the content, and what of them had not left.
    content: u64,
    bytes: u64,
    /// Messages that were counted as sent and had not left whole.
    messages: u64,
}

impl State {
    fn read_status(&mut self, fields: Fields<'_>) {
        let mut values = fields
            .iter()
            .filter(|(name, _)| *name == b"grpc-status")
            .map(|(_, value)| value);
        let Some(value) = values.next() else {
            return;
        };
        if let Some(other) = values.find(|other| *other != value) {
            let (one, other) = (shown(value), shown(other));
            self.break_off(FailureKind::Protocol, Code::Internal, || {
                format!("grpc-status came twice, as {one:?} and as {other:?}")
            });
            return;
        }
        let Some(code) = status::parse(value) else {
            let value = shown(value);
            self.break_off(FailureKind::Protocol, Code::Unknown, || {
                format!("grpc-status is {value:?}, not a number from 0 to 16")
            });
            return;
        };
        let text = match code {
            Code::Ok => String::new(),
            _ => in_words(code, value, fields.first(b"grpc-message")),
        };
        self.status = Some((code, text));
    }

    /// Takes a piece of the content.
    fn take(&mut self, plan: &CallPlan, bytes: &[u8], tally: &mut Tally<'_>) {
        let mut received = self.received;
        let mut undecodable = None;
        let cut = match &mut self.collector {
            None => {
                let result = self
                    .reader
                    .count_up_to(plan.max_message, bytes, || received += 1);
                self.saw_compressed = self.reader.saw_compressed();
                result
            }
            Some(collector) => {
                let begun = Instant::now();
                let saw_compressed = &mut self.saw_compressed;
                let is_offered = self.encoding == Encoding::Offered;
                let result = collector.feed(bytes, |compressed, message| {
                    received += 1;
                    *saw_compressed |= compressed;
                    // In another compression than was offered it is not looked at.
                    if undecodable.is_none() && (is_offered || !compressed) {
                        let most = plan.max_message;
                        undecodable = decode(&plan.method, compressed, message, most).err();
                    }
                });
                let times = received - self.received;
                let spent = begun.elapsed().as_nanos() as u64;
                tally.recorder.calls().decoding.add(spent, times);
                result
            }
        };
        self.received = received;
        if let Err(error) = cut {
            match error {
                FrameError::Flag(_) => {
                    self.break_off(FailureKind::Protocol, Code::Internal, || error.to_string());
                }
                FrameError::Length { .. } => {
                    self.break_off(FailureKind::Limit, Code::ResourceExhausted, || {
                        format!("{error}: for larger ones type --max-message")
                    });
                }
            }
        }
        if let Some((kind, code, text)) = undecodable {
            self.break_off(kind, code, || text);
        }
    }

    fn is_at_boundary(&self) -> bool {
        match &self.collector {
            None => self.reader.is_at_boundary(),
            Some(collector) => collector.is_at_boundary(),
        }
    }

    /// What of the content has not left, `unsent` bytes of it though they were written.
    fn left(&self, plan: &CallPlan, unsent: u64) -> Left {
        let upload = &self.upload;
        let whole = plan.content_bytes();
        if !plan.is_streamed() {
            let content = whole.unwrap_or(unsent);
            let messages = match plan.whole(content - unsent.min(content)) {
                Some(sent) if unsent > 0 => plan.count.unwrap_or(sent).saturating_sub(sent),
                _ => 0,
            };
            return Left {
                is_cut: unsent > 0,
                content,
                bytes: unsent,
                messages,
            };
        }
        let in_frame = (upload.frame.len() - upload.written) as u64;
        let content = whole.unwrap_or(upload.content_bytes + in_frame);
        let bytes = content.saturating_sub(upload.content_bytes) + unsent;
        let is_short = plan.count.is_some_and(|count| upload.sent < count);
        let sent = match plan.whole(upload.content_bytes.saturating_sub(unsent)) {
            Some(sent) => sent,
            None => upload.sent - u64::from(in_frame > 0),
        };
        Left {
            is_cut: bytes > 0 || is_short,
            content,
            bytes,
            messages: upload.sent.saturating_sub(sent),
        }
    }

    /// How a call that has come to its end went.
    fn verdict(&mut self, plan: &CallPlan) -> Verdict {
        let status = self.status.take();
        let told = match (status, self.http.take()) {
            // Whatever else there is to say of an answer, the status is what the server meant.
            (Some((code, text)), _) if code != Code::Ok => Some((code, text)),
            (_, Some(http)) => Some(http),
            (Some(_), None) => None,
            (None, None) => {
                if let Some((kind, code, text)) = self.broken.take() {
                    return (code, Err((kind, text)));
                }
                if !self.is_at_boundary() {
                    return self.cut();
                }
                let text = "the response has no grpc-status, neither in its head nor in trailers";
                return (Code::Unknown, Err((FailureKind::Protocol, text.to_owned())));
            }
        };
        if let Some((code, text)) = told {
            if plan.expects(code) {
                return (code, Ok(()));
            }
            return (code, Err((FailureKind::Status, text)));
        }
        if let Some((kind, code, text)) = self.broken.take() {
            return (code, Err((kind, text)));
        }
        if !self.is_at_boundary() {
            return self.cut();
        }
        let wrong = |kind, text: String| (Code::Internal, Err((kind, text)));
        match &self.encoding {
            Encoding::None if self.saw_compressed => {
                let text = "a message is marked as compressed, and no grpc-encoding says how";
                return wrong(FailureKind::Protocol, text.to_owned());
            }
            Encoding::Other(name) if self.saw_compressed => {
                let text = format!("a message is compressed by {name:?}, which was not offered");
                return wrong(FailureKind::Protocol, text);
            }
            _ => (),
        }
        if !plan.receives_stream() && self.received != 1 {
            let received = self.received;
            let text = format!("{received} messages came with status OK where one belongs");
            return wrong(FailureKind::Body, text);
        }
        if !plan.expects(Code::Ok) {
            let expected: Vec<_> = plan.expected().map(Code::name).collect();
            let text = format!(
                "grpc-status 0 OK, where {} was expected",
                expected.join(" or ")
            );
            return (Code::Ok, Err((FailureKind::Status, text)));
        }
        (Code::Ok, Ok(()))
    }

    fn cut(&self) -> Verdict {
        let whole = self.received;
        let text = format!("the response ends within a message, after {whole} whole ones");
        (Code::Internal, Err((FailureKind::Body, text)))
    }
}

/// The beginning of what a server sent.
fn shown(value: &[u8]) -> String {
    String::from_utf8_lossy(value).chars().take(80).collect()
}

/// A status that is not OK, as it came.
fn in_words(code: Code, value: &[u8], message: Option<&[u8]>) -> String {
    let (value, name) = (shown(value), code.name());
    let mut text = if value == (code as u32).to_string() {
        format!("grpc-status {value} {name}")
    } else {
        format!("grpc-status {value}, which counts as {name}")
    };
    let message = message.map(status::message).unwrap_or_default();
    if !message.is_empty() {
        text.push_str(": ");
        text.push_str(&message);
    }
    text
}

/// Whether a content-type is `application/grpc`, alone, with a suffix or with parameters.
fn is_grpc(kind: &[u8]) -> bool {
    kind.strip_prefix(b"application/grpc")
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// Decodes a message of at most so many bytes.
fn decode(
    method: &Method,
    compressed: bool,
    message: &[u8],
    most: usize,
) -> Result<(), (FailureKind, Code, String)> {
    let inflated;
    let bytes = if compressed {
        inflated = gzip::decompress(message, most).map_err(|error| {
            let (kind, code) = match error {
                gzip::GzipError::Limit(_) => (FailureKind::Limit, Code::ResourceExhausted),
                gzip::GzipError::Broken(_) => (FailureKind::Body, Code::Internal),
            };
            (
                kind,
                code,
                format!("a message cannot be decompressed: {error}"),
            )
        })?;
        &inflated
    } else {
        message
    };
    match method.decode(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err((FailureKind::Body, Code::Internal, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_of_grpc() {
        for kind in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;a=b",
        ] {
            assert!(is_grpc(kind.as_bytes()), "{kind}");
        }
        for kind in ["", "application/grpc-web", "text/html", "application/grpcx"] {
            assert!(!is_grpc(kind.as_bytes()), "{kind}");
        }
    }
}
