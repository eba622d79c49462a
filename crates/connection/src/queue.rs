//! What a connection has to send, from the codec to the socket.

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use trilane_wire::{Output, StreamId};

/// Memory that an empty queue keeps for the next request, in bytes, so that ten thousand connections
/// that have sent bodies once do not keep room for them.
const KEPT: usize = 16 * 1024;
/// What is larger serves the next queue of the thread that has no memory, up to this, in bytes.
const SPARE: usize = 1 << 20;

/// Smaller parts of bodies are copied: up to about this size, in bytes, that takes no more processor
/// time than another slice of the send. Whole frames of HTTP/2 have it.
const SHARED: usize = 16 * 1024;

thread_local! {
    /// Empty memory.
    static MEMORY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// Where a record of TLS is put together, whose plaintext lies apart.
    static GATHERED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes that wait to be sent, in order: heads, frames and small content in memory of the queue's own,
/// bodies where they lie.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    bytes: Vec<u8>,
    /// How many of them have gone.
    sent: usize,
    /// Bytes of bodies that have not gone and lie elsewhere.
    elsewhere: usize,
    content: Contents,
    /// Bytes of content that have gone, ever.
    content_sent: u64,
}

/// Content of requests that has not gone.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// In the order of sending.
    waiting: VecDeque<Content>,
    /// What will never go.
    lost: Vec<Content>,
}

/// Content of one request.
#[derive(Debug)]
struct Content {
    stream: StreamId,
    /// Where it begins among the bytes of the queue, or before which of them it goes.
    at: usize,
    length: usize,
    /// A body that lies elsewhere, and where in it this begins.
    body: Option<(Arc<[u8]>, usize)>,
}

impl SendQueue {
    /// What has not gone, in order and in pieces that are not empty.
    #[inline]
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let bodies = self.content.waiting.iter().filter_map(Content::elsewhere);
        let last = bodies.clone().next_back().map_or(self.sent, |(at, _)| at);
        let mut from = self.sent;
        bodies
            .flat_map(move |(at, body)| [&self.bytes[mem::replace(&mut from, at)..at], body])
            .chain([&self.bytes[last..]])
            .filter(|slice| !slice.is_empty())
    }

    /// The first of [`Self::slices`]; empty where nothing waits.
    #[inline]
    pub(crate) fn first(&self) -> &[u8] {
        self.slices().next().unwrap_or_default()
    }

    /// Calls `call` with the first `most` bytes, or all that there are, in one piece: as they lie, or
    /// copied where they lie apart. Says how many they were.
    pub(crate) fn front<T>(&self, most: usize, call: impl FnOnce(&[u8]) -> T) -> (usize, T) {
        let first = self.first();
        let count = self.len().min(most);
        if let Some(front) = first.get(..count) {
            return (count, call(front));
        }
        let mut gathered = GATHERED.take();
        gathered.clear();
        for slice in self.slices() {
            let room = count - gathered.len();
            gathered.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        let result = call(&gathered);
        GATHERED.set(gathered);
        (count, result)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.elsewhere
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
        let mut content_sent = self.content_sent;
        self.take(count, |_, _, length| content_sent += length as u64);
        self.content_sent = content_sent;
    }

    /// The first `count` bytes of `plain` have been sealed into the record that ends this queue. What
    /// seals them counts as standing before them, so that the last byte of content goes with the last
    /// one of the record.
    pub(crate) fn take_sealed(&mut self, plain: &mut SendQueue, count: usize) {
        let start = self.bytes.len() - count;
        let content = &mut self.content;
        plain.take(count, |stream, offset, length| {
            content.add(stream, start + offset, length, None);
        });
    }

    /// Drops everything, as nothing takes it any more.
    pub(crate) fn abandon(&mut self) {
        let Contents { waiting, lost } = &mut self.content;
        lost.extend(waiting.drain(..).map(|content| Content {
            body: None,
            ..content
        }));
        self.elsewhere = 0;
        self.clear();
    }

    /// Takes `count` bytes from the front, and gives `taken` each piece of content among them: its
    /// stream, where in these bytes it began, and its length.
    #[inline]
    fn take(&mut self, count: usize, mut taken: impl FnMut(StreamId, usize, usize)) {
        let mut done = 0;
        while done < count {
            let rest = count - done;
            let first = self.content.waiting.front_mut();
            if let Some(content) = first.filter(|first| first.at == self.sent) {
                let length = content.length.min(rest);
                taken(content.stream, done, length);
                done += length;
                content.length -= length;
                match &mut content.body {
                    Some((_, start)) => {
                        *start += length;
                        self.elsewhere -= length;
                    }
                    None => {
                        content.at += length;
                        self.sent += length;
                    }
                }
                if content.length == 0 {
                    self.content.waiting.pop_front();
                }
            } else {
                let next = self.content.waiting.front();
                let end = next.map_or(self.bytes.len(), |next| next.at);
                let length = rest.min(end - self.sent);
                debug_assert!(length > 0, "more is taken than waits");
                if length == 0 {
                    break;
                }
                done += length;
                self.sent += length;
            }
        }
        if self.is_empty() {
            self.clear();
        }
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
        self.content.add(stream, at, bytes.len(), None);
    }

    #[inline]
    fn body(&mut self, stream: StreamId, body: &Arc<[u8]>, part: Range<usize>) {
        if part.len() < SHARED {
            self.content(stream, &body[part]);
            return;
        }
        self.elsewhere += part.len();
        let shared = Some((Arc::clone(body), part.start));
        self.content
            .add(stream, self.bytes.len(), part.len(), shared);
    }

    #[inline]
    fn waiting(&self) -> usize {
        self.len()
    }
}

