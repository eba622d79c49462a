//! HTTP/1.1 (RFC 9112): one request at a time on a connection.
//!
//! A response head is read in one of two ways that give the same result. Where nobody asks for
//! fields, `scan` walks over a complete head once and gives up on anything unusual; a head equal to
//! the one before it on the connection is not even walked over. Everything else, and everything that
//! `scan` gave up on, goes through `head`, which judges. Only a head cut by the end of the input is
//! copied.

mod chunked;
mod head;
mod scan;
mod section;
mod upload;

use std::mem;

use crate::error::{ConnectionError, End, ErrorKind, Refused, StreamError, Unprocessed};
use crate::events::{Events, Head, StreamId};
use crate::field::{FieldList, Fields};
use crate::output::Output;
use crate::request::{MethodKind, Request};
use chunked::{Chunked, Piece};
use head::{Body, Parsed, Wanted};
use section::Held;
use upload::Pending;

/// Bounds on what a peer may make us keep or read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one response head, of one chunk-size line, and of all trailers.
    pub head_bytes: usize,
    /// Fields of one response head. Above 256 counts as 256.
    pub fields: usize,
    /// Informational responses before the final one.
    pub informational: usize,
}

impl Default for Limits {
    /// 64 KiB (Python's http.client grants it to each line, h11 16 KiB to a head, Go 10 MiB), 256
    /// fields (http.client, hyper and Apache stop at 100, and large sites come near) and 64
    /// informational responses (Go stops at 5, which a server that sends many early hints exceeds).
    fn default() -> Self {
        Self {
            head_bytes: 64 * 1024,
            fields: head::MAX_FIELDS,
            informational: 64,
        }
    }
}

/// Heads above this size are parsed each time rather than kept, so that an idle connection stays small.
const MEMO_BYTES: usize = 1024;
/// What HTTP/2 makes of a status line: `:status` and three digits.
const STATUS_BYTES: usize = 10;

/// The client's end of one connection.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    phase: Phase,
    /// The request last sent.
    stream: StreamId,
    /// What kind of method that request had.
    method: MethodKind,
    /// Whether a byte of its response has arrived.
    began: bool,
    /// Its informational responses so far.
    informational: usize,
    closing: bool,
    pending: Option<Pending>,
    held: Held,
    memo: Memo,
    /// Of the last head, where fields are wanted.
    reason: Vec<u8>,
    fields: FieldList,
}

/// What the next byte from the peer belongs to.
#[derive(Debug)]
enum Phase {
    /// Nothing: no request is outstanding.
    Idle,
    Head,
    /// A body with this many bytes to come, at least one.
    Length(u64),
    Chunked(Chunked),
    Trailers,
    UntilClose,
}

/// The last head parsed on this connection: servers repeat themselves until the second changes.
#[derive(Debug, Default)]
struct Memo {
    head: Vec<u8>,
    parsed: Parsed,
}

/// A broken rule, before it is turned into the errors of the one request and of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    kind: ErrorKind,
    reason: &'static str,
}

impl Fault {
    const fn protocol(reason: &'static str) -> Self {
        Self {
            kind: ErrorKind::Protocol,
            reason,
        }
    }

    const fn limit(reason: &'static str) -> Self {
        Self {
            kind: ErrorKind::Limit,
            reason,
        }
    }
}

