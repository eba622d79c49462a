//! HTTP/2 (RFC 9113).
//!
//! What lives where: `frame` the bytes of frames, `receive` how frames are found in the bytes that
//! arrive, `frames` what each of them does, `response` heads, trailers and ends, `send` requests and
//! their bodies, `upload` content that the caller writes, `streams` the open streams, `flood` and `resets` the bounds on a hostile peer.
//!
//! Answers to a peer that does not read are bounded by what `out` still holds when `receive` is
//! called. A caller that moves `out` into a buffer of its own must stop reading while that is large.

mod blocks;
mod flood;
mod frame;
mod frames;
mod receive;
mod resets;
mod response;
mod section;
mod send;
mod streams;
mod upload;

use std::collections::VecDeque;

use self::blocks::Blocks;
use self::flood::Flood;
use self::frame::{
    DEFAULT_WINDOW, MAX_31_BITS, MAX_MAX_FRAME, MIN_MAX_FRAME, OPAQUE, code, kind, setting,
};
use self::receive::Input;
use self::resets::Resets;
use self::section::Memo;
use self::streams::{Sending, Streams};
use self::upload::Uploads;
use crate::hpack::{DEFAULT_TABLE_SIZE, Decoder};
use crate::{ConnectionError, ErrorKind, Events, FieldList, StreamError, StreamId, Unprocessed};

/// What we announce and grant.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// SETTINGS_INITIAL_WINDOW_SIZE: what each stream may receive, in bytes; at most 2^31−1.
    pub stream_window: u32,
    /// What the connection may receive, in bytes, granted by a WINDOW_UPDATE after the preface;
    /// between 65,535 and 2^31−1.
    pub connection_window: u32,
    /// SETTINGS_HEADER_TABLE_SIZE: the peer's HPACK table, in bytes.
    pub header_table: u32,
    /// SETTINGS_MAX_HEADER_LIST_SIZE: one field section, uncompressed, in bytes.
    pub header_list: u32,
    /// SETTINGS_MAX_FRAME_SIZE, in bytes; between 2^14 and 2^24−1.
    pub max_frame: u32,
    /// Most streams open at a time, whatever the peer grants.
    pub max_streams: u32,
    /// Most streams open before the peer's SETTINGS have come: none where requests ask for another protocol
    /// (RFC 8441 §3).
    pub streams_before_settings: u32,
}

impl Default for Config {
    /// Windows that hold no path of today up (16 MiB are 1.3 Gbit/s at a round trip of 100 ms); the
    /// table and the frame size that RFC 9113 §6.5.2 begins with; field sections of 256 KiB, as
    /// Chromium takes them.
    fn default() -> Self {
        Self {
            stream_window: 16 << 20,
            connection_window: 64 << 20,
            header_table: 4096,
            header_list: 256 << 10,
            max_frame: 16_384,
            max_streams: u32::MAX,
            streams_before_settings: STREAMS_BEFORE_SETTINGS,
        }
    }
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
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL: whether the peer takes [`crate::Request::extended_connect`].
    pub connect_protocol: bool,
    /// Whether a SETTINGS frame has arrived.
    pub received: bool,
}

/// The client's end of one connection.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    peer: PeerSettings,
    /// Why the connection is over, once it is.
    failure: Option<ConnectionError>,
    /// The last stream of the peer's GOAWAY, once there is one.
    goaway: Option<u32>,
    /// PINGs of ours that have not been answered.
    pings: u32,
    closed: bool,

    streams: Streams,
    next_id: u32,
    resets: Resets,
    flood: Flood,

    blocks: Blocks,
    sent_field_bytes: u64,
    /// What we may send on all streams together.
    send_window: i64,
    /// The streams that have content to send and a window for it, each once.
    queue: VecDeque<u32>,
    uploads: Uploads,

    input: Input,
    /// What has been received on all streams since the connection's window was last opened.
    received: u32,
    /// The streams whose windows stay as they are.
    paused: Vec<u32>,
    decoder: Decoder,
    memo: Memo,
    fields: FieldList,
}

