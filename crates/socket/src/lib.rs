//! The system calls of a connection: open, send, receive, linger. Nothing here waits; who waits, and how, is
//! the engine's or the client's own.

mod linger;
pub mod stream;
pub mod udp;

use std::io;

pub use linger::Lingering;

/// How many system calls were made, and how many bytes they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// System calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A socket that could not be made.
#[derive(Debug)]
pub struct Unmade {
    /// What was tried, in words.
    pub what: String,
    /// What the system said.
    pub error: io::Error,
}