impl Contents {
    /// Bytes of content of one request.
    #[inline]
    pub(crate) fn of(&self, stream: StreamId) -> u64 {
        // As with every request that has no content.
        if self.waiting.is_empty() && self.lost.is_empty() {
            return 0;
        }
        let all = self.waiting.iter().chain(&self.lost);
        let pieces = all.filter(|content| content.stream == stream);
        pieces.map(|content| content.length as u64).sum()
    }

    fn add(
        &mut self,
        stream: StreamId,
        at: usize,
        length: usize,
        body: Option<(Arc<[u8]>, usize)>,
    ) {
        if length > 0 {
            self.waiting.push_back(Content {
                stream,
                at,
                length,
                body,
            });
        }
    }
}

impl Content {
    /// Where it goes and what it is, where it lies elsewhere.
    #[inline]
    fn elsewhere(&self) -> Option<(usize, &[u8])> {
        let (body, start) = self.body.as_ref()?;
        Some((self.at, &body[*start..*start + self.length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_stand_where_they_were_appended() {
        let stream = StreamId { number: 1, slot: 0 };
        let body: Arc<[u8]> = (0..2 * SHARED).map(|n| n as u8).collect();
        let mut queue = SendQueue::default();
        queue.framing().extend_from_slice(b"head");
        queue.body(stream, &body, 0..SHARED);
        queue.body(stream, &body, SHARED..2 * SHARED);
        queue.framing().extend_from_slice(b"frame");
        queue.body(stream, &body, 1..4);
        let slices: Vec<_> = queue.slices().collect();
        let expected = [
            b"head",
            &body[..SHARED],
            &body[SHARED..],
            b"frame\x01\x02\x03",
        ];
        assert_eq!(slices, expected);
        let unsent = |queue: &SendQueue| (queue.len(), queue.content().of(stream));
        assert_eq!(unsent(&queue), (2 * SHARED + 12, 2 * SHARED as u64 + 3));
        queue.advance(4 + 10);
        assert_eq!(queue.first(), &body[10..SHARED]);
        assert_eq!(unsent(&queue), (2 * SHARED - 2, 2 * SHARED as u64 - 7));
        // One piece of several.
        let (count, front) = queue.front(SHARED, <[u8]>::to_vec);
        assert_eq!((count, &front[..]), (SHARED, &body[10..SHARED + 10]));
        queue.advance(2 * SHARED - 10 + 5 + 1);
        assert_eq!(queue.first(), &body[2..4]);
        assert_eq!(queue.content_sent(), 2 * SHARED as u64 + 1);
        assert_eq!(Arc::strong_count(&body), 1, "what has gone is let go");
        queue.abandon();
        assert!(queue.is_empty());
        assert_eq!(queue.content().of(stream), 2, "which will never go");
    }

    #[test]
    fn bytes_go_in_order_and_leave_small_memory_behind() {
        let mut queue = SendQueue::default();
        queue.tail().extend_from_slice(b"hello ");
        queue.advance(2);
        queue.tail().extend_from_slice(b"world");
        assert_eq!(queue.first(), b"llo world");
        queue.advance(9);
        assert!(queue.is_empty());
        assert!(queue.bytes.capacity() > 0, "kept for the next request");
        queue.tail().resize(KEPT + 1, 7);
        queue.advance(KEPT + 1);
        assert_eq!(queue.bytes.capacity(), 0);
        // The next one that needs some gets it, empty.
        let mut other = SendQueue::default();
        other.tail().push(1);
        assert_eq!(other.first(), [1]);
        assert!(other.bytes.capacity() > KEPT);
        queue.tail().resize(SPARE + 1, 7);
        queue.advance(SPARE + 1);
        assert_eq!(MEMORY.take().capacity(), 0, "too much to keep");
    }
}
