//! HTTP/1.1 or HTTP/2 on a byte stream.

use trilane_wire::{ConnectionError, End, FieldList, Refused, Request, StreamId, Upload, h1, h2};

use crate::Version;
use crate::slots::{STREAM_WINDOW, Sink, Slots};

/// What speaks HTTP on a byte stream.
#[derive(Debug)]
pub(crate) enum Codec {
    H1(Box<h1::Connection>),
    H2(Box<h2::Connection>),
}

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
    pub(crate) fn new(version: Version, out: &mut Vec<u8>) -> Self {
        match version {
            Version::H2 => {
                let config = h2::Config {
                    stream_window: STREAM_WINDOW,
                    ..h2::Config::default()
                };
                Codec::H2(Box::new(h2::Connection::new(config, out)))
            }
            Version::H1 | Version::H3 => {
                Codec::H1(Box::new(h1::Connection::new(h1::Limits::default())))
            }
        }
    }

    pub(crate) fn version(&self) -> Version {
        match self {
            Codec::H1(_) => Version::H1,
            Codec::H2(_) => Version::H2,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        each!(self, codec => codec.capacity())
    }

    pub(crate) fn outstanding(&self) -> usize {
        each!(self, codec => codec.outstanding())
    }

    pub(crate) fn is_closing(&self) -> bool {
        each!(self, codec => codec.is_closing())
    }

    pub(crate) fn has_output(&self) -> bool {
        each!(self, codec => codec.has_output())
    }

    pub(crate) fn produce(&mut self, out: &mut Vec<u8>) {
        each!(self, codec => codec.produce(out));
    }

    pub(crate) fn submit(
        &mut self,
        request: &Request,
        slot: u32,
        out: &mut Vec<u8>,
    ) -> Result<StreamId, Refused> {
        each!(self, codec => codec.send(request, slot, out))
    }

    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        slots: &mut Slots,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        each!(self, codec => codec.receive(bytes, &mut Sink(slots), out))
    }

    pub(crate) fn eof(&mut self, end: End, slots: &mut Slots) {
        match self {
            Codec::H1(codec) => codec.eof(end, &mut Sink(slots)),
            Codec::H2(codec) => codec.eof(&mut Sink(slots)),
        }
    }

    pub(crate) fn cancel(&mut self, stream: StreamId, out: &mut Vec<u8>) -> bool {
        match self {
            Codec::H1(_) => false,
            Codec::H2(codec) => {
                codec.cancel(stream, out);
                true
            }
        }
    }

    pub(crate) fn write(&mut self, stream: StreamId, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        each!(self, codec => codec.write(stream, bytes, out))
    }

    pub(crate) fn finish(
        &mut self,
        stream: StreamId,
        trailers: &FieldList,
        out: &mut Vec<u8>,
    ) -> bool {
        each!(self, codec => codec.finish(stream, trailers, out).is_ok())
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

    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if let Codec::H2(codec) = self {
            codec.close(out);
        }
    }

    pub(crate) fn settings(&self) -> Vec<(&'static str, u64)> {
        let Codec::H2(codec) = self else {
            return Vec::new();
        };
        let peer = codec.peer_settings();
        if !peer.received {
            return Vec::new();
        }
        let mut known = vec![
            ("header_table_size", peer.header_table_size.into()),
            ("initial_window_size", peer.initial_window_size.into()),
            ("max_frame_size", peer.max_frame_size.into()),
        ];
        let optional = [
            ("max_concurrent_streams", peer.max_concurrent_streams),
            ("max_header_list_size", peer.max_header_list_size),
        ];
        for (name, value) in optional {
            known.extend(value.map(|value| (name, u64::from(value))));
        }
        known
    }
}
