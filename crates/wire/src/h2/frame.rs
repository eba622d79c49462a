//! Frames on the wire (RFC 9113 §4, §6) and the codes in them.

use crate::{ConnectionError, ErrorKind};

/// What a client sends first (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame header.
pub(super) const HEADER_LEN: usize = 9;

/// The largest window, and the largest stream id.
pub(super) const MAX_31_BITS: u32 = (1 << 31) - 1;

/// Window of a connection, and of a stream before SETTINGS, in bytes (RFC 9113 §6.9.2).
pub(super) const DEFAULT_WINDOW: u32 = 65_535;

/// The smallest and initial SETTINGS_MAX_FRAME_SIZE, and the largest.
pub(super) const MIN_MAX_FRAME: u32 = 1 << 14;
pub(super) const MAX_MAX_FRAME: u32 = (1 << 24) - 1;

/// Frame types.
pub(super) mod kind {
    pub(in crate::h2) const DATA: u8 = 0;
    pub(in crate::h2) const HEADERS: u8 = 1;
    pub(in crate::h2) const PRIORITY: u8 = 2;
    pub(in crate::h2) const RST_STREAM: u8 = 3;
    pub(in crate::h2) const SETTINGS: u8 = 4;
    pub(in crate::h2) const PUSH_PROMISE: u8 = 5;
    pub(in crate::h2) const PING: u8 = 6;
    pub(in crate::h2) const GOAWAY: u8 = 7;
    pub(in crate::h2) const WINDOW_UPDATE: u8 = 8;
    pub(in crate::h2) const CONTINUATION: u8 = 9;
}

/// Frame flags.
pub(super) mod flag {
    pub(in crate::h2) const ACK: u8 = 0x1;
    pub(in crate::h2) const END_STREAM: u8 = 0x1;
    pub(in crate::h2) const END_HEADERS: u8 = 0x4;
    pub(in crate::h2) const PADDED: u8 = 0x8;
    pub(in crate::h2) const PRIORITY: u8 = 0x20;
}

/// Settings (RFC 9113 §6.5.2).
pub(super) mod setting {
    pub(in crate::h2) const HEADER_TABLE_SIZE: u16 = 1;
    pub(in crate::h2) const ENABLE_PUSH: u16 = 2;
    pub(in crate::h2) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(in crate::h2) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(in crate::h2) const MAX_FRAME_SIZE: u16 = 5;
    pub(in crate::h2) const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// RFC 8441 §3.
    pub(in crate::h2) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
}

/// Error codes (RFC 9113 §7).
pub(super) mod code {
    pub(in crate::h2) const NO_ERROR: u32 = 0;
    pub(in crate::h2) const PROTOCOL_ERROR: u32 = 1;
    pub(in crate::h2) const FLOW_CONTROL_ERROR: u32 = 3;
    pub(in crate::h2) const STREAM_CLOSED: u32 = 5;
    pub(in crate::h2) const FRAME_SIZE_ERROR: u32 = 6;
    pub(in crate::h2) const REFUSED_STREAM: u32 = 7;
    pub(in crate::h2) const CANCEL: u32 = 8;
    pub(in crate::h2) const COMPRESSION_ERROR: u32 = 9;
    pub(in crate::h2) const ENHANCE_YOUR_CALM: u32 = 11;
}

/// What our PINGs have in them (RFC 9113 §6.7: any eight bytes).
pub(super) const OPAQUE: [u8; 8] = *b"trilane?";

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Header {
    #[inline]
    pub(super) fn parse(bytes: &[u8; HEADER_LEN]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & MAX_31_BITS,
        }
    }

    #[inline]
    pub(super) fn bytes(self) -> [u8; HEADER_LEN] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [s, t, u, v] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s, t, u, v]
    }

    #[inline]
    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame; `payload` is far below 2^24 bytes.
pub(super) fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let header = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream,
    };
    out.extend_from_slice(&header.bytes());
    out.extend_from_slice(payload);
}

pub(super) fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    write(
        kind::WINDOW_UPDATE,
        0,
        stream,
        &increment.to_be_bytes(),
        out,
    );
}

pub(super) fn write_rst_stream(stream: u32, code: u32, out: &mut Vec<u8>) {
    write(kind::RST_STREAM, 0, stream, &code.to_be_bytes(), out);
}

/// A server opens no streams without push, so the last one that we processed is 0.
pub(super) fn write_goaway(code: u32, out: &mut Vec<u8>) {
    let [a, b, c, d] = code.to_be_bytes();
    write(kind::GOAWAY, 0, 0, &[0, 0, 0, 0, a, b, c, d], out);
}

/// Four bytes as a number. `None` where there are not four.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(u32::from_be_bytes)
}

/// An error of the connection with one of the codes above.
#[cold]
pub(super) fn error(code: u32, reason: &'static str) -> ConnectionError {
    let kind = if code == code::ENHANCE_YOUR_CALM {
        ErrorKind::Limit
    } else {
        ErrorKind::Protocol
    };
    ConnectionError {
        kind,
        code: u64::from(code),
        reason,
    }
}
