//! The requests on a connection, and the content of each.

use trilane_wire::{FieldList, Refused, Request, StreamId, Unfinished, Upload};

use super::Stream;
use crate::codec::Codec;

impl Stream {
    /// Sends a request, whose stream carries `slot`.
    #[inline]
    pub fn send(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        if !self.takes_requests() {
            return Err(Refused::Draining);
        }
        self.paused = false;
        self.with_codec(Err(Refused::Full), |codec, out| {
            codec.send(request, slot, out)
        })
    }

    /// Resets one request. False where its version has no way to: the connection has to go.
    pub fn cancel(&mut self, stream: StreamId) -> bool {
        self.with_codec(false, |codec, out| codec.cancel(stream, out.tail()))
    }

    /// Asks the peer by a PING whether it is there. False where its version has none.
    pub fn ping(&mut self) -> bool {
        self.with_codec(false, |codec, out| codec.ping(out.tail()))
    }

    /// Takes streamed content, as much as may be sent now, and says how much.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.with_codec(0, |codec, out| codec.write(stream, bytes, out))
    }

    /// Ends streamed content.
    pub fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> Result<(), Unfinished> {
        self.with_codec(Ok(()), |codec, out| {
            codec.finish(stream, trailers, out.tail())
        })
    }

    /// Whether the peer still takes content of a request.
    pub fn upload(&self, stream: StreamId) -> Upload {
        self.codec
            .as_ref()
            .map_or(Upload::Stopped, |codec| codec.upload(stream))
    }

    /// Stops the peer from sending more of one response than it has been granted.
    pub fn pause(&mut self, stream: StreamId) {
        match &mut self.codec {
            Some(Codec::H1(_)) => self.paused = true,
            Some(codec) => codec.pause(stream),
            None => (),
        }
    }

    /// Lets it send again.
    pub fn resume(&mut self, stream: StreamId) {
        self.paused = false;
        self.with_codec((), |codec, out| codec.resume(stream, out.tail()));
    }
}
