//! Our direction of a request stream: what is written at once, and what waits for flow control.

use std::sync::Arc;

use super::{Streams, frame};
use crate::Request;

/// Content up to this size is kept in one piece with its frame headers, so that a request is one
/// write; more is not copied.
const INLINE: usize = 1024;

/// How many requests are kept encoded: a load engine repeats a few.
const KEPT: usize = 16;

/// The start of a request stream: the HEADERS frame, and either the whole DATA frame or the header
/// of one whose payload follows from the request's own buffer.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// [`Request::id`], 0 where nothing is kept.
    request: u64,
    pub(super) bytes: Vec<u8>,
    /// Size of the field section as RFC 9114 §4.2.2 counts it: 32 more for each field.
    pub(super) section_size: u64,
    /// Whether the payload of the DATA frame is not in `bytes`.
    pub(super) body_follows: bool,
}

/// The openings of the requests that were sent last, by request id.
#[derive(Debug)]
pub(super) struct Openings(Box<[Opening]>);

impl Openings {
    pub(super) fn new() -> Self {
        Self((0..KEPT).map(|_| Opening::default()).collect())
    }

    pub(super) fn of(&mut self, request: &Request) -> &Opening {
        let opening = &mut self.0[request.id() as usize % KEPT];
        if opening.request != request.id() {
            opening.fill(request);
        }
        opening
    }
}

impl Opening {
    fn fill(&mut self, request: &Request) {
        let section = request.qpack_section();
        self.request = request.id();
        self.bytes.clear();
        frame::put_varint(frame::HEADERS, &mut self.bytes);
        frame::put_varint(section.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(section);
        self.section_size = request
            .fields()
            .map(|(name, value, _)| (name.len() + value.len() + 32) as u64)
            .sum();
        let body = request.body();
        self.body_follows = body.len() > INLINE;
        if !body.is_empty() {
            frame::put_varint(frame::DATA, &mut self.bytes);
            frame::put_varint(body.len() as u64, &mut self.bytes);
        }
        if !self.body_follows {
            self.bytes.extend_from_slice(body);
        }
    }
}

/// What flow control has not taken yet.
#[derive(Debug)]
pub(super) struct Sending {
    /// The rest of the opening.
    opening: Vec<u8>,
    opening_sent: usize,
    body: Arc<[u8]>,
    body_sent: usize,
}

impl Sending {
    /// `opening` is what is left of it.
    pub(super) fn new(opening: &[u8], body: Option<&Arc<[u8]>>) -> Self {
        Self {
            opening: opening.to_vec(),
            opening_sent: 0,
            body: body.map_or_else(|| Arc::from([]), Arc::clone),
            body_sent: 0,
        }
    }

    /// Writes what the stream takes, ends the stream after the last byte, and says whether it did.
    pub(super) fn advance(&mut self, stream: u64, quic: &mut impl Streams) -> bool {
        let done = write_all(stream, &self.opening, &mut self.opening_sent, quic)
            && write_all(stream, &self.body, &mut self.body_sent, quic);
        if done {
            quic.finish(stream);
        }
        done
    }
}

/// Writes until the stream takes no more: QUIC says that a stream is writable again only after it
/// has refused a write.
fn write_all(stream: u64, bytes: &[u8], sent: &mut usize, quic: &mut impl Streams) -> bool {
    while *sent < bytes.len() {
        let written = quic.write(stream, &bytes[*sent..]);
        if written == 0 {
            return false;
        }
        *sent += written;
    }
    true
}
