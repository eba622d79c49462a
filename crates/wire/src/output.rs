//! Where the codecs of byte streams write.

use std::ops::Range;
use std::sync::Arc;

use crate::StreamId;

/// What [`h1`](crate::h1) and [`h2`](crate::h2) write requests to: a `Vec<u8>`, or a queue that is
/// told which of the bytes are content, so that content can be counted as it leaves, and bodies need
/// not be copied.
pub trait Output {
    /// Where everything that is no content is appended.
    fn framing(&mut self) -> &mut Vec<u8>;
    /// Appends content of the request on `stream`.
    fn content(&mut self, stream: StreamId, bytes: &[u8]);
    /// Appends a part of the body of the request on `stream`, which may stay where it lies.
    fn body(&mut self, stream: StreamId, body: &Arc<[u8]>, part: Range<usize>) {
        self.content(stream, &body[part]);
    }
    /// Bytes that have been appended and have not gone.
    fn waiting(&self) -> usize;
}

impl Output for Vec<u8> {
    #[inline]
    fn framing(&mut self) -> &mut Vec<u8> {
        self
    }

    #[inline]
    fn content(&mut self, _stream: StreamId, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn waiting(&self) -> usize {
        self.len()
    }
}
