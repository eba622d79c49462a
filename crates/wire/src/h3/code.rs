//! Error codes of RFC 9114 §8.1 and RFC 9204 §6.

/// H3_NO_ERROR: the connection or stream ends and nothing was wrong.
pub const NO_ERROR: u64 = 0x100;
/// H3_GENERAL_PROTOCOL_ERROR.
pub const GENERAL_PROTOCOL_ERROR: u64 = 0x101;
/// H3_STREAM_CREATION_ERROR: a stream of a kind that may not be opened.
pub const STREAM_CREATION_ERROR: u64 = 0x103;
/// H3_CLOSED_CRITICAL_STREAM: the control stream or a QPACK stream ended.
pub const CLOSED_CRITICAL_STREAM: u64 = 0x104;
/// H3_FRAME_UNEXPECTED: a frame where it may not stand.
pub const FRAME_UNEXPECTED: u64 = 0x105;
/// H3_FRAME_ERROR: a frame whose payload does not fit its length.
pub const FRAME_ERROR: u64 = 0x106;
/// H3_EXCESSIVE_LOAD: the peer makes us work for nothing.
pub const EXCESSIVE_LOAD: u64 = 0x107;
/// H3_ID_ERROR: a push or stream identifier that may not be used.
pub const ID_ERROR: u64 = 0x108;
/// H3_SETTINGS_ERROR: a SETTINGS frame with a forbidden or repeated setting.
pub const SETTINGS_ERROR: u64 = 0x109;
/// H3_MISSING_SETTINGS: the control stream did not begin with SETTINGS.
pub const MISSING_SETTINGS: u64 = 0x10a;
/// H3_REQUEST_REJECTED: the server did nothing with the request, so it may be sent again.
pub const REQUEST_REJECTED: u64 = 0x10b;
/// H3_REQUEST_CANCELLED: the request or its response is not wanted any more.
pub const REQUEST_CANCELLED: u64 = 0x10c;
/// H3_MESSAGE_ERROR: a malformed message.
pub const MESSAGE_ERROR: u64 = 0x10e;
/// QPACK_DECOMPRESSION_FAILED: a field section that cannot be decoded.
pub const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;
/// QPACK_ENCODER_STREAM_ERROR: an instruction that our empty table does not allow.
pub const QPACK_ENCODER_STREAM_ERROR: u64 = 0x201;
/// QPACK_DECODER_STREAM_ERROR: an acknowledgement of what we never sent.
pub const QPACK_DECODER_STREAM_ERROR: u64 = 0x202;
