//! A recorder of events, a reader of frames, and a peer that says what a test tells it to.

use std::sync::Arc;

use trilane_wire::h2::{Config, Connection};
use trilane_wire::{
    ConnectionError, ErrorKind, Events, Fields, Head, Request, RequestParts, StreamError, StreamId,
    Unprocessed,
};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

pub(crate) const NO_ERROR: u64 = 0;
pub(crate) const PROTOCOL_ERROR: u64 = 1;
pub(crate) const FLOW_CONTROL_ERROR: u64 = 3;
pub(crate) const STREAM_CLOSED: u64 = 5;
pub(crate) const FRAME_SIZE_ERROR: u64 = 6;
pub(crate) const REFUSED_STREAM: u64 = 7;
pub(crate) const CANCEL: u64 = 8;
pub(crate) const COMPRESSION_ERROR: u64 = 9;
pub(crate) const ENHANCE_YOUR_CALM: u64 = 11;

/// The block `:status: 200`.
pub(crate) const OK: &[u8] = &[0x88];

pub(crate) const CONFIG: Config = Config {
    stream_window: 100_000,
    connection_window: 1_000_000,
    header_table: 4096,
    header_list: 16_384,
    max_frame: 16_384,
    max_streams: 1000,
    streams_before_settings: 100,
};

pub(crate) type FieldVec = Vec<(String, String)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Informational(u64, u16, FieldVec),
    Head {
        stream: u64,
        status: u16,
        content_length: Option<u64>,
        fields: FieldVec,
    },
    Data(u64, Vec<u8>),
    End(u64, Option<FieldVec>),
    Fail(u64, StreamError),
}

/// Records what happens. Pieces of one body are joined, because where they are cut is nobody's
/// promise.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
}

fn owned(fields: Fields<'_>) -> FieldVec {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    fields
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

impl Events for Recorder {
    const FIELDS: bool = true;

    fn informational(&mut self, stream: StreamId, head: Head<'_>) {
        self.events.push(Event::Informational(
            stream.number,
            head.status,
            owned(head.fields),
        ));
    }

    fn head(&mut self, stream: StreamId, head: Head<'_>) {
        assert_eq!(
            u64::from(stream.slot),
            stream.number * 10,
            "slots come back untouched"
        );
        self.events.push(Event::Head {
            stream: stream.number,
            status: head.status,
            content_length: head.content_length,
            fields: owned(head.fields),
        });
    }

    fn data(&mut self, stream: StreamId, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        let last = self.events.iter_mut().rev().find_map(|event| match event {
            Event::Data(number, body) if *number == stream.number => Some(body),
            _ => None,
        });
        match last {
            Some(body) => body.extend_from_slice(bytes),
            None => self.events.push(Event::Data(stream.number, bytes.into())),
        }
    }

    fn end(&mut self, stream: StreamId, trailers: Option<Fields<'_>>) {
        self.events
            .push(Event::End(stream.number, trailers.map(owned)));
    }

    fn fail(&mut self, stream: StreamId, error: StreamError) {
        self.events.push(Event::Fail(stream.number, error));
    }
}

/// Counts as the load engine does, without fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) heads: Vec<(u64, u16, Option<u64>, usize, usize)>,
    pub(crate) bytes: usize,
    pub(crate) ended: usize,
    pub(crate) failed: usize,
}

impl Events for Counter {
    const FIELDS: bool = false;

    fn head(&mut self, stream: StreamId, head: Head<'_>) {
        assert_eq!(head.fields.iter().count(), 0);
        self.heads.push((
            stream.number,
            head.status,
            head.content_length,
            head.encoded_bytes,
            head.decoded_bytes,
        ));
    }

    fn data(&mut self, _: StreamId, bytes: &[u8]) {
        self.bytes += bytes.len();
    }

    fn end(&mut self, _: StreamId, _: Option<Fields<'_>>) {
        self.ended += 1;
    }

    fn fail(&mut self, _: StreamId, _: StreamError) {
        self.failed += 1;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut seen = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        seen.push(Frame {
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes(bytes[5..9].try_into().unwrap()),
            payload: bytes[9..9 + length].into(),
        });
        bytes = &bytes[9 + length..];
    }
    seen
}

pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (id, value) in values {
        payload.extend(id.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    frame(SETTINGS, 0, 0, &payload)
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(crate) fn rst_stream(stream: u32, code: u64) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &(code as u32).to_be_bytes())
}

