//! Content that the caller writes, and content that the caller does not want to read yet.

use super::flood::gain;
use super::frame::{self, Header, code, flag, kind};
use super::send::LARGEST_DATA;
use super::streams::{Sending, Stream, Streams};
use super::{Connection, blocks};
use crate::upload::{self, LARGEST_WRITE};
use crate::{FieldList, Output, StreamId, Unfinished, Upload};

/// What is left of the lengths that were announced, by stream in the order of opening.
#[derive(Debug, Default)]
pub(super) struct Uploads(Vec<(u32, Option<u64>)>);

impl Uploads {
    /// The id of a new stream is above all others.
    pub(super) fn begin(&mut self, number: u32, length: Option<u64>) {
        self.0.push((number, length));
    }

    pub(super) fn remove(&mut self, number: u32) {
        if let Ok(at) = self.find(number) {
            self.0.remove(at);
        }
    }

    pub(super) fn remove_above(&mut self, last: u32) {
        self.0.retain(|&(number, _)| number <= last);
    }

    /// What is left of the announced length; `None` where the stream is not open for content.
    fn left(&mut self, number: u32) -> Option<&mut Option<u64>> {
        let at = self.find(number).ok()?;
        Some(&mut self.0[at].1)
    }

    fn find(&self, number: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |&(number, _)| number)
    }
}

impl Connection {
    /// Writes content of a request that was sent with [`crate::Content::Streamed`], and says how
    /// many of `bytes` were taken: what the windows allow now, 64 KiB at most, no more than was
    /// announced, and none unless [`Self::upload`] is open. A `receive` may open the windows again.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8], out: &mut impl Output) -> usize {
        let found = open(&mut self.streams, &mut self.uploads, stream);
        let Some((number, stream, left)) = found else {
            return 0;
        };
        let announced = left.unwrap_or(u64::MAX);
        let window = stream.send_window.min(self.send_window);
        let most = u64::try_from(window).unwrap_or(0).min(announced);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(LARGEST_WRITE).min(most)];
        if let Some(left) = left {
            *left -= bytes.len() as u64;
        }
        let id = stream.id();
        stream.send_window -= bytes.len() as i64;
        self.send_window -= bytes.len() as i64;
        for piece in bytes.chunks(LARGEST_DATA.min(self.peer.max_frame_size as usize)) {
            let header = Header {
                length: piece.len() as u32,
                kind: kind::DATA,
                flags: 0,
                stream: number,
            };
            out.framing().extend_from_slice(&header.bytes());
            out.content(id, piece);
            self.flood.earn(gain::DATA_SENT);
        }
        bytes.len()
    }

    /// Ends the content of a request. Without effect unless [`Self::upload`] is open.
    pub fn finish(
        &mut self,
        stream: StreamId,
        trailers: &FieldList,
        out: &mut Vec<u8>,
    ) -> Result<(), Unfinished> {
        let found = open(&mut self.streams, &mut self.uploads, stream);
        let Some((number, stream, left)) = found else {
            return Ok(());
        };
        if let &mut Some(missing @ 1..) = left {
            return Err(Unfinished::Short { missing });
        }
        upload::check_trailers(trailers)?;
        if trailers.is_empty() {
            frame::write(kind::DATA, flag::END_STREAM, number, &[], out);
        } else {
            let mut lower = FieldList::new();
            for (name, value) in trailers.iter() {
                lower.push_lowercase(name, value);
            }
            let start = out.len();
            out.extend_from_slice(&[0; frame::HEADER_LEN]);
            let limit = self.peer.list_limit();
            if !self.blocks.write_trailers(&lower, limit, out) {
                out.truncate(start);
                return Err(Unfinished::TooLarge);
            }
            self.sent_field_bytes += (out.len() - start - frame::HEADER_LEN) as u64;
            let max_frame = self.peer.max_frame_size as usize;
            blocks::frame_block(number, flag::END_STREAM, max_frame, start, out);
        }
        stream.sending = Sending::Done;
        self.uploads.remove(number);
        Ok(())
    }

    /// The response is complete without the rest of the request: ends our direction of the stream.
    pub(super) fn stop_sending(&mut self, number: u32, out: &mut Vec<u8>) {
        if self
            .uploads
            .left(number)
            .is_some_and(|left| *left == Some(0))
        {
            // Nothing is missing but the end.
            frame::write(kind::DATA, flag::END_STREAM, number, &[], out);
        } else {
            frame::write_rst_stream(number, code::NO_ERROR, out);
        }
    }

    /// How far the content of a request is.
    pub fn upload(&self, stream: StreamId) -> Upload {
        let number = u32::try_from(stream.number).unwrap_or(0);
        match self.streams.get(number).map(|stream| stream.sending) {
            None => Upload::Stopped,
            Some(Sending::Streamed) => Upload::Open,
            Some(_) => Upload::Ended,
        }
    }

    /// Leaves the window of a stream as it is, so that the peer sends no more than it allows. What
    /// has been sent is still reported, and the window of the connection goes on.
    pub fn pause(&mut self, stream: StreamId) {
        let Ok(number) = u32::try_from(stream.number) else {
            return;
        };
        if self.streams.get(number).is_some() && !self.paused.contains(&number) {
            // Streams that have ended since leave here.
            let streams = &self.streams;
            self.paused.retain(|&other| streams.get(other).is_some());
            self.paused.push(number);
        }
    }

    /// Opens the window of a paused stream again.
    pub fn resume(&mut self, stream: StreamId, out: &mut Vec<u8>) {
        let Some(at) = self
            .paused
            .iter()
            .position(|&other| u64::from(other) == stream.number)
        else {
            return;
        };
        let number = self.paused.swap_remove(at);
        if let Some(stream) = self.streams.get_mut(number)
            && stream.window_is_due(self.config.stream_window)
        {
            frame::write_window_update(number, stream.received, out);
            stream.received = 0;
        }
    }
}

/// A stream that is open for content, with what is left of the announced length.
fn open<'a>(
    streams: &'a mut Streams,
    uploads: &'a mut Uploads,
    stream: StreamId,
) -> Option<(u32, &'a mut Stream, &'a mut Option<u64>)> {
    let number = u32::try_from(stream.number).ok()?;
    let left = uploads.left(number)?;
    let stream = streams.get_mut(number)?;
    Some((number, stream, left))
}
