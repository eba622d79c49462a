//! What speaks HTTP on a byte stream.

use trilane_wire::{
    ConnectionError, End, Events, FieldList, Refused, Request, StreamId, Unfinished, Upload, h1, h2,
};

use crate::Version;
use crate::queue::SendQueue;

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "HTTP/1.1 has the most connections and the shortest turns"
)]
pub(crate) enum Codec {
    H1(h1::Connection),
    H2(Box<h2::Connection>),
}

/// Calls the same method of whichever codec it is.
macro_rules! each {
    ($codec:expr, $name:ident => $call:expr) => {
        match $codec {
            Codec::H1($name) => $call,
            Codec::H2($name) => $call,
        }
    };
}

impl Codec {
    /// A codec for `version`; HTTP/2 writes its preface to `out`.
    pub(crate) fn new(version: Version, config: &h2::Config, out: &mut Vec<u8>) -> Self {
        match version {
            Version::H2 => Codec::H2(Box::new(h2::Connection::new(*config, out))),
            Version::H1 | Version::H3 => Codec::H1(h1::Connection::new(h1::Limits::default())),
        }
    }

    pub(crate) fn version(&self) -> Version {
        match self {
            Codec::H1(_) => Version::H1,
            Codec::H2(_) => Version::H2,
        }
    }

    /// Whether the peer has shown that it speaks the version: with HTTP/2 it has sent SETTINGS.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Codec::H1(_) => true,
            Codec::H2(codec) => codec.peer_settings().received,
        }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        each!(self, codec => codec.capacity())
    }

    pub(crate) fn outstanding(&self) -> usize {
        each!(self, codec => codec.outstanding())
    }

    pub(crate) fn is_closing(&self) -> bool {
        each!(self, codec => codec.is_closing())
    }

    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        each!(self, codec => codec.has_output())
    }

    pub(crate) fn produce(&mut self, out: &mut SendQueue) {
        each!(self, codec => codec.produce(out));
    }

    #[inline]
    pub(crate) fn send(
        &mut self,
        request: &Request,
        slot: u32,
        out: &mut SendQueue,
    ) -> Result<StreamId, Refused> {
        each!(self, codec => codec.send(request, slot, out))
    }

    #[inline]
    pub(crate) fn receive<E: Events>(
        &mut self,
        bytes: &[u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        each!(self, codec => codec.receive(bytes, events, out))
    }

    /// The transport has ended: ends or fails what is outstanding.
    pub(crate) fn eof<E: Events>(&mut self, end: End, events: &mut E) {
        match self {
            Codec::H1(codec) => codec.eof(end, events),
            Codec::H2(codec) => codec.eof(events),
        }
    }

    /// Resets one stream. False where the version has none: the connection has to go.
    pub(crate) fn cancel(&mut self, stream: StreamId, out: &mut Vec<u8>) -> bool {
        match self {
            Codec::H1(_) => false,
            Codec::H2(codec) => {
                codec.cancel(stream, out);
                true
            }
        }
    }

    /// Asks the peer whether it is there; false where the version has no words for it.
    pub(crate) fn ping(&mut self, out: &mut Vec<u8>) -> bool {
        match self {
            Codec::H1(_) => false,
            Codec::H2(codec) => {
                codec.ping(out);
                true
            }
        }
    }

    pub(crate) fn write(&mut self, stream: StreamId, bytes: &[u8], out: &mut SendQueue) -> usize {
        each!(self, codec => codec.write(stream, bytes, out))
    }

    pub(crate) fn finish(
        &mut self,
        stream: StreamId,
        trailers: &FieldList,
        out: &mut Vec<u8>,
    ) -> Result<(), Unfinished> {
        each!(self, codec => codec.finish(stream, trailers, out))
    }

    pub(crate) fn upload(&self, stream: StreamId) -> Upload {
        each!(self, codec => codec.upload(stream))
    }

    pub(crate) fn pause(&mut self, stream: StreamId) {
        if let Codec::H2(codec) = self {
            codec.pause(stream);
        }
    }

    pub(crate) fn resume(&mut self, stream: StreamId, out: &mut Vec<u8>) {
        if let Codec::H2(codec) = self {
            codec.resume(stream, out);
        }
    }

    /// Says goodbye: GOAWAY, where the version has it.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if let Codec::H2(codec) = self {
            codec.close(out);
        }
    }
}
