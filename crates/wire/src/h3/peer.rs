//! The peer's unidirectional streams (RFC 9114 §6.2): control, QPACK, and those that are none of
//! our business.

use super::frame::{self, HeaderReader, VarintReader};
use super::{PeerSettings, QuicStreams, code};
use crate::qpack::{DecoderStream, EncoderStream};
use crate::{ConnectionError, ErrorKind};

/// Unidirectional streams over the life of a connection. A server needs three; some add a few to
/// keep the unknown types usable.
const MAX_OPENED: usize = 256;

/// Bytes of SETTINGS: far more than all settings that exist take.
const MAX_SETTINGS: u64 = 4096;

/// Bytes that say nothing, over the life of a connection: unknown frames of the control stream (each
/// counts at least [`FRAME_COST`]), repeated GOAWAY, QPACK instructions.
const MAX_IDLE: u64 = 1024 * 1024;
const FRAME_COST: u64 = 16;

/// What the control stream said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    Settings(PeerSettings),
    /// Requests from this stream id on were not processed and will not be.
    Goaway(u64),
}

#[derive(Debug)]
enum StreamType {
    /// The type has not arrived in full.
    Unknown(VarintReader),
    Control(ControlReader),
    Encoder(EncoderStream),
    Decoder(DecoderStream),
    /// Of an unknown type, or ended: whatever comes is ignored.
    Ignored,
}

#[derive(Debug, Default)]
pub(super) struct PeerStreams {
    streams: Vec<(u64, StreamType)>,
    /// Which of the types 0 to 3 have appeared.
    seen: [bool; 4],
    idle: u64,
}

impl PeerStreams {
    /// Takes bytes off the front of `bytes` until the control stream says something.
    pub(super) fn receive(
        &mut self,
        stream: u64,
        bytes: &mut &[u8],
        fin: bool,
        quic: &mut impl QuicStreams,
    ) -> Result<Option<Control>, ConnectionError> {
        let at = match self.streams.iter().position(|&(id, _)| id == stream) {
            Some(at) => at,
            None if self.streams.len() == MAX_OPENED => {
                return fail(code::EXCESSIVE_LOAD, "too many unidirectional streams");
            }
            None => {
                self.streams
                    .push((stream, StreamType::Unknown(VarintReader::default())));
                self.streams.len() - 1
            }
        };
        let Self {
            streams,
            seen,
            idle,
        } = self;
        let stream_type = &mut streams[at].1;
        if let StreamType::Unknown(reader) = stream_type
            && let Some(value) = reader.read(bytes)
        {
            *stream_type = classify(value, seen)?;
            if matches!(stream_type, StreamType::Ignored) && !fin {
                quic.stop(stream, code::STREAM_CREATION_ERROR);
            }
        }
        let said = match stream_type {
            StreamType::Control(reader) => reader.receive(bytes, idle)?,
            StreamType::Encoder(reader) => {
                *idle += bytes.len() as u64;
                let result = reader.receive(std::mem::take(bytes));
                result.or_else(|e| fail(code::QPACK_ENCODER_STREAM_ERROR, e.0))?;
                None
            }
            StreamType::Decoder(reader) => {
                *idle += bytes.len() as u64;
                let result = reader.receive(std::mem::take(bytes));
                result.or_else(|e| fail(code::QPACK_DECODER_STREAM_ERROR, e.0))?;
                None
            }
            StreamType::Unknown(_) | StreamType::Ignored => {
                *bytes = &[];
                None
            }
        };
        if *idle > MAX_IDLE {
            return fail(
                code::EXCESSIVE_LOAD,
                "too much on the control or QPACK streams",
            );
        }
        if fin && bytes.is_empty() && said.is_none() {
            self.closed(stream)?;
        }
        Ok(said)
    }

    /// The stream ended or was reset, which the critical ones may not (RFC 9114 §6.2.1).
    pub(super) fn closed(&mut self, stream: u64) -> Result<(), ConnectionError> {
        let Some((_, stream_type)) = self.streams.iter_mut().find(|(id, _)| *id == stream) else {
            return Ok(());
        };
        match stream_type {
            StreamType::Control(_) => fail(
                code::CLOSED_CRITICAL_STREAM,
                "the peer closed its control stream",
            ),
            StreamType::Encoder(_) | StreamType::Decoder(_) => fail(
                code::CLOSED_CRITICAL_STREAM,
                "the peer closed a QPACK stream",
            ),
            StreamType::Unknown(_) | StreamType::Ignored => {
                *stream_type = StreamType::Ignored;
                Ok(())
            }
        }
    }
}

