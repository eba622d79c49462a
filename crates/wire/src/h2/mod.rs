//! HTTP/2 (RFC 9113).

use crate::{ConnectionError, Events, Refused, Request, StreamId};

/// What we announce and grant.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// SETTINGS_INITIAL_WINDOW_SIZE: what each stream may receive, in bytes.
    pub stream_window: u32,
    /// What the connection may receive, in bytes, granted by a WINDOW_UPDATE after the preface.
    pub connection_window: u32,
    /// SETTINGS_HEADER_TABLE_SIZE: the peer's HPACK table, in bytes.
    pub header_table: u32,
    /// SETTINGS_MAX_HEADER_LIST_SIZE: one field section, uncompressed, in bytes.
    pub header_list: u32,
    /// SETTINGS_MAX_FRAME_SIZE, in bytes.
    pub max_frame: u32,
    /// Most streams open at a time, whatever the peer grants.
    pub max_streams: u32,
}

/// The peer's SETTINGS, as last applied; the initial values of RFC 9113 §6.5.2 before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// SETTINGS_HEADER_TABLE_SIZE, in bytes.
    pub header_table_size: u32,
    /// `None`: unlimited.
    pub max_concurrent_streams: Option<u32>,
    /// SETTINGS_INITIAL_WINDOW_SIZE, in bytes.
    pub initial_window_size: u32,
    /// SETTINGS_MAX_FRAME_SIZE, in bytes.
    pub max_frame_size: u32,
    /// `None`: unlimited.
    pub max_header_list_size: Option<u32>,
    /// Whether a SETTINGS frame has arrived.
    pub received: bool,
}

/// The client's end of one connection.
#[derive(Debug)]
pub struct Connection {}

impl Connection {
    /// Writes the preface, SETTINGS and the connection's WINDOW_UPDATE to `out`.
    pub fn new(_config: Config, _out: &mut Vec<u8>) -> Self { unimplemented!() }
    /// Opens a stream with `request`. Of the body as much as the windows and a small `out` allow;
    /// the rest follows as windows open, by `receive` and [`Self::produce`].
    pub fn send(&mut self, _request: &Request, _slot: u32, _out: &mut Vec<u8>) -> Result<StreamId, Refused> { unimplemented!() }
    /// Takes all of `bytes` from the peer (incomplete frames are kept inside).
    pub fn receive<E: Events>(&mut self, _bytes: &[u8], _events: &mut E, _out: &mut Vec<u8>) -> Result<(), ConnectionError> { unimplemented!() }
    /// The peer closed its direction or the transport failed: fails what is outstanding.
    pub fn eof<E: Events>(&mut self, _events: &mut E) { unimplemented!() }
    /// Resets a stream with CANCEL; nothing more is reported for it, not even a failure.
    pub fn cancel(&mut self, _stream: StreamId, _out: &mut Vec<u8>) { unimplemented!() }
    /// Writes GOAWAY(NO_ERROR) and takes no more requests.
    pub fn close(&mut self, _out: &mut Vec<u8>) { unimplemented!() }
    /// Writes more of the pending bodies, when `out` has been written to the transport.
    pub fn produce(&mut self, _out: &mut Vec<u8>) { unimplemented!() }
    /// Whether `produce` has something to write now.
    pub fn has_output(&self) -> bool { unimplemented!() }
    /// How many more requests `send` takes now.
    pub fn capacity(&self) -> usize { unimplemented!() }
    /// Requests sent and not yet ended.
    pub fn outstanding(&self) -> usize { unimplemented!() }
    /// Whether the connection takes no more requests, now or later.
    pub fn is_closing(&self) -> bool { unimplemented!() }
    /// The peer's SETTINGS.
    pub fn peer_settings(&self) -> PeerSettings { unimplemented!() }
    /// Bytes of request field sections sent: compressed.
    pub fn sent_field_bytes(&self) -> u64 { unimplemented!() }
}
