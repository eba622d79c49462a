//! Frames of HTTP/2: those that a fuzzed server may write, as operations, and all of them as bytes.

use arbitrary::Arbitrary;
use trilane_wire::StreamId;

use super::fields::Field;
use crate::input::{Bytes, Which};

pub(crate) mod kind {
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
}

/// Flags: ACK, or END_STREAM.
pub(crate) const FIRST: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;

const HEADER: usize = 9;
pub(crate) const LARGEST_WINDOW: i64 = (1 << 31) - 1;

/// What a server writes.
#[derive(Arbitrary, Debug)]
pub(crate) enum Frame<'a> {
    /// A response that is right, with as much content, in its frames.
    Response(Which, u16, Framing),
    Settings(Vec<Setting>),
    SettingsAck,
    Headers(On, Block, bool),
    Data(On, u16, Option<u8>, bool),
    WindowUpdate(On, Increment),
    RstStream(On, u8),
    Goaway(On, u8),
    Ping(bool),
    Priority(On, bool),
    /// Where a header block is open, or is not.
    Continuation(On, Bytes<'a>, bool),
    PushPromise(On),
    /// Any type, any flags, any payload.
    Any(u8, u8, On, Bytes<'a>),
    /// No frame at all.
    Raw(Bytes<'a>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Framing {
    pub(crate) informational: bool,
    pub(crate) announced: bool,
    pub(crate) trailers: bool,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Setting {
    HeaderTable(Increment),
    EnablePush(bool),
    Streams(u8),
    Window(Increment),
    FrameSize(u8),
    HeaderList(u16),
    Unknown(u8),
}

/// A stream: mostly one of the client's.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum On {
    Recent(Which),
    Again(Which),
    Connection,
    Any(u8),
}

/// A number in which the edges are likely.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Increment {
    Zero,
    Small(u8),
    Middle(u16),
    Most,
    TooMuch,
}

/// A field section, and how it is cut.
#[derive(Arbitrary, Debug)]
pub(crate) struct Block {
    pub(crate) fields: Vec<Field>,
    /// CONTINUATION frames behind HEADERS.
    pub(crate) continued: u8,
    pub(crate) padding: Option<u8>,
    pub(crate) priority: bool,
}

impl On {
    pub(crate) fn number(self, streams: &[StreamId]) -> u32 {
        match self {
            On::Recent(which) | On::Again(which) => {
                which.of(streams).map_or(1, |stream| stream.number as u32)
            }
            On::Connection => 0,
            On::Any(number) => u32::from(number),
        }
    }
}

impl Increment {
    pub(crate) fn value(self) -> u32 {
        match self {
            Increment::Zero => 0,
            Increment::Small(value) => u32::from(value),
            Increment::Middle(value) => u32::from(value) * 16,
            Increment::Most => LARGEST_WINDOW as u32,
            Increment::TooMuch => u32::MAX,
        }
    }
}

impl Setting {
    pub(crate) fn pair(self) -> (u16, u32) {
        match self {
            Setting::HeaderTable(size) => (1, size.value()),
            Setting::EnablePush(push) => (2, push.into()),
            Setting::Streams(count) => (3, count.into()),
            Setting::Window(size) => (4, size.value()),
            Setting::FrameSize(size) => (5, u32::from(size) * 128),
            Setting::HeaderList(size) => (6, size.into()),
            Setting::Unknown(id) => (u16::from(id) + 7, 1),
        }
    }
}

/// A frame as it was written.
pub(crate) struct Split<'a> {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: &'a [u8],
}

/// The frame at the front of `bytes`, where it is complete.
pub(crate) fn split(bytes: &[u8]) -> Option<(Split<'_>, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let &[a, b, c, kind, flags, stream @ ..] = header;
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    let (payload, rest) = rest.split_at_checked(length)?;
    let frame = Split {
        kind,
        flags,
        stream: u32::from_be_bytes(stream) & LARGEST_WINDOW as u32,
        payload,
    };
    Some((frame, rest))
}

/// Writes a frame.
pub(crate) fn put(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(payload);
}