fn fail<T>(code: u64, reason: &'static str) -> Result<T, ConnectionError> {
    let kind = if code == code::EXCESSIVE_LOAD {
        ErrorKind::Limit
    } else {
        ErrorKind::Protocol
    };
    Err(ConnectionError { kind, code, reason })
}

fn classify(value: u64, seen: &mut [bool; 4]) -> Result<StreamType, ConnectionError> {
    let stream_type = match value {
        0 => StreamType::Control(ControlReader::default()),
        // RFC 9114 §4.6: only within the push ids that a client permits, and we permit none.
        1 => return fail(code::ID_ERROR, "a push stream, which was not permitted"),
        2 => StreamType::Encoder(EncoderStream::default()),
        3 => StreamType::Decoder(DecoderStream::default()),
        _ => return Ok(StreamType::Ignored),
    };
    if std::mem::replace(&mut seen[value as usize], true) {
        return fail(
            code::STREAM_CREATION_ERROR,
            "a second control or QPACK stream",
        );
    }
    Ok(stream_type)
}

/// What the next bytes of the control stream are.
#[derive(Clone, Copy, Debug, Default)]
enum Frame {
    #[default]
    Header,
    Settings(u64),
    Goaway(u64),
    CancelPush(u64),
    Unknown(u64),
}

#[derive(Debug, Default)]
struct ControlReader {
    frame: Frame,
    header: HeaderReader,
    payload: Vec<u8>,
    has_settings: bool,
    goaway: Option<u64>,
}

impl ControlReader {
    fn receive(
        &mut self,
        bytes: &mut &[u8],
        idle: &mut u64,
    ) -> Result<Option<Control>, ConnectionError> {
        while !bytes.is_empty() {
            let left = match self.frame {
                Frame::Header => {
                    if let Some((kind, length)) = self.header.read(bytes) {
                        self.begin_frame(kind, length, idle)?;
                        if length == 0
                            && let Some(said) = self.end_frame()?
                        {
                            return Ok(Some(said));
                        }
                    }
                    continue;
                }
                Frame::Settings(left)
                | Frame::Goaway(left)
                | Frame::CancelPush(left)
                | Frame::Unknown(left) => left,
            };
            let piece = frame::take(bytes, left);
            let left = left - piece.len() as u64;
            self.frame = match self.frame {
                Frame::Header => Frame::Header,
                Frame::Settings(_) => Frame::Settings(left),
                Frame::Goaway(_) => Frame::Goaway(left),
                Frame::CancelPush(_) => Frame::CancelPush(left),
                Frame::Unknown(_) => Frame::Unknown(left),
            };
            if matches!(self.frame, Frame::Unknown(_)) {
                *idle += piece.len() as u64;
            } else {
                self.payload.extend_from_slice(piece);
            }
            if left == 0
                && let Some(said) = self.end_frame()?
            {
                return Ok(Some(said));
            }
        }
        Ok(None)
    }

    fn begin_frame(
        &mut self,
        kind: u64,
        length: u64,
        idle: &mut u64,
    ) -> Result<(), ConnectionError> {
        if !self.has_settings && kind != frame::SETTINGS {
            return fail(
                code::MISSING_SETTINGS,
                "a control stream that begins without SETTINGS",
            );
        }
        self.frame = match kind {
            frame::SETTINGS if self.has_settings => {
                return fail(code::FRAME_UNEXPECTED, "a second SETTINGS frame");
            }
            frame::SETTINGS if length > MAX_SETTINGS => {
                return fail(code::EXCESSIVE_LOAD, "a SETTINGS frame beyond all measure");
            }
            frame::SETTINGS => Frame::Settings(length),
            frame::GOAWAY if length > 8 => {
                return fail(code::FRAME_ERROR, "a GOAWAY frame that is not one integer");
            }
            frame::GOAWAY => {
                *idle += FRAME_COST;
                Frame::Goaway(length)
            }
            frame::CANCEL_PUSH if length > 8 => {
                return fail(
                    code::FRAME_ERROR,
                    "a CANCEL_PUSH frame that is not one integer",
                );
            }
            frame::CANCEL_PUSH => Frame::CancelPush(length),
            frame::DATA | frame::HEADERS | frame::PUSH_PROMISE | frame::MAX_PUSH_ID => {
                return fail(
                    code::FRAME_UNEXPECTED,
                    "a frame that may not be on the control stream",
                );
            }
            kind if frame::is_http2_only(kind) => {
                return fail(code::FRAME_UNEXPECTED, "a frame type of HTTP/2");
            }
            _ => {
                *idle += FRAME_COST;
                Frame::Unknown(length)
            }
        };
        Ok(())
    }

