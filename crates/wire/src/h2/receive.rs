//! How frames are found in the bytes that arrive.
//!
//! A frame that is complete in `bytes` is read where it stands. Of one that is not, DATA is passed on
//! as it arrives, and anything else is kept until it is complete: at most one frame, no larger than
//! what we announced.

use std::mem;

use super::Connection;
use super::flood::{cost, gain};
use super::frame::{self, HEADER_LEN, Header, code, error, flag, kind};
use crate::{ConnectionError, ErrorKind, Events};

/// What is unfinished between two calls of `receive`.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// A frame that has not arrived to its end.
    partial: Vec<u8>,
    /// A DATA frame of which a part has been passed on.
    data: Option<Data>,
    /// A header block that lacks its end.
    pub(super) block: Option<Block>,
    /// Its bytes.
    pub(super) block_bytes: Vec<u8>,
}

/// A header block that goes on in CONTINUATION.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) end_stream: bool,
    pub(super) frames: usize,
}

#[derive(Clone, Copy, Debug)]
struct Data {
    stream: u32,
    /// What has arrived, without padding.
    content: u32,
    /// What has not arrived, with padding.
    remaining: u32,
    padding: u32,
    /// The length of the padding has not arrived.
    pad_length_due: bool,
    end_stream: bool,
}

impl Connection {
    pub(super) fn read<E: Events>(
        &mut self,
        mut bytes: &[u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        if let Some(data) = self.input.data.take() {
            bytes = self.data(data, bytes, events, out)?;
        }
        while !bytes.is_empty() {
            bytes = if self.input.partial.is_empty() {
                self.read_frame(bytes, events, out)?
            } else {
                self.complete_frame(bytes, events, out)?
            };
        }
        Ok(())
    }

    /// Reads the frame at the front of `bytes`, or keeps it, and gives what stands behind.
    #[inline]
    fn read_frame<'a, E: Events>(
        &mut self,
        bytes: &'a [u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], ConnectionError> {
        if let Some((header, rest)) = bytes.split_first_chunk() {
            let header = Header::parse(header);
            self.check_header(header)?;
            if header.kind == kind::DATA {
                return self.begin_data(header, rest, events, out);
            }
            if let Some((payload, rest)) = rest.split_at_checked(header.length as usize) {
                self.frame(header, payload, events, out)?;
                return Ok(rest);
            }
        }
        self.input.partial.extend_from_slice(bytes);
        Ok(&[])
    }

