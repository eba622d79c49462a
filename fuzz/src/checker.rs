//! A sink that holds a connection to the contract of [`Events`].

use std::collections::BTreeMap;

use trilane_wire::{Events, Fields, Head, StreamError, StreamId};

/// What one stream has reported.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    slot: u32,
    /// Status, announced length and size on the wire of each head, the final one last.
    heads: Vec<(u16, Option<u64>, usize)>,
    /// Whether the last of them is the final one.
    final_head: bool,
    /// Bytes of the body, and a checksum of them.
    body: (u64, u64),
    /// How the stream ended.
    end: Option<End>,
}

/// Why nothing more may be reported for a stream.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Complete,
    Failed(StreamError),
    Cancelled,
}

/// What all streams have reported, by their id.
pub(crate) type Streams = BTreeMap<u64, Stream>;

/// Checks that events come in their order, for streams that are open, and keeps what they said. With
/// `FIELDS`, fields are walked over as well.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checker<const FIELDS: bool> {
    streams: Streams,
    over: bool,
}

impl<const FIELDS: bool> Checker<FIELDS> {
    /// A request was sent.
    pub(crate) fn sent(&mut self, id: StreamId) {
        assert!(!self.over, "a request was taken after the end");
        let stream = Stream {
            slot: id.slot,
            heads: Vec::new(),
            final_head: false,
            body: (0, 0),
            end: None,
        };
        let before = self.streams.insert(id.number, stream);
        assert_eq!(before, None, "a stream id was used twice");
    }

    /// The caller cancelled a request: nothing more is reported for it.
    pub(crate) fn cancelled(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id.number) {
            stream.end.get_or_insert(End::Cancelled);
        }
    }

    /// The connection has reported its end: every stream has ended by now, and nothing follows.
    pub(crate) fn over(&mut self) {
        assert_eq!(self.outstanding(), 0, "a stream outlives its connection");
        self.over = true;
    }

    /// All that was reported.
    pub(crate) fn into_streams(self) -> Streams {
        self.streams
    }

    /// The requests that have neither ended nor failed.
    pub(crate) fn outstanding(&self) -> usize {
        let open = self.streams.values().filter(|stream| stream.end.is_none());
        open.count()
    }

    fn open(&mut self, id: StreamId) -> &mut Stream {
        assert!(!self.over, "an event after the end of the connection");
        let stream = self.streams.get_mut(&id.number);
        let stream = stream.expect("events name streams that were sent");
        assert_eq!(stream.slot, id.slot, "the slot comes back untouched");
        assert_eq!(stream.end, None, "an event after the last");
        stream
    }
}

/// Checks fields as a caller would see them.
fn check(fields: Fields<'_>, wanted: bool) {
    for (name, value) in fields.iter() {
        assert!(wanted, "fields that nobody asked for");
        assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase));
        assert!(!value.contains(&b'\n') && !value.contains(&0));
    }
}

impl<const FIELDS: bool> Events for Checker<FIELDS> {
    const FIELDS: bool = FIELDS;

    fn informational(&mut self, id: StreamId, head: Head<'_>) {
        let stream = self.open(id);
        assert!(!stream.final_head && (100..200).contains(&head.status));
        let said = (head.status, head.content_length, head.encoded_bytes);
        stream.heads.push(said);
        check(head.fields, FIELDS);
    }

    fn head(&mut self, id: StreamId, head: Head<'_>) {
        let stream = self.open(id);
        assert!(!stream.final_head && (200..1000).contains(&head.status));
        stream.final_head = true;
        let said = (head.status, head.content_length, head.encoded_bytes);
        stream.heads.push(said);
        check(head.fields, FIELDS);
    }

    fn data(&mut self, id: StreamId, bytes: &[u8]) {
        let stream = self.open(id);
        assert!(stream.final_head && !bytes.is_empty());
        let (length, sum) = &mut stream.body;
        for &byte in bytes {
            *length += 1;
            *sum = sum.wrapping_mul(31).wrapping_add(u64::from(byte));
        }
    }

    fn end(&mut self, id: StreamId, trailers: Option<Fields<'_>>) {
        let stream = self.open(id);
        assert!(stream.final_head);
        stream.end = Some(End::Complete);
        check(trailers.unwrap_or_default(), FIELDS);
    }

    fn fail(&mut self, id: StreamId, error: StreamError) {
        self.open(id).end = Some(End::Failed(error));
    }
}
