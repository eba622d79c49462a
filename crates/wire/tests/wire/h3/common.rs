//! A QUIC connection that only remembers, and bytes as a server would write them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trilane_wire::h3::{Config, Connection, QuicStreams};
use trilane_wire::request::Indexing;
use trilane_wire::{
    ConnectionError, Events, Fields, Head, Request, RequestParts, StreamError, StreamId, qpack,
};

/// QUIC without a network.
#[derive(Debug)]
pub(crate) struct Mock {
    pub(crate) bi: u64,
    pub(crate) uni: u64,
    /// What each of our streams may still send.
    pub(crate) windows: BTreeMap<u64, usize>,
    pub(crate) window: usize,
    pub(crate) written: BTreeMap<u64, Vec<u8>>,
    /// Of what was written; nothing of it is lost or overhead.
    pub(crate) transmitted: u64,
    pub(crate) finished: BTreeSet<u64>,
    pub(crate) resets: Vec<(u64, u64)>,
    pub(crate) stops: Vec<(u64, u64)>,
    pub(crate) next_bi: u64,
    pub(crate) next_uni: u64,
}

impl Default for Mock {
    fn default() -> Self {
        Self {
            bi: 1000,
            uni: 3,
            windows: BTreeMap::new(),
            window: usize::MAX,
            written: BTreeMap::new(),
            transmitted: 0,
            finished: BTreeSet::new(),
            resets: Vec::new(),
            stops: Vec::new(),
            next_bi: 0,
            next_uni: 2,
        }
    }
}

impl QuicStreams for Mock {
    fn open_bi(&mut self) -> Option<u64> {
        self.bi = self.bi.checked_sub(1)?;
        self.next_bi += 4;
        Some(self.next_bi - 4)
    }
    fn open_uni(&mut self) -> Option<u64> {
        self.uni = self.uni.checked_sub(1)?;
        self.next_uni += 4;
        Some(self.next_uni - 4)
    }
    fn write(&mut self, stream: u64, bytes: &[u8]) -> usize {
        assert!(!self.finished.contains(&stream), "a write after the end");
        let window = self.windows.entry(stream).or_insert(self.window);
        let length = bytes.len().min(*window);
        *window -= length;
        self.transmitted += length as u64;
        self.written
            .entry(stream)
            .or_default()
            .extend_from_slice(&bytes[..length]);
        length
    }
    fn transmitted(&self) -> u64 {
        self.transmitted
    }
    fn finish(&mut self, stream: u64) {
        assert!(self.finished.insert(stream), "a stream ended twice");
    }
    fn reset(&mut self, stream: u64, code: u64) {
        self.resets.push((stream, code));
    }
    fn stop(&mut self, stream: u64, code: u64) {
        self.stops.push((stream, code));
    }
}

/// What was reported, in order, with pieces of content joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Informational(u32, u16),
    Head(u32, u16, Option<u64>, Vec<(String, String)>),
    Data(u32, Vec<u8>),
    Unsent(u32, u64),
    End(u32, Option<Vec<(String, String)>>),
    Fail(u32, StreamError),
}

#[derive(Debug, Default)]
pub(crate) struct Record(pub(crate) Vec<Event>);

