//! What HTTP/3 does with the streams of a connection.

use bytes::Bytes;
use quinn_proto::{Dir, StreamId, VarInt};
use trilane_wire::h3::QuicStreams;
use trilane_wire::request::REPEATED;

use super::Connection;

impl QuicStreams for Connection {
    fn open_bi(&mut self) -> Option<u64> {
        self.inner.streams().open(Dir::Bi).map(u64::from)
    }

    fn open_uni(&mut self) -> Option<u64> {
        self.inner.streams().open(Dir::Uni).map(u64::from)
    }

    fn write(&mut self, stream: u64, bytes: &[u8]) -> usize {
        let Some(id) = outgoing(stream) else {
            return 0;
        };
        self.inner.send_stream(id).write(bytes).unwrap_or(0)
    }

    fn write_repeated(&mut self, stream: u64, key: u64, bytes: &[u8]) -> usize {
        let Some(id) = outgoing(stream) else {
            return 0;
        };
        let mut piece = [self.repeated.shared(key, bytes)];
        self.inner
            .send_stream(id)
            .write_chunks(&mut piece)
            .map_or(0, |written| written.bytes)
    }

    fn transmitted(&self) -> u64 {
        self.transmitted
    }

    fn finish(&mut self, stream: u64) {
        if let Some(id) = outgoing(stream) {
            // An error says that the peer has stopped the stream, which is an event of its own.
            let _ = self.inner.send_stream(id).finish();
        }
    }

    fn reset(&mut self, stream: u64, code: u64) {
        if let (Some(id), Ok(code)) = (outgoing(stream), VarInt::from_u64(code)) {
            // An error says that the stream is closed already.
            let _ = self.inner.send_stream(id).reset(code);
        }
    }

    fn stop(&mut self, stream: u64, code: u64) {
        if let (Some(id), Ok(code)) = (incoming(stream), VarInt::from_u64(code)) {
            // An error says that the stream is closed already.
            let _ = self.inner.recv_stream(id).stop(code);
        }
    }
}

/// Bytes that are written to one stream after the other, kept in shared form: quinn-proto then
/// counts references where it would allocate and copy.
#[derive(Default)]
pub(super) struct Repeated(Vec<(u64, Bytes)>);

impl Repeated {
    fn shared(&mut self, key: u64, bytes: &[u8]) -> Bytes {
        if self.0.is_empty() {
            self.0.resize(REPEATED, (u64::MAX, Bytes::new()));
        }
        let place = &mut self.0[key as usize % REPEATED];
        if place.0 != key {
            *place = (key, Bytes::copy_from_slice(bytes));
        }
        place.1.clone()
    }
}

/// A stream that we may send on: any but the peer's unidirectional ones.
fn outgoing(stream: u64) -> Option<StreamId> {
    if stream & 3 == 3 {
        None
    } else {
        VarInt::from_u64(stream).ok().map(StreamId::from)
    }
}

/// A stream that we may receive on: any but our unidirectional ones.
pub(super) fn incoming(stream: u64) -> Option<StreamId> {
    if stream & 3 == 2 {
        None
    } else {
        VarInt::from_u64(stream).ok().map(StreamId::from)
    }
}
