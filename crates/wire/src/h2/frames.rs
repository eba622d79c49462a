//! What each frame does, DATA apart (RFC 9113 §6).

use std::mem;

use super::Connection;
use super::flood::cost;
use super::frame::{
    self, Header, MAX_31_BITS, MAX_MAX_FRAME, MIN_MAX_FRAME, OPAQUE, code, error, flag, kind,
    setting,
};
use super::receive::Block;
use super::streams::Sending;
use crate::{ConnectionError, ErrorKind, Events, StreamError, Unprocessed};

/// CONTINUATION frames of one block: enough for the block limit in pieces of 4 KiB, and some.
fn continuation_limit(block_limit: usize) -> usize {
    16 + block_limit / 4096
}

impl Connection {
    #[inline]
    pub(super) fn frame<E: Events>(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        match header.kind {
            kind::HEADERS => self.headers(header, payload, events, out),
            kind::CONTINUATION => self.continuation(header, payload, events, out),
            kind::WINDOW_UPDATE => self.window_update(header, payload, events, out),
            kind::RST_STREAM => self.rst_stream(header, payload, events),
            kind::SETTINGS => self.settings(header, payload, out),
            kind::PING => self.pinged(header, payload, out),
            kind::GOAWAY => self.goaway(header, payload, events),
            kind::PRIORITY => self.priority(header, payload, events, out),
            kind::PUSH_PROMISE => Err(error(
                code::PROTOCOL_ERROR,
                "PUSH_PROMISE, which we have switched off",
            )),
            _ => self
                .flood
                .spend(cost::IGNORED, "a flood of frames of unknown types"),
        }
    }

