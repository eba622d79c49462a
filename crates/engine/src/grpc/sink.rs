//! The sink of calls: counts messages and finds out how a call ended.

use std::time::Instant;

use trilane_grpc::{Method, gzip, status};
use trilane_wire::{ErrorKind, Events, Fields, Head, StreamError, StreamId};

use super::plan::CallPlan;
use super::state::State;
use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::tally::Tally;

/// The largest message that comes out of compression, in bytes.
const LARGEST_INFLATED: usize = 64 << 20;

/// The sink of one call of `receive` where requests are gRPC calls.
pub(crate) struct CallSink<'a, 'p> {
    pub(crate) now: u64,
    pub(crate) plan: &'p CallPlan,
    pub(crate) exchanges: &'a mut Exchanges,
    pub(crate) tally: &'a mut Tally<'p>,
    /// What the transport said when it failed, for messages.
    pub(crate) cause: Option<&'a str>,
}

impl CallSink<'_, '_> {
    fn state(&mut self, id: StreamId) -> &mut State {
        &mut self.exchanges.calls.slots[id.slot as usize]
    }
}

impl Events for CallSink<'_, '_> {
    // A call that fails has its status in the head.
    const FIELDS: bool = true;

    fn head(&mut self, id: StreamId, head: Head<'_>) {
        self.exchanges.head(id, self.now, &head, self.tally);
        self.tally.know_server(head.fields);
        let state = self.state(id);
        state.read_status(head.fields);
        state.has_encoding = head
            .fields
            .first(b"grpc-encoding")
            .is_some_and(|encoding| encoding != b"identity");
        if head.status != 200 {
            let code = status::of_http(head.status).name();
            let text = format!("HTTP status {}, which is {code} in gRPC", head.status);
            state.break_off(FailureKind::Status, || text);
            return;
        }
        let kind = head.fields.first(b"content-type").unwrap_or_default();
        if !is_grpc(kind) {
            let kind = shown(kind);
            state.break_off(FailureKind::Protocol, || {
                format!("the content-type of the response is {kind:?}, not application/grpc")
            });
        }
    }

    fn data(&mut self, id: StreamId, bytes: &[u8]) {
        self.exchanges.data(id, bytes.len(), self.tally);
        let (plan, now) = (self.plan, self.now);
        let state = &mut self.exchanges.calls.slots[id.slot as usize];
        if state.broken.is_some() {
            return;
        }
        let before = state.received;
        state.take(plan, bytes, self.tally);
        let messages = state.received - before;
        if messages == 0 {
            return;
        }
        let counts = self.tally.recorder.calls();
        counts.received += messages as u64;
        if plan.receives_stream() {
            for _ in 0..messages {
                counts.message.record(now.saturating_sub(state.last));
                state.last = now;
            }
        }
        if plan.answers_each() && state.upload.is_open {
            self.exchanges.calls.due.push(id);
        }
        if let Some(plan) = &self.tally.plan.events {
            let at = (self.exchanges.started(id), now);
            let counts = self.tally.recorder.events();
            for _ in 0..messages {
                self.exchanges.events.message(plan, id, at, counts);
            }
        }
    }

    fn unsent(&mut self, id: StreamId, bytes: u64) {
        self.exchanges.unsent(id, bytes);
    }

    fn end(&mut self, id: StreamId, trailers: Option<Fields<'_>>) {
        let (at, mut unsent) = self.exchanges.complete(id);
        let plan = self.plan;
        let state = self.state(id);
        if let Some(trailers) = trailers {
            state.read_status(trailers);
        }
        let verdict = state.verdict(plan);
        let code = state.status.as_ref().map(|(code, _)| *code);
        let written = state.upload.content_bytes;
        if state.upload.is_open {
            // To give up what is left of the content.
            self.exchanges.calls.due.push(id);
        }
        let recorder = &mut self.tally.recorder;
        if let Some(plan) = &self.tally.plan.events {
            let times = (at.start, self.now);
            self.exchanges
                .events
                .end(plan, id, times, recorder.events());
        }
        if plan.is_streamed() {
            unsent += plan.content_bytes.saturating_sub(written);
        }
        if unsent > 0 {
            recorder.early.add(plan.content_bytes, unsent);
        }
        if let Some(code) = code {
            recorder.calls().ended(code);
        }
        match verdict {
            Ok(()) => recorder.ok(self.now, at),
            Err((kind, text)) => recorder.failed(kind, self.now, Some(at), || text),
        }
    }

