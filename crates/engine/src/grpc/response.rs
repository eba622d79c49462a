//! What comes of a response, and how a call that has come to its end went.

use std::borrow::Cow;
use std::time::Instant;

use trilane_grpc::frame::FrameError;
use trilane_grpc::status::Code;
use trilane_grpc::{Method, gzip, status};
use trilane_wire::Fields;

use super::plan::CallPlan;
use super::protocol::{self, Protocol};
use super::state::{Encoding, State};
use crate::failure::FailureKind;
use crate::tally::Tally;

/// What is looked at of the content that says what went wrong, in bytes.
pub(super) const LONGEST_ERROR: usize = 64 << 10;

/// How a call ended: its status, and why it is not ok where it is not.
pub(super) type Verdict = (Code, Result<(), (FailureKind, String)>);

/// What of a call's content had not left when its response ended.
pub(super) struct Left {
    pub(super) is_cut: bool,
    /// Bytes of the content, and what of them had not left.
    pub(super) content: u64,
    pub(super) bytes: u64,
    /// Messages that were counted as sent and had not left whole.
    pub(super) messages: u64,
}

impl State {
    pub(super) fn read_status(&mut self, fields: Fields<'_>) {
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
    pub(super) fn take(&mut self, plan: &CallPlan, bytes: &[u8], tally: &mut Tally<'_>) {
        let mut kept = match plan.keeps() {
            true => tally.recorder.calls().kept(),
            false => None,
        };
        let looks_into = plan.decodes() || plan.keeps();
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
                    if looks_into && undecodable.is_none() && (is_offered || !compressed) {
                        let most = plan.max_message;
                        match decode(&plan.method, compressed, message, most) {
                            Err(error) => undecodable = Some(error),
                            Ok(message) => {
                                if let Some(kept) = &mut kept {
                                    kept.message(message.into_owned());
                                }
                            }
                        }
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
            self.read_end(plan, compressed, &block, tally);
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
    fn read_end(&mut self, plan: &CallPlan, compressed: bool, block: &[u8], tally: &mut Tally<'_>) {
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
        if plan.keeps()
            && let Some(kept) = tally.recorder.calls().kept()
        {
            kept.end(plan.protocol, block);
        }
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
    pub(super) fn conclude(&mut self, plan: &CallPlan, tally: &mut Tally<'_>) {
        if self.http.is_some() {
            let unpacked;
            let content = match self.encoding {
                // One that is broken says no more than its HTTP status.
                Encoding::Offered => {
                    unpacked = gzip::decompress(&self.body, LONGEST_ERROR).unwrap_or_default();
                    &unpacked
                }
                _ => &self.body,
            };
            if plan.keeps()
                && let Some(kept) = tally.recorder.calls().kept()
            {
                kept.text(content);
            }
            self.http = Some(protocol::unary_error(self.http_status, content));
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
        let looks_into = plan.decodes() || plan.keeps();
        if looks_into && (!compressed || self.encoding == Encoding::Offered) {
            let begun = Instant::now();
            let decoded = decode(&plan.method, compressed, &self.body, plan.max_message);
            let spent = begun.elapsed().as_nanos() as u64;
            let counts = tally.recorder.calls();
            if plan.decodes() {
                counts.decoding.add(spent, 1);
            }
            match decoded {
                Ok(message) => {
                    if let Some(kept) = counts.kept() {
                        kept.message(message.into_owned());
                    }
                }
                Err((kind, code, text)) => self.break_off(kind, code, || text),
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
    pub(super) fn left(&self, plan: &CallPlan, unsent: u64) -> Left {
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
    pub(super) fn verdict(&mut self, plan: &CallPlan) -> Verdict {
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
            // A violation of cardinality, by gRPC's table of status codes.
            return (Code::Unimplemented, Err((FailureKind::Body, text)));
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
pub(super) fn shown(value: &[u8]) -> String {
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

/// Decodes a message of at most so many bytes, and gives it as it was before it was compressed.
fn decode<'a>(
    method: &Method,
    compressed: bool,
    message: &'a [u8],
    most: usize,
) -> Result<Cow<'a, [u8]>, (FailureKind, Code, String)> {
    let bytes = if compressed {
        let inflated = gzip::decompress(message, most).map_err(|error| {
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
        Cow::Owned(inflated)
    } else {
        Cow::Borrowed(message)
    };
    match method.decode(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err((FailureKind::Body, Code::Internal, error.to_string())),
    }
}
