//! What the handler and the keeper of a connection both need to know about it.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderName};

use crate::caller::Caller;

/// A peer that neither completes a request nor takes any of a response for this long is gone.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// A peer of HTTP/1.1 that has closed its direction is gone where nothing could be sent to it for this long: whether
/// it reads on, as one may (RFC 9112 section 9.6), only shows when something is sent.
pub(crate) const ABSENCE: Duration = Duration::from_secs(2);
/// How long the rest of a request's content may take that nobody wants any more.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// TLS and QUIC handshakes must be through by then.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest head of a request in bytes, as announced to HTTP/2 and HTTP/3 clients.
pub(crate) const MAX_HEAD: u32 = 64 << 10;

/// How long a name of a host, with its port, may be to be remembered.
const LONGEST_HOST: usize = 256;
/// RFC 8470 section 5.1.
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// One connection. Its counters are only ever touched by its own worker thread; they are atomic
/// because the runtime's tasks have to be `Send`.
pub(crate) struct Connection {
    pub(crate) caller: Caller,
    pub(crate) tls: Option<Tls>,
    /// Requests after which the peer is asked to leave.
    limit: Option<u64>,
    /// Whether the handshake is under way, and what comes may have been replayed; `None` where early
    /// data is not taken.
    early: Option<Arc<AtomicBool>>,
    /// How the first request named the host for which it was served: what names it so again need not be looked
    /// at again.
    served_as: OnceLock<Box<[u8]>>,
    requests: AtomicU64,
    /// Successful writes to the socket.
    writes: AtomicU64,
    /// Requests that are waiting in the handler.
    waiting: AtomicU32,
    /// It has one request at a time, and is not read while that is worked on: HTTP/1.
    is_serial: AtomicBool,
    /// The content of a request is being read (HTTP/1).
    is_reading: AtomicBool,
    has_switched: AtomicBool,
}

/// What the TLS handshake settled.
pub(crate) struct Tls {
    pub(crate) version: &'static str,
    /// The cipher suite; QUIC does not tell.
    pub(crate) cipher: Option<String>,
    pub(crate) alpn: Option<String>,
    pub(crate) server_name: Option<String>,
}

impl Connection {
    pub(crate) fn new(
        caller: Caller,
        tls: Option<Tls>,
        limit: Option<u64>,
        early: Option<Arc<AtomicBool>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            caller,
            tls,
            limit,
            early,
            served_as: OnceLock::new(),
            requests: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            is_serial: AtomicBool::new(false),
            is_reading: AtomicBool::new(false),
            has_switched: AtomicBool::new(false),
        })
    }

    /// Whether a request that is handled now may be a replay, by early data on this connection or, as
    /// `Early-Data` says, on one before it (RFC 8470 section 5.1).
    pub(crate) fn is_early(&self, fields: &HeaderMap) -> bool {
        self.early
            .as_ref()
            .is_some_and(|handshaking| handshaking.load(Relaxed) || fields.contains_key(EARLY_DATA))
    }

    /// Counts a request. True if it shall be the last on this connection.
    pub(crate) fn count_request(&self) -> bool {
        let before = self.requests.load(Relaxed);
        self.requests.store(before + 1, Relaxed);
        self.limit.is_some_and(|limit| before + 1 >= limit)
    }

    pub(crate) fn count_write(&self) {
        self.writes.store(self.writes.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn has_served(&self) -> bool {
        self.requests.load(Relaxed) > 0
    }

    /// The peer has had as many requests as it gets.
    pub(crate) fn is_spent(&self) -> bool {
        self.limit
            .is_some_and(|limit| self.requests.load(Relaxed) >= limit)
    }

    /// A number that changes when the connection gets anywhere.
    pub(crate) fn progress(&self) -> u64 {
        self.requests.load(Relaxed) + self.writes.load(Relaxed)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Whether a request that named the host so was in order, and served.
    pub(crate) fn has_served_as(&self, named: &[u8]) -> bool {
        self.served_as.get().is_some_and(|known| **known == *named)
    }

    /// A request that names the host so is in order, and served.
    pub(crate) fn serve_as(&self, named: &[u8]) {
        if named.len() <= LONGEST_HOST {
            self.served_as.get_or_init(|| named.into());
        }
    }

    /// It has one request at a time.
    pub(crate) fn serve_in_turn(&self) {
        self.is_serial.store(true, Relaxed);
    }

    /// Whether the peer waits for us and nobody reads from it, so that nobody notices when it leaves.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.is_waiting() && self.is_serial.load(Relaxed) && !self.is_reading.load(Relaxed)
    }

    /// Says that the content of a request is read until the guard is dropped.
    pub(crate) fn read(self: &Arc<Self>) -> Reading {
        self.is_reading.store(true, Relaxed);
        Reading(self.clone())
    }

    /// The connection is handed over to another protocol.
    pub(crate) fn switch(&self) {
        self.has_switched.store(true, Relaxed);
    }

    pub(crate) fn has_switched(&self) -> bool {
        self.has_switched.load(Relaxed)
    }

    /// Says that the peer waits for us until the guard is dropped.
    pub(crate) fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(self.clone())
    }
}

/// Guard of [`Connection::read`].
pub(crate) struct Reading(Arc<Connection>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.is_reading.store(false, Relaxed);
    }
}

/// Guard of [`Connection::wait`].
pub(crate) struct Waiting(Arc<Connection>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}
