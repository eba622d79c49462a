//! Content that waits while its response ends.

use trilane_wire::{Events, Fields, Head, StreamError, StreamId};

use crate::queue::Contents;

/// Reports what the codec does, and before the end of a response how much of the request's content
/// waits behind the codec.
#[derive(Debug)]
pub(crate) struct Unsent<'a, E> {
    pub(crate) events: &'a mut E,
    /// Before TLS.
    pub(crate) plain: &'a Contents,
    /// For the socket.
    pub(crate) queue: &'a Contents,
}

impl<E: Events> Events for Unsent<'_, E> {
    const FIELDS: bool = E::FIELDS;
    const ORIGINAL_CASE: bool = E::ORIGINAL_CASE;

    #[inline]
    fn informational(&mut self, stream: StreamId, head: Head<'_>) {
        self.events.informational(stream, head);
    }

    #[inline]
    fn head(&mut self, stream: StreamId, head: Head<'_>) {
        self.events.head(stream, head);
    }

    #[inline]
    fn data(&mut self, stream: StreamId, bytes: &[u8]) {
        self.events.data(stream, bytes);
    }

    #[inline]
    fn discarded(&mut self, stream: StreamId, bytes: u64) {
        self.events.discarded(stream, bytes);
    }

    #[inline]
    fn unsent(&mut self, stream: StreamId, bytes: u64) {
        self.events.unsent(stream, bytes);
    }

    #[inline]
    fn surplus(&mut self, stream: StreamId, bytes: u64) {
        self.events.surplus(stream, bytes);
    }

    #[inline]
    fn end(&mut self, stream: StreamId, trailers: Option<Fields<'_>>) {
        if let waiting @ 1.. = self.plain.of(stream) + self.queue.of(stream) {
            self.events.unsent(stream, waiting);
        }
        self.events.end(stream, trailers);
    }

    #[inline]
    fn goaway(&mut self, code: u64, debug: &[u8]) {
        self.events.goaway(code, debug);
    }

    #[inline]
    fn fail(&mut self, stream: StreamId, error: StreamError) {
        self.events.fail(stream, error);
    }
}
