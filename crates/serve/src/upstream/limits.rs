//! How upstreams are called.

use std::time::Duration;

/// How upstreams are called: by each worker on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections to one server, of which each has the streams that the server allows
    /// (`SETTINGS_MAX_CONCURRENT_STREAMS`, RFC 9113 section 6.5.2). Default: 32.
    pub connections: usize,
    /// Calls that may wait for a stream to one server. Default: 1024.
    pub waiting: usize,
    /// Most bytes of a message, in either direction. Default: what the server and the caller allow.
    pub message: Option<u32>,
    /// Calls that one caller, by its address, may have under way at a time. Default: 1000.
    pub caller: usize,
    /// The time that a call has which brings no deadline (`grpc-timeout`) of its own, a stream as well. Default:
    /// five minutes for a call of one message each way, no end for streams.
    pub timeout: Option<Duration>,
    /// Whether servers are asked for their health (`grpc.health.v1.Health/Watch`), and those left out
    /// that do not serve. Default: no.
    pub health: bool,
}

/// The time that a call of one message each way has, where neither the caller nor [`Limits::timeout`] says another.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            waiting: 1024,
            caller: 1000,
            message: None,
            timeout: None,
            health: false,
        }
    }
}
