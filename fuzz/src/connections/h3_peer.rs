//! QUIC in memory, and what a server of HTTP/3 writes.

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::Arbitrary;
use trilane_wire::h3::QuicStreams;
use trilane_wire::qpack;

use super::fields::{self, Field, Status};
use crate::input::Bytes;

const DATA: u64 = 0;
const HEADERS: u64 = 1;
const SETTINGS: u64 = 4;
const GOAWAY: u64 = 7;

/// What a server writes on a request's stream.
#[derive(Arbitrary, Debug)]
pub(crate) enum Frame<'a> {
    Headers(Vec<Field>),
    /// `:status: 200`.
    Ok,
    Data(u16),
    /// Of a type that is reserved to be ignored.
    Unknown(u8, Bytes<'a>),
    Any(u8, Bytes<'a>),
    /// No frame at all.
    Raw(Bytes<'a>),
}

/// What a server writes on its control stream.
#[derive(Arbitrary, Debug)]
pub(crate) enum Control<'a> {
    Settings(Vec<(u8, u16)>),
    Goaway(u8),
    Unknown(u8, Bytes<'a>),
    Any(u8, Bytes<'a>),
    Raw(Bytes<'a>),
}

impl Frame<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Headers(fields) => put(HEADERS, &section(fields), out),
            Frame::Ok => put(HEADERS, &section(&[Field::Status(Status::Ok)]), out),
            Frame::Data(length) => put(DATA, &vec![b'd'; (*length).into()], out),
            Frame::Unknown(kind, bytes) => put(reserved(*kind), bytes.0, out),
            Frame::Any(kind, bytes) => put((*kind).into(), bytes.0, out),
            Frame::Raw(bytes) => out.extend_from_slice(bytes.0),
        }
    }
}

impl Control<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Control::Settings(settings) => {
                let mut payload = Vec::new();
                for &(id, value) in settings {
                    put_varint(id.into(), &mut payload);
                    put_varint(value.into(), &mut payload);
                }
                put(SETTINGS, &payload, out);
            }
            Control::Goaway(id) => {
                let mut payload = Vec::new();
                // Mostly an id that a request can have.
                let id = u64::from(*id);
                put_varint(if id < 240 { id * 4 } else { id }, &mut payload);
                put(GOAWAY, &payload, out);
            }
            Control::Unknown(kind, bytes) => put(reserved(*kind), bytes.0, out),
            Control::Any(kind, bytes) => put((*kind).into(), bytes.0, out),
            Control::Raw(bytes) => out.extend_from_slice(bytes.0),
        }
    }
}

/// A response that is right.
pub(crate) fn response(length: u16, announced: bool, trailers: bool, out: &mut Vec<u8>) {
    let fields = [Field::Status(Status::Ok), Field::Length(length)];
    let count = if announced { 2 } else { 1 };
    put(HEADERS, &section(&fields[..count]), out);
    if length > 0 {
        Frame::Data(length).write(out);
    }
    if trailers {
        put(HEADERS, &section(&[Field::Ordinary(0, true)]), out);
    }
}

fn section(fields: &[Field]) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::encode(fields::of(&fields::lines(fields)), &mut section);
    section
}

/// RFC 9114 §7.2.8.
fn reserved(kind: u8) -> u64 {
    u64::from(kind) * 0x1f + 0x21
}

fn put(kind: u64, payload: &[u8], out: &mut Vec<u8>) {
    put_varint(kind, out);
    put_varint(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

fn put_varint(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend((value as u16 | 0x4000).to_be_bytes()),
        _ => out.extend((value as u32 | 0x8000_0000).to_be_bytes()),
    }
}

/// The integer at the front of `bytes` (RFC 9000 §16), and what stands behind it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, _) = bytes.split_first()?;
    let (integer, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let value = integer
        .iter()
        .fold(0, |value, &byte| value << 8 | u64::from(byte));
    Some((value & (u64::MAX >> (66 - 8 * integer.len())), rest))
}

/// What the client did with one of its streams.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    written: Vec<u8>,
    finished: bool,
    pub(crate) reset: Option<u64>,
}