    #[inline]
    fn headers<E: Events>(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        self.expect_opened(header.stream)?;
        let mut fragment = payload;
        if header.has(flag::PADDED) {
            let (&padding, rest) = fragment.split_first().ok_or_else(error_size)?;
            let length = rest.len().checked_sub(usize::from(padding));
            let length = length
                .ok_or_else(|| error(code::PROTOCOL_ERROR, "padding longer than its HEADERS"))?;
            fragment = &rest[..length];
        }
        if header.has(flag::PRIORITY) {
            fragment = fragment.get(5..).ok_or_else(error_size)?;
        }
        let end_stream = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.section(header.stream, end_stream, fragment, events, out);
        }
        self.input.block_bytes.clear();
        self.input.block_bytes.extend_from_slice(fragment);
        self.input.block = Some(Block {
            stream: header.stream,
            end_stream,
            frames: 0,
        });
        Ok(())
    }

    fn continuation<E: Events>(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        let Some(block) = &mut self.input.block else {
            return Err(error(
                code::PROTOCOL_ERROR,
                "CONTINUATION without a header block",
            ));
        };
        block.frames += 1;
        if payload.is_empty() {
            self.flood
                .spend(cost::EMPTY, "a flood of empty CONTINUATION")?;
        }
        let bytes = &mut self.input.block_bytes;
        // Twice the limit: a silly encoder may use Huffman codes that are longer than the text.
        let limit = (self.config.header_list.max(MIN_MAX_FRAME) as usize).saturating_mul(2);
        if bytes.len() + payload.len() > limit || block.frames > continuation_limit(limit) {
            return Err(error(code::ENHANCE_YOUR_CALM, "a header block without end"));
        }
        bytes.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            return Ok(());
        }
        let Block {
            stream, end_stream, ..
        } = *block;
        self.input.block = None;
        let bytes = mem::take(bytes);
        self.section(stream, end_stream, &bytes, events, out)?;
        self.input.block_bytes = bytes;
        Ok(())
    }

    fn priority<E: Events>(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        if header.stream == 0 {
            return Err(error(code::PROTOCOL_ERROR, "PRIORITY on stream 0"));
        }
        if payload.len() != 5 {
            if self.streams.get_mut(header.stream).is_none() {
                // RST_STREAM goes neither to a closed stream nor to an idle one (RFC 9113 §5.1 and
                // §6.4), and what cannot end the stream may end the connection (§5.4).
                return Err(error_size());
            }
            let (code, kind) = (code::FRAME_SIZE_ERROR, ErrorKind::Protocol);
            self.reset(header.stream, false, code, kind, SIZE, events, out);
        }
        self.flood.spend(cost::IGNORED, "a flood of PRIORITY")
    }

    fn rst_stream<E: Events>(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut E,
    ) -> Result<(), ConnectionError> {
        let code = frame::number(payload).ok_or_else(error_size)?;
        self.expect_opened(header.stream)?;
        let Some(id) = self
            .streams
            .get_mut(header.stream)
            .map(|stream| stream.id())
        else {
            self.resets.ended(header.stream);
            return self.flood.spend(cost::LATE, "a flood of RST_STREAM");
        };
        self.drop_stream(header.stream);
        let refused = code == code::REFUSED_STREAM;
        events.fail(
            id,
            StreamError {
                kind: ErrorKind::Reset,
                unprocessed: if refused {
                    Unprocessed::Proved
                } else {
                    Unprocessed::Unknown
                },
                code: Some(u64::from(code)),
                reason: if refused {
                    "the peer refused the stream"
                } else {
                    "the peer reset the stream"
                },
            },
        );
        Ok(())
    }

    /// Applies all settings of a frame, and acknowledges them.
    fn settings(
        &mut self,
        header: Header,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(error(code::PROTOCOL_ERROR, "SETTINGS on a stream"));
        }
        self.flood.spend(cost::SETTINGS, "a flood of SETTINGS")?;
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(error_size());
            }
            self.decoder.set_limit(self.config.header_table);
            self.memo.clear();
            return Ok(());
        }
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(error_size());
        };
        let mut peer = self.peer;
        peer.received = true;
        for &[a, b, value @ ..] in settings {
            let value = u32::from_be_bytes(value);
            match u16::from_be_bytes([a, b]) {
                setting::HEADER_TABLE_SIZE => {
                    peer.header_table_size = value;
                    self.blocks.set_limit(value);
                }
                setting::ENABLE_PUSH if value != 0 => {
                    return Err(error(code::PROTOCOL_ERROR, "a server cannot enable push"));
                }
                setting::MAX_CONCURRENT_STREAMS => peer.max_concurrent_streams = Some(value),
                setting::INITIAL_WINDOW_SIZE if value > MAX_31_BITS => {
                    let reason = "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1";
                    return Err(error(code::FLOW_CONTROL_ERROR, reason));
                }
                setting::INITIAL_WINDOW_SIZE => peer.initial_window_size = value,
                setting::MAX_FRAME_SIZE if !(MIN_MAX_FRAME..=MAX_MAX_FRAME).contains(&value) => {
                    let reason = "SETTINGS_MAX_FRAME_SIZE out of range";
                    return Err(error(code::PROTOCOL_ERROR, reason));
                }
                setting::MAX_FRAME_SIZE => peer.max_frame_size = value,
                setting::MAX_HEADER_LIST_SIZE => peer.max_header_list_size = Some(value),
                setting::ENABLE_CONNECT_PROTOCOL
                    if value > 1 || (value == 0 && peer.connect_protocol) =>
                {
                    let reason = "SETTINGS_ENABLE_CONNECT_PROTOCOL above 1, or taken back";
                    return Err(error(code::PROTOCOL_ERROR, reason));
                }
                setting::ENABLE_CONNECT_PROTOCOL => peer.connect_protocol = value == 1,
                _ => {}
            }
        }
        let growth = i64::from(peer.initial_window_size) - i64::from(self.peer.initial_window_size);
        self.peer = peer;
        if growth != 0 {
            self.move_windows(growth)?;
        }
        self.flood.answer(frame::HEADER_LEN)?;
        frame::write(kind::SETTINGS, flag::ACK, 0, &[], out);
        Ok(())
    }

    /// SETTINGS_INITIAL_WINDOW_SIZE has changed: so do the windows of all streams, which may become
    /// negative (RFC 9113 §6.9.2).
    fn move_windows(&mut self, growth: i64) -> Result<(), ConnectionError> {
        let mut opened = Vec::new();
        for stream in self.streams.iter_mut() {
            stream.send_window += growth;
            if stream.send_window > i64::from(MAX_31_BITS) {
                return Err(error(
                    code::FLOW_CONTROL_ERROR,
                    "SETTINGS overflow a window",
                ));
            }
            match stream.sending {
                Sending::Blocked if stream.send_window > 0 => {
                    stream.sending = Sending::Queued;
                    opened.push(stream.number());
                }
                Sending::Queued if stream.send_window <= 0 => stream.sending = Sending::Blocked,
                _ => {}
            }
        }
        let streams = &self.streams;
        self.queue.retain(|&number| {
            streams
                .get(number)
                .is_some_and(|stream| stream.sending == Sending::Queued)
        });
        opened.sort_unstable();
        self.queue.extend(opened);
        Ok(())
    }

    fn pinged(
        &mut self,
        header: Header,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(error(code::PROTOCOL_ERROR, "PING on a stream"));
        }
        if payload.len() != 8 {
            return Err(error_size());
        }
        if header.has(flag::ACK) && self.pings > 0 && payload == OPAQUE {
            self.pings = 0;
            return Ok(());
        }
        self.flood.spend(cost::PING, "a flood of PING")?;
        if !header.has(flag::ACK) {
            self.flood.answer(frame::HEADER_LEN + payload.len())?;
            frame::write(kind::PING, flag::ACK, 0, payload, out);
        }
        Ok(())
    }

    /// The peer takes no more streams, and has not processed those above the last that it names.
    fn goaway<E: Events>(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut E,
    ) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(error(code::PROTOCOL_ERROR, "GOAWAY on a stream"));
        }
        let last = payload
            .get(..4)
            .and_then(frame::number)
            .ok_or_else(error_size)?
            & MAX_31_BITS;
        let code = payload
            .get(4..8)
            .and_then(frame::number)
            .ok_or_else(error_size)?;
        if self.goaway.is_some_and(|before| last > before) {
            return Err(error(
                code::PROTOCOL_ERROR,
                "the last stream of GOAWAY has grown",
            ));
        }
        self.flood.spend(cost::IGNORED, "a flood of GOAWAY")?;
        self.goaway = Some(last);
        events.goaway(u64::from(code), payload.get(8..).unwrap_or_default());
        self.queue.retain(|&number| number <= last);
        self.uploads.remove_above(last);
        for stream in self.streams.remove_above(last) {
            self.resets.add(stream.number());
            events.fail(
                stream.id(),
                StreamError {
                    kind: ErrorKind::Goaway,
                    unprocessed: Unprocessed::Proved,
                    code: Some(u64::from(code)),
                    reason: "the peer is going away and has not processed the request",
                },
            );
        }
        Ok(())
    }

    fn window_update<E: Events>(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        let increment = frame::number(payload).ok_or_else(error_size)? & MAX_31_BITS;
        self.flood
            .spend(cost::WINDOW_UPDATE, "a flood of WINDOW_UPDATE")?;
        if header.stream == 0 {
            if increment == 0 {
                return Err(error(code::PROTOCOL_ERROR, "WINDOW_UPDATE by 0"));
            }
            self.send_window += i64::from(increment);
            if self.send_window > i64::from(MAX_31_BITS) {
                let reason = "WINDOW_UPDATE overflows the window of the connection";
                return Err(error(code::FLOW_CONTROL_ERROR, reason));
            }
            return Ok(());
        }
        self.expect_opened(header.stream)?;
        let Some(stream) = self.streams.get_mut(header.stream) else {
            // It may have left before the peer saw the end.
            return Ok(());
        };
        let kind = ErrorKind::Protocol;
        if increment == 0 {
            let reason = "WINDOW_UPDATE by 0";
            self.malformed(header.stream, false, kind, reason, events, out);
            return Ok(());
        }
        stream.send_window += i64::from(increment);
        if stream.send_window > i64::from(MAX_31_BITS) {
            let (code, reason) = (
                code::FLOW_CONTROL_ERROR,
                "WINDOW_UPDATE overflows the window of a stream",
            );
            self.reset(header.stream, false, code, kind, reason, events, out);
            return Ok(());
        }
        self.enqueue(header.stream);
        Ok(())
    }

    /// A frame that only streams have, on a stream that we have not opened, is an error of the
    /// connection (RFC 9113 §5.1, §5.1.1).
    #[inline]
    fn expect_opened(&self, stream: u32) -> Result<(), ConnectionError> {
        if stream.is_multiple_of(2) || stream >= self.next_id {
            return Err(error(
                code::PROTOCOL_ERROR,
                "a frame on a stream that is not open",
            ));
        }
        Ok(())
    }

    /// DATA or a header block on a stream that is not open: that we have reset, and the peer may not
    /// have known; or that has ended, and the peer must know (RFC 9113 §5.1).
    #[cold]
    pub(super) fn late(&mut self, stream: u32, end_stream: bool) -> Result<(), ConnectionError> {
        self.expect_opened(stream)?;
        if !self.resets.excuse(stream) {
            return Err(error(
                code::STREAM_CLOSED,
                "a frame on a stream that has ended",
            ));
        }
        if end_stream {
            self.resets.ended(stream);
        }
        self.flood
            .spend(cost::LATE, "a flood of frames on streams that have ended")
    }
}

const SIZE: &str = "a frame has a length that its type does not allow";

fn error_size() -> ConnectionError {
    error(code::FRAME_SIZE_ERROR, SIZE)
}
