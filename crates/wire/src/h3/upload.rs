//! Content that the caller writes.

use super::{Connection, QuicStreams, frame};
use crate::request::Indexing;
use crate::upload;
use crate::{FieldList, StreamId, Unfinished, Upload, qpack};

impl Connection {
    /// Writes content of a request that was sent with [`crate::Content::Streamed`], and says how
    /// many of `bytes` were taken: as much as flow control allows now and what is left of one frame,
    /// 64 KiB at most, no more than was announced, and none unless [`Self::upload`] is open. After
    /// [`Self::writable`] more may be taken.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8], quic: &mut impl QuicStreams) -> usize {
        self.exchanges.get_mut(stream.number).map_or(0, |exchange| {
            exchange.write(bytes, quic, &mut self.content_taken)
        })
    }

    /// Ends the content of a request. Without effect unless [`Self::upload`] is open.
    ///
    /// A response that ends first does not stop the content (RFC 9114 §4.1): unless the server asks
    /// for that, it has to be ended or cancelled.
    pub fn finish(
        &mut self,
        stream: StreamId,
        trailers: &FieldList,
        quic: &mut impl QuicStreams,
    ) -> Result<(), Unfinished> {
        let Some(exchange) = self.exchanges.get_mut(stream.number) else {
            return Ok(());
        };
        let Some(sending) = exchange
            .sending
            .as_mut()
            .filter(|sending| sending.is_open())
        else {
            return Ok(());
        };
        upload::check_trailers(trailers)?;
        let limit = self.peer.max_field_section_size.unwrap_or(u64::MAX);
        if trailers.section_size() > limit {
            return Err(Unfinished::TooLarge);
        }
        let section = frame_of(trailers);
        sending.finish(&section)?;
        self.sent_field_bytes += section.len() as u64;
        if exchange.advance(quic, &mut self.content_taken) && exchange.has_ended() {
            self.exchanges.remove(stream.number);
        }
        Ok(())
    }

    /// How far the content of a request is.
    pub fn upload(&self, stream: StreamId) -> Upload {
        let Some(exchange) = self.exchanges.get(stream.number) else {
            return Upload::Stopped;
        };
        match &exchange.sending {
            _ if exchange.stopped => Upload::Stopped,
            Some(sending) if sending.is_open() => Upload::Open,
            _ => Upload::Ended,
        }
    }
}

/// The HEADERS frame of `trailers`; nothing where there are none.
fn frame_of(trailers: &FieldList) -> Vec<u8> {
    let mut bytes = Vec::new();
    if trailers.is_empty() {
        return bytes;
    }
    let mut lower = FieldList::new();
    for (name, value) in trailers.iter() {
        lower.push_lowercase(name, value);
    }
    let mut section = Vec::new();
    let fields = lower.iter().map(|(n, v)| (n, v, Indexing::Without));
    qpack::encode(fields, &mut section);
    frame::put_varint(frame::HEADERS, &mut bytes);
    frame::put_varint(section.len() as u64, &mut bytes);
    bytes.extend_from_slice(&section);
    bytes
}
