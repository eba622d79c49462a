//! The open streams, found by their id without hashing.

use std::mem;
use std::sync::Arc;

use crate::StreamId;

/// One request and its response.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// 0 where the place is vacant.
    id: u32,
    slot: u32,
    /// What we may send. SETTINGS may make it negative (RFC 9113 §6.9.2).
    pub(super) send_window: i64,
    /// What has been received since the window was last opened.
    pub(super) received: u32,
    /// What is still to come of a body whose length is known.
    pub(super) remaining: Option<u64>,
    /// What is still to be sent, unless the caller writes it.
    pub(super) body: Option<Body>,
    pub(super) sending: Sending,
    pub(super) is_head: bool,
    /// Whether a response of success opens a tunnel, or has opened one (RFC 8441 §4).
    pub(super) is_connect: bool,
    pub(super) got_head: bool,
    pub(super) informational: u8,
}

/// How far our direction of a stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sending {
    /// The stream has been ended by us.
    #[default]
    Done,
    /// There is a body, and no window for it.
    Blocked,
    /// The stream waits in the queue of those whose body may be sent now.
    Queued,
    /// The caller writes the content.
    Streamed,
}

/// A body that has not been sent to its end.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Arc<[u8]>,
    pub(super) sent: usize,
}

/// A table that an id indexes directly, twice as large as the streams are many. Ids are given in
/// order, so only a stream that outlives many others is in the way of a new one, which then goes to
/// a list behind the table.
#[derive(Debug)]
pub(super) struct Streams {
    table: Vec<Stream>,
    overflow: Vec<Stream>,
    len: usize,
}

impl Stream {
    pub(super) fn new(id: u32, slot: u32, send_window: u32, is_head: bool) -> Self {
        Self {
            id,
            slot,
            send_window: i64::from(send_window),
            is_head,
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn id(&self) -> StreamId {
        StreamId {
            number: u64::from(self.id),
            slot: self.slot,
        }
    }

    /// Whether half of a window of `window` bytes has been used, and the rest does not do.
    #[inline]
    pub(super) fn window_is_due(&self, window: u32) -> bool {
        self.received >= window.div_ceil(2)
            && self.received > 0
            && self
                .remaining
                .is_none_or(|rest| rest > u64::from(window - self.received))
    }

    /// The id on the wire.
    pub(super) fn number(&self) -> u32 {
        self.id
    }
}

impl Streams {
    pub(super) fn new() -> Self {
        let mut table = Vec::new();
        table.resize_with(16, Stream::default);
        Self {
            table,
            overflow: Vec::new(),
            len: 0,
        }
    }

    /// Adds a stream, whose id is not in use.
    pub(super) fn insert(&mut self, stream: Stream) {
        if (self.len + 1) * 2 > self.table.len() {
            self.grow();
        }
        self.len += 1;
        self.place(stream);
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        let index = self.index(id);
        if self.table[index].id == id && id != 0 {
            return Some(&mut self.table[index]);
        }
        self.overflow.iter_mut().find(|stream| stream.id == id)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        let found = &self.table[self.index(id)];
        if found.id == id && id != 0 {
            return Some(found);
        }
        self.overflow.iter().find(|stream| stream.id == id)
    }

    /// Removes a stream, if it is there.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        let index = self.index(id);
        if self.table[index].id == id && id != 0 {
            let stream = &mut self.table[index];
            stream.id = 0;
            if stream.body.is_some() {
                stream.body = None;
            }
            self.len -= 1;
        } else if let Some(position) = self.overflow.iter().position(|stream| stream.id == id) {
            self.overflow.swap_remove(position);
            self.len -= 1;
        }
    }

    /// Removes every stream above `last`, and gives them in order.
    pub(super) fn remove_above(&mut self, last: u32) -> Vec<Stream> {
        let table = self
            .table
            .iter_mut()
            .filter(|stream| stream.id > last)
            .map(mem::take);
        let mut removed: Vec<_> = table.collect();
        removed.extend(self.overflow.extract_if(.., |stream| stream.id > last));
        removed.sort_unstable_by_key(|stream| stream.id);
        self.len -= removed.len();
        removed
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.table
            .iter_mut()
            .filter(|stream| stream.id != 0)
            .chain(&mut self.overflow)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn index(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.table.len() - 1)
    }

    fn place(&mut self, stream: Stream) {
        let index = self.index(stream.id);
        if self.table[index].id == 0 {
            self.table[index] = stream;
        } else {
            self.overflow.push(stream);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.table.len() * 2;
        let old = mem::take(&mut self.table);
        self.table.resize_with(size, Stream::default);
        let open = old.into_iter().filter(|stream| stream.id != 0);
        for stream in open.chain(mem::take(&mut self.overflow)) {
            self.place(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_outlive_others_are_found() {
        let mut streams = Streams::new();
        let long_lived = [1, 3, 33, 35];
        for number in (1..20_001).step_by(2) {
            streams.insert(Stream::new(number, number + 7, 0, false));
            if !long_lived.contains(&number) {
                streams.remove(number);
                streams.remove(number);
            }
        }
        assert_eq!(streams.len(), 4);
        for number in long_lived {
            let found = streams.get_mut(number).map(|stream| stream.id());
            assert_eq!(
                found,
                Some(StreamId {
                    number: number.into(),
                    slot: number + 7
                })
            );
        }
        assert!(streams.get_mut(0).is_none());
        assert!(streams.get_mut(5).is_none());
        assert!(streams.table.len() <= 16);
        let above: Vec<_> = streams.remove_above(3).iter().map(Stream::number).collect();
        assert_eq!(above, [33, 35]);
        assert_eq!(streams.len(), 2);
    }

    #[test]
    fn the_table_grows_with_the_streams() {
        let mut streams = Streams::new();
        for number in (1..2001).step_by(2) {
            streams.insert(Stream::new(number, 0, 0, false));
        }
        assert_eq!(streams.len(), 1000);
        assert_eq!(streams.iter_mut().count(), 1000);
        assert!(streams.overflow.is_empty());
        for number in (1..2001).step_by(2) {
            assert!(streams.get_mut(number).is_some());
        }
    }
}
