//! The sink of calls: counts messages and finds out how a call ended.

use std::time::Instant;

use trilane_grpc::frame::FrameError;
use trilane_grpc::status::Code;
use trilane_grpc::{Method, gzip, status};
use trilane_wire::{ErrorKind, Events, Fields, Head, StreamError, StreamId};

use super::plan::{CallPlan, CallsPlan};
use super::protocol::{self, Protocol};
use super::state::{Encoding, State};
use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::record::Instants;
use crate::tally::Tally;

/// What is looked at of the content that says what went wrong, in bytes.
const LONGEST_ERROR: usize = 64 << 10;

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
            self.exchanges.calls.due.push_back(id);
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
            // As for any other status of HTTP that says nothing.
            state.break_off(FailureKind::Protocol, Code::Unknown, || {
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
        if plan.is_bare() {
            let state = &mut self.exchanges.calls.slots[id.slot as usize];
            state.conclude(plan, self.tally);
        }
        let state = self.state(id);
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
        let (mut undecodable, mut end, mut is_late) = (None, None, false);
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
                let (flags, has_ended) = (plan.protocol.flags(), &mut self.has_ended);
                let result = collector.feed_flagged(bytes, |flag, message| {
                    let compressed = flag & 1 != 0;
                    if *has_ended {
                        is_late = true;
                        return;
                    }
                    if flag & flags != 0 {
                        *has_ended = true;
                        end = Some((compressed, message.to_vec()));
                        return;
                    }
                    received += 1;
                    *saw_compressed |= compressed;
                    // In another compression than was offered it is not looked at.
                    if plan.decodes() && undecodable.is_none() && (is_offered || !compressed) {
                        let most = plan.max_message;
                        undecodable = decode(&plan.method, compressed, message, most).err();
                    }
                });
                if plan.decodes() {
                    let times = received - self.received;
                    let spent = begun.elapsed().as_nanos() as u64;
                    tally.recorder.calls().decoding.add(spent, times);
                }
                result
            }
        };
        self.received = received;
        if let Some((compressed, block)) = end {
            self.read_end(plan, compressed, &block);
        }
        if is_late {
            self.break_off(FailureKind::Protocol, Code::Internal, || {
                "a message comes behind the one that ends the stream".to_owned()
            });
        }
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

    /// Reads the message that ends a stream: trailers, or the status of Connect.
    fn read_end(&mut self, plan: &CallPlan, compressed: bool, block: &[u8]) {
        let unpacked;
        let block = if compressed {
            match gzip::decompress(block, LONGEST_ERROR) {
                Ok(whole) => {
                    unpacked = whole;
                    &unpacked[..]
                }
                Err(error) => {
                    self.break_off(FailureKind::Protocol, Code::Internal, || {
                        format!("the message that ends the stream cannot be decompressed: {error}")
                    });
                    return;
                }
            }
        } else {
            block
        };
        if plan.protocol == Protocol::Connect {
            match protocol::end_of_stream(block) {
                Some(told) => self.status = Some(told),
                None => self.break_off(FailureKind::Protocol, Code::Internal, || {
                    let block = shown(block);
                    format!("the message that ends the stream is {block:?}, which is no EndStreamResponse")
                }),
            }
            return;
        }
        let (code, message) = protocol::trailers(block);
        let Some(value) = code else {
            return;
        };
        match status::parse(value) {
            Some(Code::Ok) => self.status = Some((Code::Ok, String::new())),
            Some(code) => self.status = Some((code, in_words(code, value, message))),
            None => {
                let value = shown(value);
                self.break_off(FailureKind::Protocol, Code::Unknown, || {
                    format!("grpc-status is {value:?}, not a number from 0 to 16")
                });
            }
        }
    }

    /// The content that is one message, or says what went wrong, has come whole.
    fn conclude(&mut self, plan: &CallPlan, tally: &mut Tally<'_>) {
        if self.http.is_some() {
            self.http = Some(protocol::unary_error(self.http_status, &self.body));
            return;
        }
        if self.broken.is_some() {
            return;
        }
        self.status = Some((Code::Ok, String::new()));
        self.received = 1;
        tally.recorder.calls().received += 1;
        let compressed = self.encoding != Encoding::None;
        self.saw_compressed = compressed;
        if plan.decodes() && (!compressed || self.encoding == Encoding::Offered) {
            let begun = Instant::now();
            let decoded = decode(&plan.method, compressed, &self.body, plan.max_message);
            let spent = begun.elapsed().as_nanos() as u64;
            tally.recorder.calls().decoding.add(spent, 1);
            if let Err((kind, code, text)) = decoded {
                self.break_off(kind, code, || text);
            }
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
                let text = match plan.protocol {
                    Protocol::Grpc => {
                        "the response has no grpc-status, neither in its head nor in trailers"
                    }
                    Protocol::GrpcWeb => {
                        "the response has no grpc-status, neither in its head nor in a message of trailers"
                    }
                    Protocol::Connect => "the response ends without an EndStreamResponse",
                };
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