fn texts(fields: Fields<'_>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

impl Events for Record {
    const FIELDS: bool = true;
    fn informational(&mut self, stream: StreamId, head: Head<'_>) {
        self.0.push(Event::Informational(stream.slot, head.status));
    }
    fn head(&mut self, stream: StreamId, head: Head<'_>) {
        let fields = texts(head.fields);
        self.0.push(Event::Head(
            stream.slot,
            head.status,
            head.content_length,
            fields,
        ));
    }
    fn data(&mut self, stream: StreamId, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        for event in self.0.iter_mut().rev() {
            match event {
                Event::Data(slot, data) if *slot == stream.slot => {
                    data.extend_from_slice(bytes);
                    return;
                }
                _ => {}
            }
        }
        self.0.push(Event::Data(stream.slot, bytes.to_vec()));
    }
    fn unsent(&mut self, stream: StreamId, bytes: u64) {
        self.0.push(Event::Unsent(stream.slot, bytes));
    }
    fn end(&mut self, stream: StreamId, trailers: Option<Fields<'_>>) {
        self.0.push(Event::End(stream.slot, trailers.map(texts)));
    }
    fn fail(&mut self, stream: StreamId, error: StreamError) {
        self.0.push(Event::Fail(stream.slot, error));
    }
}

/// A connection with its QUIC and its record.
pub(crate) struct Peer {
    pub(crate) h3: Connection,
    pub(crate) quic: Mock,
    pub(crate) record: Record,
}

pub(crate) type Outcome = Result<(), ConnectionError>;

impl Peer {
    pub(crate) fn new() -> Self {
        Self::with(Mock::default())
    }

    pub(crate) fn with(mut quic: Mock) -> Self {
        let config = Config {
            field_section: 4000,
            max_streams: 100,
        };
        let h3 = Connection::new(config, &mut quic);
        Self {
            h3,
            quic,
            record: Record::default(),
        }
    }

    /// With the peer's SETTINGS received on stream 3.
    pub(crate) fn ready() -> Self {
        let mut peer = Self::new();
        peer.receive(3, &settings(&[]), false).unwrap();
        peer
    }

    /// Sends a GET in `slot` and says on which stream.
    pub(crate) fn get(&mut self, slot: u32) -> u64 {
        self.send("GET", b"", slot)
    }

    pub(crate) fn send(&mut self, method: &str, body: &[u8], slot: u32) -> u64 {
        self.h3
            .send(&request(method, body), slot, &mut self.quic)
            .unwrap()
            .number
    }

    pub(crate) fn receive(&mut self, stream: u64, bytes: &[u8], fin: bool) -> Outcome {
        self.h3
            .receive(stream, bytes, fin, &mut self.record, &mut self.quic)
    }

    pub(crate) fn reset(&mut self, stream: u64, code: u64) -> Outcome {
        self.h3
            .reset(stream, code, &mut self.record, &mut self.quic)
    }

    pub(crate) fn stopped(&mut self, stream: u64, code: u64) -> Outcome {
        self.h3
            .stopped(stream, code, &mut self.record, &mut self.quic)
    }

    /// The only failure, which is the last event.
    pub(crate) fn failure(&self) -> StreamError {
        match self.record.0.last() {
            Some(Event::Fail(_, error)) => *error,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn request(method: &str, body: &[u8]) -> Request {
    Request::new(&RequestParts {
        method,
        scheme: "https",
        authority: "a.example",
        path: "/",
        fields: &[],
        body: Arc::from(body),
        repeated: true,
    })
    .unwrap()
}

pub(crate) fn varint(value: u64) -> Vec<u8> {
    match value {
        0..=63 => vec![value as u8],
        64..=16383 => (value as u16 | 0x4000).to_be_bytes().to_vec(),
        16384..=0x3fff_ffff => (value as u32 | 0x8000_0000).to_be_bytes().to_vec(),
        _ => (value | 0xc000_0000_0000_0000).to_be_bytes().to_vec(),
    }
}

pub(crate) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [varint(kind), varint(payload.len() as u64), payload.to_vec()].concat()
}

pub(crate) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = fields
        .iter()
        .map(|(n, v)| (n.as_bytes(), v.as_bytes(), Indexing::Incremental));
    qpack::encode(fields, &mut out);
    out
}

pub(crate) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(1, &section(fields))
}

pub(crate) fn data(bytes: &[u8]) -> Vec<u8> {
    frame(0, bytes)
}

/// A control stream from its type to the end of SETTINGS.
pub(crate) fn settings(pairs: &[(u64, u64)]) -> Vec<u8> {
    let payload: Vec<u8> = pairs
        .iter()
        .flat_map(|&(id, value)| [varint(id), varint(value)].concat())
        .collect();
    [vec![0], frame(4, &payload)].concat()
}

/// The code of the connection error that `outcome` must be.
pub(crate) fn code(outcome: Outcome) -> u64 {
    outcome.expect_err("a connection error").code
}
