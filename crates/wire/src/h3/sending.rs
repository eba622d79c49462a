//! Our direction of a request stream: what is written at once, and what waits for flow control.

use std::ops::Range;
use std::sync::Arc;

use super::{QuicStreams, frame};
use crate::upload::LARGEST_WRITE;
use crate::{Request, Unfinished};

/// Content up to this size is kept in one piece with its frame headers, so that a request is one
/// write; more is not copied.
const INLINE: usize = 1024;

/// The start of a request stream: the HEADERS frame, and either the whole DATA frame or the header
/// of one whose payload follows from the request's own buffer. No table stands behind it, so it is the
/// same on every connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    pub(crate) bytes: Vec<u8>,
    section: Range<usize>,
    /// Whether content follows that is not in `bytes`: the payload of the DATA frame, or all that
    /// the caller writes.
    pub(super) body_follows: bool,
}

impl Opening {
    /// Of a request with the encoded field section `section` and, where it is not streamed, `body`.
    pub(crate) fn new(section: &[u8], body: &[u8], is_streamed: bool) -> Self {
        let mut opening = Self::default();
        opening.write([section], body, is_streamed);
        opening
    }

    /// Makes it that of another request, whose field section is `section`, in pieces.
    pub(crate) fn write<const N: usize>(
        &mut self,
        section: [&[u8]; N],
        body: &[u8],
        is_streamed: bool,
    ) {
        let Self {
            bytes,
            section: within,
            body_follows,
        } = self;
        let length: usize = section.iter().map(|piece| piece.len()).sum();
        *body_follows = body.len() > INLINE || is_streamed;
        bytes.clear();
        bytes.reserve(length + 16 + body.len().min(INLINE));
        frame::put_varint(frame::HEADERS, bytes);
        frame::put_varint(length as u64, bytes);
        let start = bytes.len();
        section
            .iter()
            .for_each(|piece| bytes.extend_from_slice(piece));
        *within = start..bytes.len();
        if !body.is_empty() {
            frame::put_varint(frame::DATA, bytes);
            frame::put_varint(body.len() as u64, bytes);
        }
        if !*body_follows {
            bytes.extend_from_slice(body);
        }
    }

    /// The encoded field section.
    pub(crate) fn section(&self) -> &[u8] {
        &self.bytes[self.section.clone()]
    }
}

/// What flow control has not taken yet, and what the caller has still to write.
#[derive(Debug)]
pub(super) struct Sending {
    /// The rest of the opening, of the content that was written last, or of the trailers.
    held: Vec<u8>,
    held_sent: usize,
    /// Which of it is content.
    held_content: Range<usize>,
    body: Arc<[u8]>,
    body_sent: usize,
    /// While the caller writes the content.
    upload: Option<Announced>,
}

/// What is left of the length that was announced.
#[derive(Clone, Copy, Debug)]
struct Announced(Option<u64>);

impl Sending {
    /// `opening` is what is left of it.
    pub(super) fn new(opening: &[u8], request: &Request) -> Self {
        let body = request.body();
        let (inline, body) = if body.len() > INLINE {
            (0, Arc::clone(body))
        } else {
            (body.len(), Arc::default())
        };
        Self {
            held: opening.to_vec(),
            held_sent: 0,
            held_content: opening.len().saturating_sub(inline)..opening.len(),
            body,
            body_sent: 0,
            upload: request
                .streamed_content()
                .map(|streamed| Announced(streamed.length)),
        }
    }

    /// Whether the caller may write more content.
    pub(super) fn is_open(&self) -> bool {
        self.upload.is_some()
    }

    /// Content that has been given over and that the stream has not taken, in bytes.
    pub(super) fn unsent(&self) -> u64 {
        let Range { start, end } = self.held_content;
        let held = end - start.max(self.held_sent).min(end);
        (held + self.body.len() - self.body_sent) as u64
    }

    /// Writes what the stream takes, ends the stream after the last byte, and says whether it did.
    pub(super) fn advance(&mut self, stream: u64, quic: &mut impl QuicStreams) -> bool {
        let written = write_all(stream, &self.held, &mut self.held_sent, quic)
            && write_all(stream, &self.body, &mut self.body_sent, quic);
        let done = written && !self.is_open();
        if done {
            quic.finish(stream);
        }
        done
    }

    /// Writes the front of `bytes` as a DATA frame, and says how many were taken. The length of a
    /// frame comes before its payload, so what the stream does not take of a frame that has begun
    /// is held.
    pub(super) fn write(
        &mut self,
        stream: u64,
        bytes: &[u8],
        quic: &mut impl QuicStreams,
    ) -> usize {
        let Some(Announced(left)) = self.upload else {
            return 0;
        };
        if !write_all(stream, &self.held, &mut self.held_sent, quic) {
            return 0;
        }
        let announced = left.map_or(usize::MAX, |left| {
            usize::try_from(left).unwrap_or(usize::MAX)
        });
        let bytes = &bytes[..bytes.len().min(LARGEST_WRITE).min(announced)];
        self.held.clear();
        self.held_sent = 0;
        self.held_content = 0..0;
        if bytes.is_empty() {
            return 0;
        }
        frame::put_varint(frame::DATA, &mut self.held);
        frame::put_varint(bytes.len() as u64, &mut self.held);
        let mut sent = 0;
        if write_all(stream, &self.held, &mut self.held_sent, quic) {
            write_all(stream, bytes, &mut sent, quic);
        } else if self.held_sent == 0 {
            self.held.clear();
            return 0;
        }
        let framing = self.held.len();
        self.held.extend_from_slice(&bytes[sent..]);
        self.held_content = framing..self.held.len();
        self.upload = Some(Announced(left.map(|left| left - bytes.len() as u64)));
        bytes.len()
    }

    /// Ends the content, with `trailers` as a whole frame or nothing.
    pub(super) fn finish(&mut self, trailers: &[u8]) -> Result<(), Unfinished> {
        if let Some(Announced(Some(missing @ 1..))) = self.upload {
            return Err(Unfinished::Short { missing });
        }
        self.held.extend_from_slice(trailers);
        self.upload = None;
        Ok(())
    }
}

/// Writes until the stream takes no more: QUIC says that a stream is writable again only after it
/// has refused a write.
fn write_all(stream: u64, bytes: &[u8], sent: &mut usize, quic: &mut impl QuicStreams) -> bool {
    while *sent < bytes.len() {
        let written = quic.write(stream, &bytes[*sent..]);
        if written == 0 {
            return false;
        }
        *sent += written;
    }
    true
}