impl Connection {
    /// A connection on which nothing has been sent.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            phase: Phase::Idle,
            stream: StreamId { number: 0, slot: 0 },
            method: MethodKind::Ordinary,
            began: false,
            informational: 0,
            closing: false,
            pending: None,
            held: Held::default(),
            memo: Memo::default(),
            reason: Vec::new(),
            fields: FieldList::new(),
        }
    }

    /// Writes `request` to `out`. Of the body as much as keeps `out` small; the rest follows by
    /// [`Self::produce`]. Streamed content follows by [`Self::write`].
    pub fn send(
        &mut self,
        request: &Request,
        slot: u32,
        out: &mut impl Output,
    ) -> Result<StreamId, Refused> {
        if self.closing {
            return Err(Refused::Draining);
        }
        if self.outstanding() > 0 {
            return Err(Refused::Full);
        }
        self.phase = Phase::Head;
        self.stream = StreamId {
            number: self.stream.number + 1,
            slot,
        };
        self.method = request.kind();
        self.began = false;
        self.informational = 0;
        self.closing = request.closes();

        out.framing().extend_from_slice(request.h1_head());
        if request.has_content() {
            self.pending = Pending::begin(request, self.stream, out);
        }
        Ok(self.stream)
    }

    /// Takes all of `bytes` from the peer (an incomplete head is kept inside).
    pub fn receive<E: Events>(
        &mut self,
        bytes: &[u8],
        events: &mut E,
        _out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.step(rest, events) {
                Ok(taken) => rest = &rest[taken..],
                Err(fault) => {
                    self.fail(fault.kind, Unprocessed::Unknown, fault.reason, events);
                    return Err(ConnectionError {
                        kind: fault.kind,
                        code: 0,
                        reason: fault.reason,
                    });
                }
            }
        }
        Ok(())
    }

    /// Bytes of the body under way that the transport may throw away: see [`Self::discard`]. None where
    /// its end is not known.
    pub fn discardable(&self) -> u64 {
        match self.phase {
            Phase::Length(left) => left,
            _ => 0,
        }
    }

    /// The next `count` bytes of the body have come and been thrown away, no more than
    /// [`Self::discardable`].
    pub fn discard<E: Events>(&mut self, count: u64, events: &mut E) {
        let Phase::Length(left) = &mut self.phase else {
            return;
        };
        let count = count.min(*left);
        *left -= count;
        let complete = *left == 0;
        events.discarded(self.stream, count);
        if complete {
            self.complete(None, 0, events);
        }
    }

    /// The transport has ended: ends or fails what is outstanding.
    pub fn eof<E: Events>(&mut self, end: End, events: &mut E) {
        let clean = end == End::Clean;
        match self.phase {
            Phase::Idle => self.closing = true,
            Phase::UntilClose if clean => {
                self.closing = true;
                self.complete(None, 0, events);
            }
            Phase::Head if self.began => {
                let reason = "the connection closed inside the response head";
                self.fail(ErrorKind::Closed, Unprocessed::Unknown, reason, events);
            }
            // A server may close a connection that it has served before at any time, and then the
            // request crossed with it on the road.
            Phase::Head => {
                let unprocessed = if self.stream.number > 1 {
                    Unprocessed::Likely
                } else {
                    Unprocessed::Unknown
                };
                let reason = "the connection closed before the response began";
                self.fail(ErrorKind::Closed, unprocessed, reason, events);
            }
            // The content is complete with its last chunk (RFC 9112 §8); some servers send no more.
            Phase::Trailers if clean && matches!(self.held.bytes(), b"" | b"\r") => {
                self.closing = true;
                self.held.clear();
                self.complete(None, 0, events);
            }
            Phase::Length(_) | Phase::Chunked(_) | Phase::Trailers | Phase::UntilClose => {
                let reason = match end {
                    End::Clean => "the connection closed inside the response body",
                    End::Truncated => {
                        "the connection ended inside the response body, without TLS saying so"
                    }
                    End::Reset => "the connection was reset inside the response body",
                };
                self.fail(ErrorKind::Body, Unprocessed::Unknown, reason, events);
            }
        }
    }

    /// Writes more of the pending body, when `out` has been written to the transport.
    pub fn produce(&mut self, out: &mut impl Output) {
        if let Some(Pending::Whole { body, sent }) = &mut self.pending {
            *sent += upload::append(self.stream, body, *sent, out);
            if *sent == body.len() {
                self.pending = None;
            }
        }
    }

    /// Whether `produce` has something to write.
    pub fn has_output(&self) -> bool {
        matches!(self.pending, Some(Pending::Whole { .. }))
    }

    /// How many more requests `send` takes now.
    pub fn capacity(&self) -> usize {
        usize::from(!self.closing && self.outstanding() == 0)
    }

    /// Requests sent and not yet ended.
    pub fn outstanding(&self) -> usize {
        usize::from(!matches!(self.phase, Phase::Idle))
    }

    /// Whether the connection takes no more requests, now or later. Close it once `outstanding` is 0.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Takes a piece from the front of `input`, which is not empty, and says how long it was: never
    /// zero bytes.
    fn step<E: Events>(&mut self, input: &[u8], events: &mut E) -> Result<usize, Fault> {
        match &mut self.phase {
            Phase::Idle => Err(Fault::protocol("bytes arrived after a complete response")),
            Phase::Head => self.head(input, events),
            Phase::Length(left) => {
                let taken = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(input.len());
                *left -= taken as u64;
                let complete = *left == 0;
                events.data(self.stream, &input[..taken]);
                if complete {
                    self.complete(None, input.len() - taken, events);
                }
                Ok(taken)
            }
            Phase::Chunked(chunked) => {
                let (taken, piece) = chunked.step(input, self.limits.head_bytes)?;
                match piece {
                    Piece::Framing => {}
                    Piece::Data => events.data(self.stream, &input[..taken]),
                    Piece::Last => self.phase = Phase::Trailers,
                }
                Ok(taken)
            }
            Phase::Trailers => self.trailers(input, events),
            Phase::UntilClose => {
                events.data(self.stream, input);
                Ok(input.len())
            }
        }
    }

    /// Reads one head, informational or final.
    fn head<E: Events>(&mut self, input: &[u8], events: &mut E) -> Result<usize, Fault> {
        self.began = true;
        if !E::FIELDS && self.held.is_empty() {
            if let Some((parsed, length)) = self.memo.find(input) {
                let behind = input.len() - length;
                self.respond(parsed, length, behind, events)?;
                return Ok(length);
            }
            if let Some((parsed, length)) = scan::head(input, &self.limits) {
                self.memo.keep(&input[..length], parsed);
                self.respond(parsed, length, input.len() - length, events)?;
                return Ok(length);
            }
        }

        let over = Fault::limit("the response head is larger than the limit");
        let section = self
            .held
            .take(input, self.limits.head_bytes, over, head::check_start)?;
        let Some((bytes, taken)) = section else {
            return Ok(input.len());
        };
        let length = bytes.len();
        let wanted = E::FIELDS.then_some(Wanted {
            fields: &mut self.fields,
            original_case: E::ORIGINAL_CASE,
        });
        let parsed = head::parse(bytes, &self.limits, wanted)?;
        if E::FIELDS {
            self.reason.clear();
            self.reason.extend_from_slice(head::reason(bytes));
        }
        self.held.clear();
        self.respond(parsed, length, input.len() - taken, events)?;
        Ok(taken)
    }

    /// Acts on a head of `length` bytes, behind which so many more have come; its fields are in `self.fields`
    /// where they are wanted.
    fn respond<E: Events>(
        &mut self,
        parsed: Parsed,
        length: usize,
        behind: usize,
        events: &mut E,
    ) -> Result<(), Fault> {
        let mut head = Head {
            status: parsed.status,
            content_length: parsed.content_length,
            encoded_bytes: length,
            decoded_bytes: STATUS_BYTES + parsed.field_bytes,
            reason: if E::FIELDS { &self.reason } else { &[] },
            http_1_0: parsed.http_1_0,
            fields: if E::FIELDS {
                self.fields.as_fields()
            } else {
                Fields::empty()
            },
        };
        if parsed.status < 200 {
            if parsed.status == 101 && self.method == MethodKind::Upgrade {
                // The other protocol has the connection to its end.
                self.closing = true;
                self.phase = Phase::UntilClose;
                head.content_length = None;
                events.head(self.stream, head);
                return Ok(());
            }
            // No other request has `upgrade`: RFC 9110 §15.2.2.
            if parsed.status == 101 {
                return Err(Fault::protocol(
                    "the server switched protocols without being asked",
                ));
            }
            self.informational += 1;
            if self.informational > self.limits.informational {
                return Err(Fault::limit("more informational responses than the limit"));
            }
            events.informational(self.stream, head);
            return Ok(());
        }

        let body = parsed.body(self.method)?;
        self.closing |= !parsed.keep_alive || matches!(body, Body::UntilClose | Body::Tunnel);
        if body == Body::Tunnel {
            // Whatever the head says about a length, it means nothing.
            head.content_length = None;
        }
        events.head(self.stream, head);
        match body {
            Body::Length(0) => self.complete(None, behind, events),
            // What comes behind is the tunnel's.
            Body::Tunnel => self.complete(None, 0, events),
            Body::Length(length) => self.phase = Phase::Length(length),
            Body::Chunked => self.phase = Phase::Chunked(Chunked::default()),
            Body::UntilClose => self.phase = Phase::UntilClose,
        }
        Ok(())
    }

    /// Reads the trailers, possibly none, with the empty line after them.
    fn trailers<E: Events>(&mut self, input: &[u8], events: &mut E) -> Result<usize, Fault> {
        let over = Fault::limit("the trailers are larger than the limit");
        let section = self
            .held
            .take(input, self.limits.head_bytes, over, |_| Ok(()))?;
        let Some((bytes, taken)) = section else {
            return Ok(input.len());
        };
        let wanted = E::FIELDS.then_some(Wanted {
            fields: &mut self.fields,
            original_case: E::ORIGINAL_CASE,
        });
        let count = head::parse_trailers(bytes, &self.limits, wanted)?;
        self.held.clear();
        let behind = input.len() - taken;
        if E::FIELDS && count > 0 {
            let fields = mem::take(&mut self.fields);
            self.complete(Some(fields.as_fields()), behind, events);
            self.fields = fields;
        } else {
            self.complete(None, behind, events);
        }
        Ok(taken)
    }

    /// The response is complete, and so many bytes came with its end that belong to none.
    fn complete<E: Events>(&mut self, trailers: Option<Fields<'_>>, behind: usize, events: &mut E) {
        self.phase = Phase::Idle;
        if behind > 0 {
            self.closing = true;
            events.surplus(self.stream, behind as u64);
        }
        // A server that answers before it has the whole request may not read the rest, and without
        // the rest it cannot find the next request (RFC 9112 §9.5).
        if let Some(pending) = self.pending.take() {
            self.closing |= pending.is_owed();
            if let Pending::Whole { body, sent } = pending {
                events.unsent(self.stream, (body.len() - sent) as u64);
            }
        }
        events.end(self.stream, trailers);
    }

    /// The connection is lost, and with it the request that is outstanding, if one is.
    fn fail<E: Events>(
        &mut self,
        kind: ErrorKind,
        unprocessed: Unprocessed,
        reason: &'static str,
        events: &mut E,
    ) {
        self.closing = true;
        self.pending = None;
        self.held.clear();
        if !matches!(mem::replace(&mut self.phase, Phase::Idle), Phase::Idle) {
            events.fail(
                self.stream,
                StreamError {
                    kind,
                    unprocessed,
                    code: None,
                    reason,
                },
            );
        }
    }
}

impl Memo {
    fn find(&self, input: &[u8]) -> Option<(Parsed, usize)> {
        // The kept head ends with its first empty line, so a prefix equal to it is a whole head.
        (!self.head.is_empty() && input.starts_with(&self.head))
            .then_some((self.parsed, self.head.len()))
    }

    fn keep(&mut self, head: &[u8], parsed: Parsed) {
        self.head.clear();
        if head.len() <= MEMO_BYTES {
            self.head.extend_from_slice(head);
            self.parsed = parsed;
        }
    }
}
