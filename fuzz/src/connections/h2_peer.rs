//! A server of HTTP/2: how it writes its frames, and what it expects of its client.

use std::collections::{BTreeMap, VecDeque};

use trilane_wire::StreamId;
use trilane_wire::hpack::{Decoder, Encoder};

use super::fields::{self, Field, Status};
use super::h2_frames::{
    END_HEADERS, FIRST, Frame, Framing, LARGEST_WINDOW, On, PADDED, Split, WITH_PRIORITY, kind,
    put, split,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Streams that may be opened before the server has said how many.
const BEFORE_SETTINGS: usize = 100;

/// The server's end of one connection.
pub(crate) struct Peer {
    encoder: Encoder,
    /// The beginning of a frame that has not been handed over to its end.
    unfinished: Vec<u8>,
    /// Whether the client has had SETTINGS.
    greeted: bool,
    max_streams: Option<u32>,
    initial_window: i64,
    max_frame: usize,
    window: i64,

    /// What the client wrote and is not complete.
    unread: Vec<u8>,
    read_preface: bool,
    decoder: Decoder,
    /// HEADER_TABLE_SIZE of each SETTINGS that the client has not acknowledged.
    tables: VecDeque<Option<u32>>,
    streams: BTreeMap<u32, Received>,
    /// The header block that the client has begun.
    block: Option<(u32, Vec<u8>)>,
    gone: bool,
}

/// What the client has sent on one stream.
#[derive(Debug)]
struct Received {
    window: i64,
    content: u64,
    ended: bool,
    reset: bool,
}

impl Peer {
    pub(crate) fn new() -> Self {
        Self {
            encoder: Encoder::new(),
            unfinished: Vec::new(),
            greeted: false,
            max_streams: None,
            initial_window: 65_535,
            max_frame: 16_384,
            window: 65_535,
            unread: Vec::new(),
            read_preface: false,
            decoder: Decoder::new(4096),
            tables: VecDeque::new(),
            streams: BTreeMap::new(),
            block: None,
            gone: false,
        }
    }

    /// The streams that the client may have open, as far as the server says.
    pub(crate) fn granted(&self) -> usize {
        match self.max_streams {
            Some(count) => count as usize,
            None if self.greeted => usize::MAX,
            None => BEFORE_SETTINGS,
        }
    }

    /// The bytes of `frame`; `streams` are the client's.
    pub(crate) fn write(&mut self, frame: &Frame<'_>, streams: &[StreamId], out: &mut Vec<u8>) {
        match frame {
            Frame::Response(which, length, framing) => {
                let number = On::Recent(*which).number(streams);
                self.response(number, *length, *framing, out);
            }
            Frame::Settings(settings) => {
                let mut payload = Vec::new();
                for setting in settings {
                    let (id, value) = setting.pair();
                    payload.extend(id.to_be_bytes());
                    payload.extend(value.to_be_bytes());
                }
                put(kind::SETTINGS, 0, 0, &payload, out);
            }
            Frame::SettingsAck => put(kind::SETTINGS, FIRST, 0, &[], out),
            Frame::Headers(on, block, end) => {
                let number = on.number(streams);
                let mut fragment = Vec::new();
                let fields = fields::lines(&block.fields);
                self.encoder.encode(fields::of(&fields), &mut fragment);
                let pieces = usize::from(block.continued % 4) + 1;
                let size = fragment.len().div_ceil(pieces).clamp(1, 16_000);
                let mut pieces = fragment.chunks(size);
                let mut payload = Vec::new();
                let mut flags = u8::from(*end);
                if let Some(padding) = block.padding {
                    flags |= PADDED;
                    payload.push(padding);
                }
                if block.priority {
                    flags |= WITH_PRIORITY;
                    payload.extend([0, 0, 0, 3, 7]);
                }
                payload.extend_from_slice(pieces.next().unwrap_or_default());
                payload.resize(payload.len() + usize::from(block.padding.unwrap_or(0)), 0);
                let mut last = (kind::HEADERS, flags, payload);
                for piece in pieces {
                    put(last.0, last.1, number, &last.2, out);
                    last = (kind::CONTINUATION, 0, piece.to_vec());
                }
                put(last.0, last.1 | END_HEADERS, number, &last.2, out);
            }
            Frame::Data(on, length, padding, end) => {
                let mut payload = Vec::from_iter(*padding);
                payload.resize(payload.len() + usize::from(length % 16_000), b'd');
                payload.resize(payload.len() + usize::from(padding.unwrap_or(0)), 0);
                let flags = u8::from(*end) | padding.map_or(0, |_| PADDED);
                put(kind::DATA, flags, on.number(streams), &payload, out);
            }
            Frame::WindowUpdate(on, increment) => {
                let payload = increment.value().to_be_bytes();
                put(kind::WINDOW_UPDATE, 0, on.number(streams), &payload, out);
            }
            Frame::RstStream(on, code) => {
                put(
                    kind::RST_STREAM,
                    0,
                    on.number(streams),
                    &[0, 0, 0, *code],
                    out,
                );
            }
            Frame::Goaway(on, code) => {
                let mut payload = on.number(streams).to_be_bytes().to_vec();
                payload.extend([0, 0, 0, *code]);
                put(kind::GOAWAY, 0, 0, &payload, out);
            }
            Frame::Ping(ack) => put(kind::PING, u8::from(*ack), 0, b"pingpong", out),
            Frame::Priority(on, sound) => {
                let payload = &[0, 0, 0, 1, 5][..if *sound { 5 } else { 4 }];
                put(kind::PRIORITY, 0, on.number(streams), payload, out);
            }
            Frame::Continuation(on, bytes, end) => {
                let flags = if *end { END_HEADERS } else { 0 };
                put(kind::CONTINUATION, flags, on.number(streams), bytes.0, out);
            }
            Frame::PushPromise(on) => {
                put(
                    kind::PUSH_PROMISE,
                    END_HEADERS,
                    on.number(streams),
                    &[0, 0, 0, 2],
                    out,
                );
            }
            Frame::Any(kind, flags, on, bytes) => {
                put(*kind, *flags, on.number(streams), bytes.0, out);
            }
            Frame::Raw(bytes) => out.extend_from_slice(bytes.0),
        }
    }

    fn response(&mut self, number: u32, length: u16, framing: Framing, out: &mut Vec<u8>) {
        let mut section = |fields: &[Field], flags: u8, out: &mut Vec<u8>| {
            let mut block = Vec::new();
            let fields = fields::lines(fields);
            self.encoder.encode(fields::of(&fields), &mut block);
            put(kind::HEADERS, flags | END_HEADERS, number, &block, out);
        };
        if framing.informational {
            section(&[Field::Status(Status::EarlyHints)], 0, out);
        }
        let fields = [Field::Status(Status::Ok), Field::Length(length)];
        let count = if framing.announced { 2 } else { 1 };
        section(&fields[..count], 0, out);
        let content = vec![b'r'; length.into()];
        for piece in content.chunks(16_000) {
            put(kind::DATA, 0, number, piece, out);
        }
        if framing.trailers {
            section(&[Field::Ordinary(0, true)], FIRST, out);
        } else {
            put(kind::DATA, FIRST, number, &[], out);
        }
    }

    /// The client takes `bytes`: what they grant counts from now on.
    pub(crate) fn grant(&mut self, bytes: &[u8]) {
        let mut unfinished = std::mem::take(&mut self.unfinished);
        unfinished.extend_from_slice(bytes);
        let mut rest = &unfinished[..];
        while let Some((frame, behind)) = split(rest) {
            rest = behind;
            match frame.kind {
                kind::SETTINGS if frame.flags & FIRST == 0 => self.apply(frame.payload),
                kind::WINDOW_UPDATE => {
                    let Ok(increment) = frame.payload.try_into() else {
                        continue;
                    };
                    let increment = u32::from_be_bytes(increment) & LARGEST_WINDOW as u32;
                    if frame.stream == 0 {
                        self.window += i64::from(increment);
                    } else if let Some(stream) = self.streams.get_mut(&frame.stream) {
                        stream.window += i64::from(increment);
                    }
                }
                _ => (),
            }
        }
        self.unfinished = rest.to_vec();
    }

    fn apply(&mut self, settings: &[u8]) {
        self.greeted = true;
        let mut table = None;
        for pair in settings.chunks_exact(6) {
            let value = u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]);
            match u16::from_be_bytes([pair[0], pair[1]]) {
                1 => table = Some(value),
                3 => self.max_streams = Some(value),
                4 => {
                    let growth = i64::from(value) - self.initial_window;
                    self.initial_window = value.into();
                    for stream in self.streams.values_mut() {
                        stream.window += growth;
                    }
                }
                // Below is an error, behind which only GOAWAY follows.
                5 if value >= 16_384 => self.max_frame = value as usize,
                _ => (),
            }
        }
        self.tables.push_back(table);
    }

    /// Reads what the client has written, which it wrote under what it had been granted by then.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        let mut unread = std::mem::take(&mut self.unread);
        unread.extend_from_slice(bytes);
        let mut rest = &unread[..];
        if !self.read_preface {
            let Some(behind) = rest.strip_prefix(PREFACE) else {
                assert!(PREFACE.starts_with(rest), "the preface comes first");
                self.unread = unread;
                return;
            };
            rest = behind;
            self.read_preface = true;
        }
        while let Some((frame, behind)) = split(rest) {
            rest = behind;
            self.frame(frame);
        }
        self.unread = rest.to_vec();
    }

    /// Whether the client has written a part of a frame and not the rest.
    pub(crate) fn is_within_a_frame(&self) -> bool {
        !self.unread.is_empty() || self.block.is_some()
    }

    fn frame(&mut self, frame: Split<'_>) {
        let Split {
            kind,
            flags,
            stream: number,
            payload,
        } = frame;
        assert!(!self.gone, "a frame behind GOAWAY with an error");
        assert!(payload.len() <= self.max_frame, "a frame beyond the limit");
        assert_eq!(kind == kind::CONTINUATION, self.block.is_some());
        match kind {
            kind::HEADERS => {
                if !self.streams.contains_key(&number) {
                    let last = self.streams.last_key_value().map(|(&last, _)| last);
                    assert!(last < Some(number), "stream ids only grow");
                }
                let stream = self.streams.entry(number).or_insert(Received {
                    window: self.initial_window,
                    content: 0,
                    ended: false,
                    reset: false,
                });
                assert!(number % 2 == 1 && !stream.ended && !stream.reset);
                stream.ended = flags & FIRST != 0;
                self.block = Some((number, payload.to_vec()));
                self.end_block(flags);
            }
            kind::CONTINUATION => {
                let (of, block) = self.block.as_mut().expect("it has begun");
                assert_eq!(*of, number);
                block.extend_from_slice(payload);
                self.end_block(flags);
            }
            kind::DATA => {
                let stream = self.streams.get_mut(&number).expect("an open stream");
                assert!(!stream.ended && !stream.reset, "DATA behind the end");
                stream.window -= payload.len() as i64;
                self.window -= payload.len() as i64;
                let allowed = stream.window >= 0 && self.window >= 0;
                assert!(allowed || payload.is_empty(), "DATA beyond a window");
                stream.content += payload.len() as u64;
                stream.ended = flags & FIRST != 0;
            }
            kind::RST_STREAM => {
                let stream = self.streams.get_mut(&number).expect("an open stream");
                assert!(!stream.reset, "a stream was reset twice");
                stream.reset = true;
            }
            kind::SETTINGS if flags & FIRST != 0 => {
                let table = self.tables.pop_front().expect("SETTINGS to acknowledge");
                if let Some(size) = table {
                    self.decoder.set_limit(size);
                }
            }
            kind::SETTINGS => assert!(payload.len().is_multiple_of(6)),
            kind::PING => assert_eq!((flags, payload.len()), (FIRST, 8)),
            kind::WINDOW_UPDATE => {
                assert_ne!(payload, [0; 4]);
                assert!(number == 0 || self.streams.contains_key(&number));
            }
            kind::GOAWAY => self.gone = payload[4..8] != [0; 4],
            kind => panic!("a client has nothing to say by frames of type {kind}"),
        }
    }

    fn end_block(&mut self, flags: u8) {
        if flags & END_HEADERS != 0
            && let Some((_, block)) = self.block.take()
        {
            let decoded = self.decoder.decode(&block, |name, _, _| {
                assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase));
            });
            assert_eq!(decoded, Ok(()));
        }
    }

    /// What the client has sent on a stream that it has ended, in bytes of content.
    pub(crate) fn content(&self, stream: StreamId) -> Option<u64> {
        let received = self.streams.get(&(stream.number as u32))?;
        (received.ended && !received.reset).then_some(received.content)
    }
}
