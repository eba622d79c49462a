//! WebSocket (RFC 6455): the client's end of the framing, and the two fields of the opening handshake
//! that belong together.
//!
//! [`write()`] makes frames; [`Decoder`] takes bytes of the server, however they are cut, and tells a
//! [`Messages`] sink what they were. Nothing is kept of a message but what its frames say of it, so that a
//! session costs no memory that grows with its messages.

mod decoder;
mod frame;
mod handshake;

pub use decoder::{Decoder, Limits, Messages};
pub use frame::{Opcode, write, write_close};
pub use handshake::{KEY_LENGTH, accept, key};

use std::fmt;

/// Codes of Close frames (RFC 6455 §7.4.1).
pub mod code {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: u16 = 1000;
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// Text that is not UTF-8.
    pub const INVALID_DATA: u16 = 1007;
    /// A message that is too large.
    pub const TOO_BIG: u16 = 1009;
}

/// What a message consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

/// A rule that the server broke; nothing after it can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What a Close frame tells the server (see [`code`]).
    pub code: u16,
    /// The rule.
    pub reason: &'static str,
}

impl Violation {
    const fn protocol(reason: &'static str) -> Self {
        Self {
            code: code::PROTOCOL_ERROR,
            reason,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for Violation {}
