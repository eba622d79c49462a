//! HTTP/1.1 (RFC 9112): one request at a time on a connection.

use crate::{ConnectionError, Events, Refused, Request, StreamId};

/// Bounds on what a peer may make us keep or read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one response head, of one chunk-size line, and of all trailers.
    pub head_bytes: usize,
    /// Fields of one response head.
    pub fields: usize,
    /// Informational responses before the final one.
    pub informational: usize,
}

/// The client's end of one connection.
#[derive(Debug)]
pub struct Connection {}

impl Connection {
    /// A connection on which nothing has been sent.
    pub fn new(_limits: Limits) -> Self { unimplemented!() }
    /// Writes `request` to `out`. Of the body as much as keeps `out` small; the rest follows by [`Self::produce`].
    pub fn send(&mut self, _request: &Request, _slot: u32, _out: &mut Vec<u8>) -> Result<StreamId, Refused> { unimplemented!() }
    /// Takes all of `bytes` from the peer (an incomplete head is kept inside).
    pub fn receive<E: Events>(&mut self, _bytes: &[u8], _events: &mut E, _out: &mut Vec<u8>) -> Result<(), ConnectionError> { unimplemented!() }
    /// The peer closed its direction or the transport failed: ends or fails what is outstanding.
    pub fn eof<E: Events>(&mut self, _events: &mut E) { unimplemented!() }
    /// Writes more of the pending body, when `out` has been written to the transport.
    pub fn produce(&mut self, _out: &mut Vec<u8>) { unimplemented!() }
    /// Whether `produce` has something to write.
    pub fn has_output(&self) -> bool { unimplemented!() }
    /// How many more requests `send` takes now.
    pub fn capacity(&self) -> usize { unimplemented!() }
    /// Requests sent and not yet ended.
    pub fn outstanding(&self) -> usize { unimplemented!() }
    /// Whether the connection takes no more requests, now or later. Close it once `outstanding` is 0.
    pub fn is_closing(&self) -> bool { unimplemented!() }
}
