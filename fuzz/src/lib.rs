//! What the targets share: a sink that holds a connection to the contract of
//! [`Events`](trilane_wire::Events), and requests to send.

use std::collections::BTreeMap;
use std::sync::Arc;

use trilane_wire::{
    Content, Encoding, Events, Fields, Head, OneOff, Request, RequestParts, StreamError, StreamId,
};

/// What one stream has reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Status codes, the final one last.
    pub statuses: Vec<u16>,
    /// Whether the last of them is the final one.
    pub head: bool,
    /// Bytes of the body, and a checksum of them.
    pub body: (u64, u64),
    /// How the stream ended.
    pub end: Option<Result<(), StreamError>>,
}

/// Checks that events come in their order and keeps what they said. With `FIELDS`, fields are walked
/// over as well.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checker<const FIELDS: bool> {
    streams: BTreeMap<u64, Stream>,
}

impl<const FIELDS: bool> Checker<FIELDS> {
    /// All that was reported.
    pub fn into_streams(self) -> BTreeMap<u64, Stream> {
        self.streams
    }

    /// How many streams have ended.
    pub fn ended(&self) -> usize {
        self.streams
            .values()
            .filter(|stream| stream.end.is_some())
            .count()
    }

    fn open(&mut self, id: StreamId) -> &mut Stream {
        let stream = self.streams.entry(id.number).or_default();
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
        assert!(!stream.head && (100..200).contains(&head.status));
        stream.statuses.push(head.status);
        check(head.fields, FIELDS);
    }

    fn head(&mut self, id: StreamId, head: Head<'_>) {
        let stream = self.open(id);
        assert!(!stream.head && (200..1000).contains(&head.status));
        stream.head = true;
        stream.statuses.push(head.status);
        check(head.fields, FIELDS);
    }

    fn data(&mut self, id: StreamId, bytes: &[u8]) {
        let stream = self.open(id);
        assert!(stream.head && !bytes.is_empty());
        let (length, sum) = &mut stream.body;
        for &byte in bytes {
            *length += 1;
            *sum = sum.wrapping_mul(31).wrapping_add(u64::from(byte));
        }
    }

    fn end(&mut self, id: StreamId, trailers: Option<Fields<'_>>) {
        let stream = self.open(id);
        assert!(stream.head);
        stream.end = Some(Ok(()));
        check(trailers.unwrap_or_default(), FIELDS);
    }

    fn fail(&mut self, id: StreamId, error: StreamError) {
        self.open(id).end = Some(Err(error));
    }
}

/// A request with `body` zero bytes.
pub fn request(method: &str, body: usize) -> Request {
    let parts = RequestParts {
        method,
        scheme: "https",
        authority: "a.example",
        path: "/",
        fields: &[("accept".into(), "*/*".into())],
        body: Arc::from(vec![0; body]),
        repeated: true,
    };
    Request::new(&parts).expect("every part is valid")
}

/// A request that is sent once: CONNECT, or a PUT whose content is written.
pub fn one_off(version: Encoding, method: &str) -> Request {
    let (path, content) = match method {
        "CONNECT" => ("a.example:443", Content::Whole([].into())),
        _ => (
            "/",
            Content::Streamed {
                length: None,
                raw: false,
            },
        ),
    };
    let parts = OneOff {
        method,
        scheme: "https",
        authority: "a.example",
        path,
        fields: &[(b"Accept", b"*/*")],
        content,
    };
    Request::one_off(version, &parts).expect("every part is valid")
}
