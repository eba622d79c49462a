//! What a connection has to send, from the codec to the socket.

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;

use trilane_wire::{Output, StreamId};

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
    content: Contents,
    /// Bytes of content that have gone, ever.
    content_sent: u64,
}

/// Content of requests that has not gone.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Which of the bytes that wait it is, in order.
    waiting: VecDeque<Content>,
    /// What will never go.
    lost: Vec<Content>,
}

/// Content of one request, `length` bytes from `at` on.
#[derive(Debug)]
struct Content {
    stream: StreamId,
    at: usize,
    length: usize,
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

    /// As [`Self::tail`], with the content that waits.
    #[inline]
    pub(crate) fn tail_and_content(&mut self) -> (&mut Vec<u8>, &Contents) {
        self.tail();
        (&mut self.bytes, &self.content)
    }

    /// The content that waits.
    pub(crate) fn content(&self) -> &Contents {
        &self.content
    }

    /// Bytes of content that have gone.
    #[inline]
    pub(crate) fn content_sent(&self) -> u64 {
        self.content_sent
    }

    /// The first `count` of those that wait have gone.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
        let content_sent = &mut self.content_sent;
        self.content
            .take_to(self.sent, |_, _, length| *content_sent += length as u64);
        if self.is_empty() {
            self.clear();
        }
    }

    /// The first `count` bytes of `plain` have been sealed into the record that ends this queue. What
    /// seals them stands before them for this purpose, so that the last byte of content goes with the
    /// last one of the record.
    pub(crate) fn take_sealed(&mut self, plain: &mut SendQueue, count: usize) {
        let start = self.bytes.len() - count;
        let (from, content) = (plain.sent, &mut self.content);
        plain.sent += count;
        plain.content.take_to(plain.sent, |stream, at, length| {
            content.add(stream, start + at - from, length);
        });
        if plain.is_empty() {
            plain.clear();
        }
    }

    /// Drops everything, as nothing takes it any more.
    pub(crate) fn abandon(&mut self) {
        let Contents { waiting, lost } = &mut self.content;
        lost.extend(waiting.drain(..));
        self.clear();
    }

    #[inline]
    fn clear(&mut self) {
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

impl Output for SendQueue {
    #[inline]
    fn framing(&mut self) -> &mut Vec<u8> {
        self.tail()
    }

    #[inline]
    fn content(&mut self, stream: StreamId, bytes: &[u8]) {
        let tail = self.tail();
        let at = tail.len();
        tail.extend_from_slice(bytes);
        self.content.add(stream, at, bytes.len());
    }

    #[inline]
    fn waiting(&self) -> usize {
        self.len()
    }
}

impl Contents {
    /// Bytes of content of one request.
    pub(crate) fn of(&self, stream: StreamId) -> u64 {
        let all = self.waiting.iter().chain(&self.lost);
        let pieces = all.filter(|content| content.stream == stream);
        pieces.map(|content| content.length as u64).sum()
    }

    fn add(&mut self, stream: StreamId, at: usize, length: usize) {
        match self.waiting.back_mut() {
            Some(last) if last.stream == stream && last.at + last.length == at => {
                last.length += length;
            }
            _ if length == 0 => (),
            _ => self.waiting.push_back(Content { stream, at, length }),
        }
    }

    /// Removes what stands before `end`, and gives `taken` each piece: stream, place and length.
    #[inline]
    fn take_to(&mut self, end: usize, mut taken: impl FnMut(StreamId, usize, usize)) {
        while let Some(first) = self.waiting.front_mut().filter(|first| first.at < end) {
            let length = first.length.min(end - first.at);
            taken(first.stream, first.at, length);
            first.at += length;
            first.length -= length;
            if first.length == 0 {
                self.waiting.pop_front();
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