/// QUIC that grants what the input says.
#[derive(Debug)]
pub(crate) struct Quic {
    /// Streams that may still be opened.
    pub(crate) bi: u64,
    pub(crate) uni: u64,
    /// Bytes that may still be written, on all streams together.
    pub(crate) window: usize,
    next_bi: u64,
    next_uni: u64,
    pub(crate) sent: BTreeMap<u64, Sent>,
    /// The streams whose bytes the peer does not want.
    pub(crate) unwanted: BTreeSet<u64>,
    /// The peer's directions that have ended.
    pub(crate) ended: BTreeSet<u64>,
}

impl Quic {
    pub(crate) fn new(bi: u64, uni: u64, window: usize) -> Self {
        Self {
            bi,
            uni,
            window,
            next_bi: 0,
            next_uni: 2,
            sent: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    /// The content of a request, where its stream has been written to its end: HEADERS, DATA, perhaps
    /// HEADERS, and nothing that is cut off.
    pub(crate) fn content(&self, number: u64) -> Option<u64> {
        let sent = self.sent.get(&number)?;
        if !sent.finished || sent.reset.is_some() {
            return None;
        }
        let mut rest = &sent.written[..];
        let (mut kinds, mut content) = (Vec::new(), 0);
        while !rest.is_empty() {
            let frame = varint(rest).and_then(|(kind, rest)| {
                let (length, rest) = varint(rest)?;
                Some((kind, rest.split_at_checked(length as usize)?))
            });
            let (kind, (payload, behind)) = frame.expect("frames are written whole");
            rest = behind;
            if kind == DATA {
                content += payload.len() as u64;
            }
            kinds.push(kind);
        }
        kinds.dedup();
        let expected: &[&[u64]] = &[&[HEADERS], &[HEADERS, DATA], &[HEADERS, DATA, HEADERS]];
        assert!(expected.contains(&&kinds[..]), "{kinds:?}");
        Some(content)
    }
}

impl QuicStreams for Quic {
    fn open_bi(&mut self) -> Option<u64> {
        self.bi = self.bi.checked_sub(1)?;
        self.next_bi += 4;
        self.sent.insert(self.next_bi - 4, Sent::default());
        Some(self.next_bi - 4)
    }

    fn open_uni(&mut self) -> Option<u64> {
        self.uni = self.uni.checked_sub(1)?;
        self.next_uni += 4;
        self.sent.insert(self.next_uni - 4, Sent::default());
        Some(self.next_uni - 4)
    }

    fn write(&mut self, stream: u64, bytes: &[u8]) -> usize {
        let sent = self
            .sent
            .get_mut(&stream)
            .expect("a stream that was opened");
        assert!(
            !sent.finished && sent.reset.is_none(),
            "a write behind the end"
        );
        if self.unwanted.contains(&stream) {
            return 0;
        }
        let taken = bytes.len().min(self.window);
        self.window -= taken;
        sent.written.extend_from_slice(&bytes[..taken]);
        taken
    }

    fn transmitted(&self) -> u64 {
        let written = self.sent.values().map(|sent| sent.written.len() as u64);
        written.sum()
    }

    fn finish(&mut self, stream: u64) {
        let sent = self
            .sent
            .get_mut(&stream)
            .expect("a stream that was opened");
        assert!(!sent.finished && sent.reset.is_none(), "a second end");
        sent.finished = true;
    }

    fn reset(&mut self, stream: u64, code: u64) {
        let sent = self
            .sent
            .get_mut(&stream)
            .expect("a stream that was opened");
        sent.reset.get_or_insert(code);
    }

    fn stop(&mut self, stream: u64, _code: u64) {
        let ours = stream & 3 == 0 && self.sent.contains_key(&stream);
        assert!(
            ours || stream & 3 == 3,
            "a stream that the peer does not write"
        );
    }
}