pub(crate) fn goaway(last: u32, code: u64) -> Vec<u8> {
    frame(
        GOAWAY,
        0,
        0,
        &[last.to_be_bytes(), (code as u32).to_be_bytes()].concat(),
    )
}

pub(crate) fn request(method: &str, body: &[u8]) -> Request {
    request_with(method, "/", &[], body)
}

pub(crate) fn request_with(
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> Request {
    let fields: Vec<_> = fields.iter().map(|&(n, v)| (n.into(), v.into())).collect();
    Request::new(&RequestParts {
        method,
        scheme: "http",
        authority: "a.example",
        path,
        fields: &fields,
        body: Arc::from(body),
        repeated: true,
    })
    .unwrap()
}

/// A client whose peer has sent its SETTINGS.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) recorder: Recorder,
    pub(crate) out: Vec<u8>,
    sent: u32,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self::with(CONFIG, &[])
    }

    pub(crate) fn with(config: Config, peer: &[(u16, u32)]) -> Self {
        let mut client = Self::silent(config);
        client.receive(&settings(peer));
        client.receive(&frame(SETTINGS, ACK, 0, &[]));
        client.out.clear();
        client
    }

    /// A client that has not heard of its peer.
    pub(crate) fn silent(config: Config) -> Self {
        let mut out = Vec::new();
        let connection = Connection::new(config, &mut out);
        Self {
            connection,
            recorder: Recorder::default(),
            out,
            sent: 0,
        }
    }

    /// Sends a request and gives its stream.
    pub(crate) fn send(&mut self, request: &Request) -> u32 {
        self.sent += 1;
        let slot = (self.sent * 2 - 1) * 10;
        let id = self.connection.send(request, slot, &mut self.out).unwrap();
        assert_eq!((id.number * 10, id.slot), (slot.into(), slot));
        id.number as u32
    }

    pub(crate) fn get(&mut self) -> u32 {
        self.send(&request("GET", b""))
    }

    pub(crate) fn try_receive(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.connection
            .receive(bytes, &mut self.recorder, &mut self.out)
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.try_receive(bytes).unwrap();
    }

    /// The frames written since the last call.
    pub(crate) fn written(&mut self) -> Vec<Frame> {
        frames(&std::mem::take(&mut self.out))
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.recorder.events)
    }

    /// `bytes` end the connection with `code`: GOAWAY is written, what is outstanding fails, and the
    /// connection stays dead.
    #[track_caller]
    pub(crate) fn dies(&mut self, bytes: &[u8], code: u64) {
        let outstanding = self.connection.outstanding();
        self.out.clear();
        self.recorder.events.clear();
        let error = self.try_receive(bytes).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        let failed = self
            .events()
            .into_iter()
            .filter(|event| matches!(event, Event::Fail(..)));
        assert_eq!(failed.count(), outstanding);
        let last = self.written().pop().unwrap();
        assert_eq!(
            (last.kind, &last.payload[4..]),
            (GOAWAY, &(code as u32).to_be_bytes()[..])
        );
        assert_eq!(self.try_receive(&settings(&[])), Err(error));
        assert_eq!(self.written(), []);
        assert!(self.connection.is_closing());
        assert_eq!(self.connection.capacity(), 0);
        assert_eq!(self.connection.outstanding(), 0);
    }

    /// `bytes` end `stream`, and it alone, with `code`.
    #[track_caller]
    pub(crate) fn resets(&mut self, bytes: &[u8], stream: u32, code: u64, kind: ErrorKind) {
        let outstanding = self.connection.outstanding();
        self.out.clear();
        self.recorder.events.clear();
        self.receive(bytes);
        let Some(Event::Fail(number, error)) = self.events().pop() else {
            panic!("the stream has not failed");
        };
        assert_eq!(
            (number, error.kind, error.code),
            (stream.into(), kind, Some(code)),
            "{error}"
        );
        assert_eq!(error.unprocessed, Unprocessed::Unknown);
        assert_eq!(frames(&rst_stream(stream, code)), self.written());
        assert_eq!(self.connection.outstanding(), outstanding - 1);
        assert!(!self.connection.is_closing());
    }
}

pub(crate) fn fail(
    stream: u32,
    kind: ErrorKind,
    proved: bool,
    code: Option<u64>,
) -> impl Fn(&Event) -> bool {
    move |event| {
        matches!(event, Event::Fail(number, error) if *number == u64::from(stream)
            && (error.kind, error.code) == (kind, code)
            && (error.unprocessed == Unprocessed::Proved) == proved)
    }
}