/// Streams that may be opened before the peer has said how many: what it should grant at least
/// (RFC 9113 §6.5.2).
const STREAMS_BEFORE_SETTINGS: u32 = 100;

impl Connection {
    /// Writes the preface, SETTINGS and the connection's WINDOW_UPDATE to `out`. Values of `config`
    /// outside of their range are moved to its edge.
    pub fn new(config: Config, out: &mut Vec<u8>) -> Self {
        let config = Config {
            stream_window: config.stream_window.min(MAX_31_BITS),
            connection_window: config.connection_window.clamp(DEFAULT_WINDOW, MAX_31_BITS),
            max_frame: config.max_frame.clamp(MIN_MAX_FRAME, MAX_MAX_FRAME),
            ..config
        };
        out.extend_from_slice(frame::PREFACE);
        let mut payload = Vec::new();
        for (id, value) in [
            (setting::HEADER_TABLE_SIZE, config.header_table),
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, config.stream_window),
            (setting::MAX_FRAME_SIZE, config.max_frame),
            (setting::MAX_HEADER_LIST_SIZE, config.header_list),
        ] {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        frame::write(kind::SETTINGS, 0, 0, &payload, out);
        if config.connection_window > DEFAULT_WINDOW {
            frame::write_window_update(0, config.connection_window - DEFAULT_WINDOW, out);
        }
        Self {
            config,
            peer: PeerSettings::default(),
            failure: None,
            goaway: None,
            pings: 0,
            closed: false,
            streams: Streams::new(),
            next_id: 1,
            resets: Resets::default(),
            flood: Flood::new(),
            blocks: Blocks::default(),
            sent_field_bytes: 0,
            send_window: i64::from(DEFAULT_WINDOW),
            queue: VecDeque::new(),
            uploads: Uploads::default(),
            input: Input::default(),
            received: 0,
            paused: Vec::new(),
            decoder: Decoder::new(config.header_table),
            memo: Memo::default(),
            fields: FieldList::new(),
        }
    }

