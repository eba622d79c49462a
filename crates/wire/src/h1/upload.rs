//! The content of a request: a body that is sent as the transport takes it, or one that the caller
//! writes.

use std::sync::Arc;

use super::{Connection, Phase};
use crate::output::Output;
use crate::request::{Framing, Streamed};
use crate::upload::{self, LARGEST_WRITE};
use crate::{FieldList, Request, StreamId, Unfinished, Upload};

/// Most bytes that one call leaves in `out` on account of a body: the next piece waits until the
/// transport has taken this one. A system call takes as much, where the body goes from where it lies.
const OUT_TARGET: usize = 256 * 1024;

/// Content that has not been sent to its end.
#[derive(Debug)]
pub(super) enum Pending {
    /// A body of which the bytes from `sent` on have not been written.
    Whole { body: Arc<[u8]>, sent: usize },
    /// Content that the caller writes.
    Streamed(Streamed),
}

impl Pending {
    /// Begins with the content of `request`; `None` where that was all.
    pub(super) fn begin(
        request: &Request,
        stream: StreamId,
        out: &mut impl Output,
    ) -> Option<Self> {
        if let Some(streamed) = request.streamed_content() {
            return Some(Self::Streamed(streamed));
        }
        let body = request.body();
        let sent = append(stream, body, 0, out);
        (sent < body.len()).then(|| Self::Whole {
            body: Arc::clone(body),
            sent,
        })
    }

    /// Whether the peer still waits for bytes, so that it cannot find another request.
    pub(super) fn is_owed(&self) -> bool {
        match self {
            Self::Whole { .. } => true,
            Self::Streamed(Streamed { length, framing }) => match framing {
                Framing::Length => *length != Some(0),
                Framing::Chunked | Framing::Own => true,
                Framing::Nothing => false,
            },
        }
    }
}

impl Connection {
    /// Writes content of the request that was sent with [`crate::Content::Streamed`], and says how
    /// many of `bytes` were taken: 64 KiB at most, no more than was announced, and none unless
    /// [`Self::upload`] is open. Empty `out` before calling again.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8], out: &mut impl Output) -> usize {
        let Some(Pending::Streamed(streamed)) = &mut self.pending else {
            return 0;
        };
        if stream.number != self.stream.number {
            return 0;
        }
        let announced = streamed.length.map_or(usize::MAX, |left| {
            usize::try_from(left).unwrap_or(usize::MAX)
        });
        let bytes = &bytes[..bytes.len().min(LARGEST_WRITE).min(announced)];
        if bytes.is_empty() {
            return 0;
        }
        if let Some(left) = &mut streamed.length {
            *left -= bytes.len() as u64;
        }
        match streamed.framing {
            Framing::Chunked => {
                let size = format!("{:x}\r\n", bytes.len());
                out.framing().extend_from_slice(size.as_bytes());
                out.content(stream, bytes);
                out.framing().extend_from_slice(b"\r\n");
            }
            Framing::Nothing => {
                // Only the end of the connection says where this ends.
                self.closing = true;
                out.content(stream, bytes);
            }
            Framing::Length | Framing::Own => out.content(stream, bytes),
        }
        bytes.len()
    }

    /// Ends the content of a request. Trailers can be sent behind chunks alone, and are left out
    /// elsewhere (RFC 9110 §6.5.1). Without effect unless [`Self::upload`] is open.
    pub fn finish(
        &mut self,
        stream: StreamId,
        trailers: &FieldList,
        out: &mut Vec<u8>,
    ) -> Result<(), Unfinished> {
        let Some(Pending::Streamed(streamed)) = &self.pending else {
            return Ok(());
        };
        if stream.number != self.stream.number {
            return Ok(());
        }
        if let Some(missing @ 1..) = streamed.length {
            return Err(Unfinished::Short { missing });
        }
        upload::check_trailers(trailers)?;
        if streamed.framing == Framing::Chunked {
            out.extend_from_slice(b"0\r\n");
            for (name, value) in trailers.iter() {
                for piece in [name, b": ", value, b"\r\n"] {
                    out.extend_from_slice(piece);
                }
            }
            out.extend_from_slice(b"\r\n");
        }
        self.pending = None;
        Ok(())
    }

    /// How far the content of a request is.
    pub fn upload(&self, stream: StreamId) -> Upload {
        if stream.number != self.stream.number || matches!(self.phase, Phase::Idle) {
            return Upload::Stopped;
        }
        match self.pending {
            Some(Pending::Streamed(_)) => Upload::Open,
            _ => Upload::Ended,
        }
    }
}

/// Appends `body` from `start` on to `out`, as much as keeps `out` small, and says how much it was.
pub(super) fn append(
    stream: StreamId,
    body: &Arc<[u8]>,
    start: usize,
    out: &mut impl Output,
) -> usize {
    let room = OUT_TARGET.saturating_sub(out.waiting());
    let taken = (body.len() - start).min(room);
    out.body(stream, body, start..start + taken);
    taken
}
