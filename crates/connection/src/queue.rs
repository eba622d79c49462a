//! What a connection has to send, from the codec to the socket.

use std::cell::Cell;
use std::mem;

/// Memory that an empty queue keeps for the next request, in bytes, so that ten thousand connections
/// that have sent bodies once do not keep room for them.
const KEPT: usize = 16 * 1024;
/// What is larger serves the next queue of the thread that has no memory, up to this, in bytes.
const SPARE: usize = 1 << 20;

thread_local! {
    /// Empty memory.
    static MEMORY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes that wait to be sent, in order.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    bytes: Vec<u8>,
    /// How many of them have gone.
    sent: usize,
}

impl SendQueue {
    /// Bytes that have not gone.
    #[inline]
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where more is appended.
    #[inline]
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = MEMORY.take();
        }
        &mut self.bytes
    }

    /// The first `count` of those that wait have gone.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Drops everything.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.sent = 0;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT {
            let memory = mem::take(&mut self.bytes);
            if memory.capacity() <= SPARE {
                MEMORY.set(memory);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_in_order_and_leave_small_memory_behind() {
        let mut queue = SendQueue::default();
        queue.tail().extend_from_slice(b"hello ");
        queue.advance(2);
        queue.tail().extend_from_slice(b"world");
        assert_eq!(queue.waiting(), b"llo world");
        queue.advance(9);
        assert!(queue.is_empty());
        assert!(queue.bytes.capacity() > 0, "kept for the next request");
        queue.tail().resize(KEPT + 1, 7);
        queue.advance(KEPT + 1);
        assert_eq!(queue.bytes.capacity(), 0);
        // The next one that needs some gets it, empty.
        let mut other = SendQueue::default();
        other.tail().push(1);
        assert_eq!(other.waiting(), [1]);
        assert!(other.bytes.capacity() > KEPT);
        queue.tail().resize(SPARE + 1, 7);
        queue.advance(SPARE + 1);
        assert_eq!(MEMORY.take().capacity(), 0, "too much to keep");
    }
}