    fn fail(&mut self, id: StreamId, error: StreamError) {
        // Servers that see the deadline pass may reset the stream instead of answering.
        let since = self.now.saturating_sub(self.exchanges.started(id));
        if let Some(deadline) = self.tally.plan.deadline()
            && error.kind == ErrorKind::Reset
            && u128::from(since) >= deadline.as_nanos()
        {
            let at = self.exchanges.close(id);
            let recorder = &mut self.tally.recorder;
            recorder.deadline_exceeded(self.now, at, deadline);
            return;
        }
        self.exchanges
            .fail(id, error, self.now, self.cause, self.tally);
    }
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
            self.break_off(FailureKind::Protocol, || {
                format!("grpc-status came twice, as {one:?} and as {other:?}")
            });
            return;
        }
        let Some(code) = status::parse(value) else {
            let value = shown(value);
            self.break_off(FailureKind::Protocol, || {
                format!("grpc-status is {value:?}, not a number from 0 to 16")
            });
            return;
        };
        let text = match code {
            status::Code::Ok => String::new(),
            _ => in_words(code, value, fields.first(b"grpc-message")),
        };
        self.status = Some((code, text));
    }

    /// Notes the first thing that is wrong.
    #[cold]
    fn break_off(&mut self, kind: FailureKind, text: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some((kind, text()));
        }
    }

    /// Takes a piece of the content.
    fn take(&mut self, plan: &CallPlan, bytes: &[u8], tally: &mut Tally<'_>) {
        let mut received = self.received;
        let mut undecodable = None;
        let cut = match &mut self.collector {
            None => {
                let result = self.reader.count(bytes, || received += 1);
                self.saw_compressed = self.reader.saw_compressed();
                result
            }
            Some(collector) => {
                let begun = Instant::now();
                let saw_compressed = &mut self.saw_compressed;
                let result = collector.feed(bytes, |compressed, message| {
                    received += 1;
                    *saw_compressed |= compressed;
                    if undecodable.is_none() {
                        undecodable = decode(&plan.call.method, compressed, message).err();
                    }
                });
                let times = (received - self.received) as u64;
                let spent = begun.elapsed().as_nanos() as u64;
                tally.recorder.calls().decoding.add(spent, times);
                result
            }
        };
        self.received = received;
        if let Err(error) = cut {
            self.break_off(FailureKind::Protocol, || error.to_string());
        }
        if let Some(error) = undecodable {
            self.break_off(FailureKind::Body, || error);
        }
    }

    fn is_at_boundary(&self) -> bool {
        match &self.collector {
            None => self.reader.is_at_boundary(),
            Some(collector) => collector.is_at_boundary(),
        }
    }

    /// How a call that has come to its end went.
    fn verdict(&mut self, plan: &CallPlan) -> Result<(), (FailureKind, String)> {
        match &self.status {
            // Whatever else there is to say of an answer, the status is what the server meant.
            Some((code, text)) if *code != status::Code::Ok => {
                return Err((FailureKind::Status, text.clone()));
            }
            _ => (),
        }
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        if !self.is_at_boundary() {
            let whole = self.received;
            return Err((
                FailureKind::Body,
                format!("the response ends within a message, after {whole} whole ones"),
            ));
        }
        if self.status.is_none() {
            let text = "the response has no grpc-status, neither in its head nor in trailers";
            return Err((FailureKind::Protocol, text.to_owned()));
        }
        if self.saw_compressed && !self.has_encoding {
            let text = "a message is marked as compressed, and no grpc-encoding says how";
            return Err((FailureKind::Protocol, text.to_owned()));
        }
        if !plan.receives_stream() && self.received != 1 {
            let received = self.received;
            let text = format!("{received} messages came with status OK where one belongs");
            return Err((FailureKind::Body, text));
        }
        Ok(())
    }
}

/// The beginning of what a server sent.
fn shown(value: &[u8]) -> String {
    String::from_utf8_lossy(value).chars().take(80).collect()
}

/// A status that is not OK, as it came.
fn in_words(code: status::Code, value: &[u8], message: Option<&[u8]>) -> String {
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

fn decode(method: &Method, compressed: bool, message: &[u8]) -> Result<(), String> {
    let inflated;
    let bytes = if compressed {
        inflated = gzip::decompress(message, LARGEST_INFLATED)
            .map_err(|error| format!("a message cannot be decompressed: {error}"))?;
        &inflated
    } else {
        message
    };
    match method.decode(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
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