    /// Takes all of `bytes` from the peer (incomplete frames are kept inside). After an error the
    /// connection is over, and every later call gives the same error.
    pub fn receive<E: Events>(
        &mut self,
        bytes: &[u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        self.flood.written(out.len());
        self.read(bytes, events, out).inspect_err(|&error| {
            frame::write_goaway(error.code as u32, out);
            let of_stream = |_| StreamError {
                kind: error.kind,
                unprocessed: Unprocessed::Unknown,
                code: Some(error.code),
                reason: error.reason,
            };
            self.fail_all(error, of_stream, events);
        })
    }

    /// The peer closed its direction or the transport failed: fails what is outstanding.
    pub fn eof<E: Events>(&mut self, events: &mut E) {
        if self.failure.is_some() {
            return;
        }
        let reason = "the peer closed the connection";
        let error = ConnectionError {
            kind: ErrorKind::Closed,
            code: 0,
            reason,
        };
        let of_stream = |got_head| StreamError {
            kind: if got_head {
                ErrorKind::Body
            } else {
                ErrorKind::Closed
            },
            // It cannot be known whether the peer has processed the request.
            unprocessed: Unprocessed::Unknown,
            code: None,
            reason: if got_head {
                "the peer closed the connection inside a response"
            } else {
                reason
            },
        };
        self.fail_all(error, of_stream, events);
    }

    /// Resets a stream with CANCEL; nothing more is reported for it, not even a failure.
    pub fn cancel(&mut self, stream: StreamId, out: &mut Vec<u8>) {
        let Ok(number) = u32::try_from(stream.number) else {
            return;
        };
        if self.streams.get_mut(number).is_some() {
            self.drop_stream(number);
            self.resets.add(number);
            frame::write_rst_stream(number, code::CANCEL, out);
        }
    }

    /// Writes a PING (RFC 9113 §6.7), by which the peer shows that it is there.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        if self.failure.is_none() && !self.closed {
            self.pings = self.pings.saturating_add(1);
            frame::write(kind::PING, 0, 0, &OPAQUE, out);
        }
    }

    /// How many PINGs of [`Self::ping`] have not been answered.
    pub fn unanswered_pings(&self) -> u32 {
        self.pings
    }

    /// Writes GOAWAY(NO_ERROR) and takes no more requests; those outstanding go on.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.failure.is_none() && !self.closed {
            self.closed = true;
            frame::write_goaway(code::NO_ERROR, out);
        }
    }

    /// How many more requests `send` takes now.
    pub fn capacity(&self) -> usize {
        if self.is_closing() {
            return 0;
        }
        let ids = (MAX_31_BITS - self.next_id) / 2 + 1;
        (self.stream_limit() as usize)
            .saturating_sub(self.streams.len())
            .min(ids as usize)
    }

    /// Requests sent and not yet ended.
    pub fn outstanding(&self) -> usize {
        self.streams.len()
    }

    /// Whether the connection takes no more requests, now or later: it failed, it was closed, the
    /// peer is going away, or stream ids have run out. Close it once `outstanding` is 0.
    pub fn is_closing(&self) -> bool {
        self.failure.is_some() || self.closed || self.goaway.is_some() || self.next_id > MAX_31_BITS
    }

    /// The peer's SETTINGS.
    pub fn peer_settings(&self) -> PeerSettings {
        self.peer
    }

    /// Bytes of request field sections sent: compressed.
    pub fn sent_field_bytes(&self) -> u64 {
        self.sent_field_bytes
    }

    fn stream_limit(&self) -> u32 {
        let granted = if self.peer.received {
            self.peer.max_concurrent_streams.unwrap_or(u32::MAX)
        } else {
            self.config.streams_before_settings
        };
        granted.min(self.config.max_streams)
    }

    /// Ends the connection: fails every stream, by whether its head has arrived.
    fn fail_all<E: Events>(
        &mut self,
        error: ConnectionError,
        of_stream: impl Fn(bool) -> StreamError,
        events: &mut E,
    ) {
        self.failure = Some(error);
        self.queue.clear();
        self.uploads.remove_above(0);
        for stream in self.streams.remove_above(0) {
            events.fail(stream.id(), of_stream(stream.got_head));
        }
    }

    /// Forgets a stream.
    fn drop_stream(&mut self, number: u32) {
        match self.streams.get(number).map(|stream| stream.sending) {
            Some(Sending::Queued) => self.queue.retain(|&other| other != number),
            Some(Sending::Streamed) => self.uploads.remove(number),
            _ => {}
        }
        self.streams.remove(number);
    }
}

impl PeerSettings {
    /// The largest field section that the peer takes, in bytes.
    fn list_limit(&self) -> u64 {
        self.max_header_list_size.map_or(u64::MAX, u64::from)
    }
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            header_table_size: DEFAULT_TABLE_SIZE,
            max_concurrent_streams: None,
            initial_window_size: DEFAULT_WINDOW,
            max_frame_size: MIN_MAX_FRAME,
            max_header_list_size: None,
            connect_protocol: false,
            received: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Refused, Request, RequestParts};

    #[test]
    fn stream_ids_are_used_once_and_run_out() {
        let request = Request::new(&RequestParts {
            method: "GET",
            scheme: "http",
            authority: "a.example",
            path: "/",
            fields: &[],
            body: Arc::from([]),
            repeated: true,
        })
        .unwrap();
        let mut out = Vec::new();
        let mut connection = Connection::new(Config::default(), &mut out);
        connection.next_id = MAX_31_BITS - 2;
        assert_eq!(connection.capacity(), 2);
        for expected in [MAX_31_BITS - 2, MAX_31_BITS] {
            assert!(!connection.is_closing());
            let id = connection.send(&request, 0, &mut out).unwrap();
            assert_eq!(id.number, u64::from(expected));
        }
        out.clear();
        assert_eq!(
            connection.send(&request, 0, &mut out),
            Err(Refused::Exhausted)
        );
        assert!(out.is_empty() && connection.is_closing());
        assert_eq!((connection.capacity(), connection.outstanding()), (0, 2));
    }
}
