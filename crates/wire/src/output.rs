//! Where the codecs of byte streams write.

use crate::StreamId;

/// What [`h1`](crate::h1) and [`h2`](crate::h2) write requests to: a `Vec<u8>`, or a queue that is
/// told which of the bytes are content, so that content can be counted as it leaves.
pub trait Output {
    /// Where everything that is no content is appended.
    fn framing(&mut self) -> &mut Vec<u8>;
    /// Appends content of the request on `stream`.
    fn content(&mut self, stream: StreamId, bytes: &[u8]);
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
