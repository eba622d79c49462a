//! HTTP/3 (RFC 9114) over any QUIC that offers [`Streams`].

use crate::{ConnectionError, Events, Refused, Request, StreamId};

/// The streams of a QUIC connection, as HTTP/3 needs them. `transport::quic` implements it.
pub trait Streams {
    /// Opens a bidirectional stream, `None` when the peer grants no more now.
    fn open_bi(&mut self) -> Option<u64>;
    /// Opens a unidirectional stream, `None` when the peer grants no more now.
    fn open_uni(&mut self) -> Option<u64>;
    /// Writes as much of `bytes` as flow control takes, and says how much; 0 on a stopped stream.
    fn write(&mut self, stream: u64, bytes: &[u8]) -> usize;
    /// Ends our direction of the stream.
    fn finish(&mut self, stream: u64);
    /// RESET_STREAM.
    fn reset(&mut self, stream: u64, code: u64);
    /// STOP_SENDING.
    fn stop(&mut self, stream: u64, code: u64);
}

/// Bounds on what a peer may make us keep.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// SETTINGS_MAX_FIELD_SECTION_SIZE: one field section, uncompressed, in bytes.
    pub field_section: u64,
    /// Most requests outstanding at a time, whatever the peer grants.
    pub max_streams: u32,
}

/// The peer's SETTINGS; defaults before they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSettings {
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY, in bytes.
    pub qpack_max_table_capacity: u64,
    /// SETTINGS_QPACK_BLOCKED_STREAMS.
    pub qpack_blocked_streams: u64,
    /// `None`: unlimited.
    pub max_field_section_size: Option<u64>,
    /// Whether the SETTINGS frame has arrived.
    pub received: bool,
}

/// The client's end of one connection.
#[derive(Debug)]
pub struct Connection {}

impl Connection {
    /// Opens the control stream (SETTINGS, a reserved setting and frame). Call when the handshake is done
    /// (or when 0-RTT keys are there).
    pub fn new(_config: Config, _quic: &mut impl Streams) -> Self { unimplemented!() }
    /// Opens a stream with `request`; `Full` where QUIC grants no stream now. What flow control does not
    /// take stays inside and follows by [`Self::writable`].
    pub fn send(&mut self, _request: &Request, _slot: u32, _quic: &mut impl Streams) -> Result<StreamId, Refused> { unimplemented!() }
    /// Takes all of `bytes` of one stream of the peer's; `fin` where they are its last.
    pub fn receive<E: Events>(&mut self, _stream: u64, _bytes: &[u8], _fin: bool, _events: &mut E, _quic: &mut impl Streams) -> Result<(), ConnectionError> { unimplemented!() }
    /// The peer reset its direction of a stream.
    pub fn reset<E: Events>(&mut self, _stream: u64, _code: u64, _events: &mut E, _quic: &mut impl Streams) -> Result<(), ConnectionError> { unimplemented!() }
    /// The peer sent STOP_SENDING for our direction of a stream.
    pub fn stopped<E: Events>(&mut self, _stream: u64, _code: u64, _events: &mut E, _quic: &mut impl Streams) -> Result<(), ConnectionError> { unimplemented!() }
    /// QUIC can take more bytes of a stream that could not take all.
    pub fn writable(&mut self, _stream: u64, _quic: &mut impl Streams) { unimplemented!() }
    /// The QUIC connection is lost: fails what is outstanding.
    pub fn eof<E: Events>(&mut self, _events: &mut E) { unimplemented!() }
    /// Cancels a request (H3_REQUEST_CANCELLED both ways); nothing more is reported for it.
    pub fn cancel(&mut self, _stream: StreamId, _quic: &mut impl Streams) { unimplemented!() }
    /// Requests sent and not yet ended.
    pub fn outstanding(&self) -> usize { unimplemented!() }
    /// Whether the connection takes no more requests, now or later (GOAWAY, failed).
    pub fn is_closing(&self) -> bool { unimplemented!() }
    /// The peer's SETTINGS.
    pub fn peer_settings(&self) -> PeerSettings { unimplemented!() }
    /// Bytes of request field sections sent: compressed.
    pub fn sent_field_bytes(&self) -> u64 { unimplemented!() }
}