    fn end_frame(&mut self) -> Result<Option<Control>, ConnectionError> {
        let said = match std::mem::take(&mut self.frame) {
            Frame::Header | Frame::Unknown(_) => None,
            Frame::Settings(_) => {
                self.has_settings = true;
                Some(Control::Settings(parse_settings(&self.payload)?))
            }
            Frame::Goaway(_) => Some(Control::Goaway(self.parse_goaway()?)),
            Frame::CancelPush(_) => return self.refuse_push(),
        };
        self.payload.clear();
        Ok(said)
    }

    /// RFC 9114 §7.2.3: no push id has been permitted, so none can be cancelled.
    fn refuse_push<T>(&self) -> Result<T, ConnectionError> {
        match frame::varint(&self.payload) {
            Some((_, length)) if length == self.payload.len() => fail(
                code::ID_ERROR,
                "the cancellation of a push that was not permitted",
            ),
            _ => fail(
                code::FRAME_ERROR,
                "a CANCEL_PUSH frame that is not one integer",
            ),
        }
    }

    /// RFC 9114 §5.2: the id of a client's request, never greater than the last one.
    fn parse_goaway(&mut self) -> Result<u64, ConnectionError> {
        let id = match frame::varint(&self.payload) {
            Some((id, length)) if length == self.payload.len() => id,
            _ => return fail(code::FRAME_ERROR, "a GOAWAY frame that is not one integer"),
        };
        if id & 3 != 0 {
            return fail(code::ID_ERROR, "a GOAWAY that does not name a request");
        }
        if self.goaway.is_some_and(|before| id > before) {
            return fail(
                code::ID_ERROR,
                "a GOAWAY that names a later request than the one before",
            );
        }
        self.goaway = Some(id);
        Ok(id)
    }
}

fn parse_settings(mut payload: &[u8]) -> Result<PeerSettings, ConnectionError> {
    let mut settings = PeerSettings {
        received: true,
        ..PeerSettings::default()
    };
    let mut seen = Vec::new();
    while !payload.is_empty() {
        let pair = frame::varint(payload).and_then(|(id, first)| {
            let (value, second) = frame::varint(&payload[first..])?;
            Some((id, value, first + second))
        });
        let Some((id, value, used)) = pair else {
            return fail(
                code::FRAME_ERROR,
                "a SETTINGS frame that ends within a setting",
            );
        };
        payload = &payload[used..];
        seen.push(id);
        match id {
            0x01 => settings.qpack_max_table_capacity = value,
            0x06 => settings.max_field_section_size = Some(value),
            0x07 => settings.qpack_blocked_streams = value,
            // RFC 9220 §3, with the values of RFC 8441 §3.
            0x08 if value > 1 => {
                let reason = "SETTINGS_ENABLE_CONNECT_PROTOCOL above 1";
                return fail(code::SETTINGS_ERROR, reason);
            }
            0x08 => settings.connect_protocol = value == 1,
            // RFC 9114 §7.2.4.1: they are settings of HTTP/2.
            0x02..=0x05 => return fail(code::SETTINGS_ERROR, "a setting of HTTP/2"),
            _ => {}
        }
    }
    seen.sort_unstable();
    if seen.windows(2).any(|pair| pair[0] == pair[1]) {
        return fail(code::SETTINGS_ERROR, "the same setting twice");
    }
    Ok(settings)
}