    /// Goes on with the frame that has been kept.
    fn complete_frame<'a, E: Events>(
        &mut self,
        bytes: &'a [u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], ConnectionError> {
        let mut bytes = bytes;
        let partial = &mut self.input.partial;
        let had_header = partial.len() >= HEADER_LEN;
        if !had_header {
            let (piece, rest) = bytes.split_at(bytes.len().min(HEADER_LEN - partial.len()));
            partial.extend_from_slice(piece);
            bytes = rest;
        }
        let Some(header) = partial.first_chunk().map(Header::parse) else {
            return Ok(bytes);
        };
        if !had_header {
            self.check_header(header)?;
            if header.kind == kind::DATA {
                self.input.partial.clear();
                return self.begin_data(header, bytes, events, out);
            }
        }
        let partial = &mut self.input.partial;
        let length = HEADER_LEN + header.length as usize;
        let (piece, rest) = bytes.split_at(bytes.len().min(length - partial.len()));
        partial.extend_from_slice(piece);
        if partial.len() == length {
            let mut partial = mem::take(partial);
            self.frame(header, &partial[HEADER_LEN..], events, out)?;
            partial.clear();
            self.input.partial = partial;
        }
        Ok(rest)
    }

    /// What has to be right before a frame is worth waiting for.
    #[inline]
    fn check_header(&self, header: Header) -> Result<(), ConnectionError> {
        if !self.peer.received && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            let reason = "the first frame is not SETTINGS: the peer does not speak HTTP/2";
            return Err(error(code::PROTOCOL_ERROR, reason));
        }
        if header.length > self.config.max_frame {
            return Err(error(
                code::FRAME_SIZE_ERROR,
                "a frame is larger than we accept",
            ));
        }
        if let Some(block) = self.input.block
            && (header.kind != kind::CONTINUATION || header.stream != block.stream)
        {
            return Err(error(
                code::PROTOCOL_ERROR,
                "another frame inside a header block",
            ));
        }
        Ok(())
    }

    /// A DATA frame begins (RFC 9113 §6.1). All of it counts for both windows, padding too, whatever
    /// becomes of the stream (§6.9).
    #[inline]
    fn begin_data<'a, E: Events>(
        &mut self,
        header: Header,
        bytes: &'a [u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], ConnectionError> {
        let Header {
            length,
            stream: number,
            ..
        } = header;
        let padded = header.has(flag::PADDED);
        if number == 0 {
            return Err(error(code::PROTOCOL_ERROR, "DATA on stream 0"));
        }
        if padded && length == 0 {
            return Err(error(
                code::FRAME_SIZE_ERROR,
                "padded DATA without a padding length",
            ));
        }
        if length > self.config.connection_window - self.received {
            let reason = "DATA beyond the window of the connection";
            return Err(error(code::FLOW_CONTROL_ERROR, reason));
        }
        self.received += length;
        let end_stream = header.has(flag::END_STREAM);
        match self.streams.get_mut(number) {
            Some(stream) if !stream.got_head => {
                let reason = "DATA before the head of the response";
                self.malformed(number, end_stream, ErrorKind::Protocol, reason, events, out);
            }
            Some(stream) if length > self.config.stream_window - stream.received => {
                let reason = "DATA beyond the window of the stream";
                let kind = ErrorKind::Protocol;
                self.reset(
                    number,
                    end_stream,
                    code::FLOW_CONTROL_ERROR,
                    kind,
                    reason,
                    events,
                    out,
                );
            }
            Some(stream) => stream.received += length,
            None => self.late(number, end_stream)?,
        }
        let data = Data {
            stream: number,
            content: 0,
            remaining: length,
            padding: 0,
            pad_length_due: padded,
            end_stream,
        };
        self.data(data, bytes, events, out)
    }

    /// Passes on what there is of a DATA frame, and gives what stands behind it.
    #[inline]
    fn data<'a, E: Events>(
        &mut self,
        mut data: Data,
        bytes: &'a [u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], ConnectionError> {
        let mut bytes = bytes;
        if data.pad_length_due
            && let Some((&padding, rest)) = bytes.split_first()
        {
            data.pad_length_due = false;
            data.padding = u32::from(padding);
            data.remaining -= 1;
            bytes = rest;
            if data.padding > data.remaining {
                return Err(error(code::PROTOCOL_ERROR, "padding longer than its DATA"));
            }
        }
        if !data.pad_length_due {
            let content = data.remaining.saturating_sub(data.padding) as usize;
            let (content, rest) = bytes.split_at(bytes.len().min(content));
            if !content.is_empty() {
                self.content(data.stream, content, events, out);
            }
            data.content += content.len() as u32;
            data.remaining -= content.len() as u32;
            bytes = rest;
            // What is left is padding, or `bytes` is empty.
            let (padding, rest) = bytes.split_at(bytes.len().min(data.remaining as usize));
            data.remaining -= padding.len() as u32;
            bytes = rest;
        }
        if data.remaining == 0 {
            self.end_data(data, events, out)?;
        } else {
            self.input.data = Some(data);
        }
        Ok(bytes)
    }

    #[inline]
    fn content<E: Events>(&mut self, number: u32, bytes: &[u8], events: &mut E, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(number) else {
            return;
        };
        let id = stream.id();
        let Some(remaining) = &mut stream.remaining else {
            events.data(id, bytes);
            return;
        };
        // What fits is passed on in any case, so that it does not matter how the bytes were cut.
        let length = usize::try_from(*remaining).unwrap_or(usize::MAX);
        let (announced, excess) = bytes.split_at(bytes.len().min(length));
        *remaining -= announced.len() as u64;
        if !announced.is_empty() {
            events.data(id, announced);
        }
        if !excess.is_empty() {
            let reason = "more content than the head of the response announced";
            self.malformed(number, false, ErrorKind::Body, reason, events, out);
        }
    }

    /// A DATA frame is complete: opens the windows again where half of one has been used.
    #[inline]
    fn end_data<E: Events>(
        &mut self,
        data: Data,
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        if self.received >= self.config.connection_window / 2 {
            frame::write_window_update(0, self.received, out);
            self.received = 0;
        }
        if data.end_stream {
            self.end(data.stream, false, events, out);
            return Ok(());
        }
        let overhead = HEADER_LEN as u32 + data.padding;
        if data.content == 0 {
            self.flood.spend(cost::EMPTY, "a flood of empty DATA")?;
        } else if data.content < overhead / 4 {
            self.flood.spend(cost::TINY_DATA, "a flood of tiny DATA")?;
        }
        let Some(stream) = self.streams.get_mut(data.stream) else {
            return Ok(());
        };
        if data.content >= overhead / 4 {
            self.flood.earn(gain::DATA_RECEIVED);
        }
        if stream.window_is_due(self.config.stream_window) && !self.paused.contains(&data.stream) {
            frame::write_window_update(data.stream, stream.received, out);
            stream.received = 0;
        }
        Ok(())
    }
}
