//! What is known of a connection over a byte stream.

use std::time::Instant;

use trilane_transport::tls;
use trilane_wire::h2;

use super::Stream;
use crate::Version;
use crate::codec::Codec;
use crate::phase::Phase;

/// Nothing more is read from a peer that leaves more than this unread, in bytes: every frame of
/// HTTP/2 may ask for an answer.
const WAITING_LIMIT: usize = 1 << 20;

impl Stream {
    /// How far the connection has come.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether requests may be sent before the handshake is done, in early data. Whoever sends them
    /// has to bear that they may be replayed (RFC 8470).
    #[inline]
    pub fn is_early(&self) -> bool {
        self.phase == Phase::Handshaking && self.codec.is_some()
    }

    /// When the present phase began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// When the present phase will have taken too long.
    pub fn deadline(&self) -> Option<Instant> {
        let timeout = self.config.phase_timeout?;
        (self.phase != Phase::Open).then(|| self.since + timeout)
    }

    /// The version that is spoken, once one is.
    pub fn version(&self) -> Option<Version> {
        self.codec.as_ref().map(Codec::version)
    }

    /// Whether the peer has shown that it speaks the version: with HTTP/2 it has sent SETTINGS.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Open && self.codec.as_ref().is_some_and(Codec::is_ready)
    }

    /// What TLS agreed on, once it has.
    pub fn tls_info(&self) -> Option<tls::Info> {
        self.tls.as_ref()?.info()
    }

    /// Whether the server may be about to send the first ticket for later connections.
    pub fn awaits_ticket(&self) -> bool {
        let session = self.tls.as_ref();
        session.is_some_and(|session| session.awaits_ticket())
    }

    /// The server's certificates in DER, its own first; empty without TLS.
    pub fn certificates(&self) -> Vec<Vec<u8>> {
        self.tls
            .as_ref()
            .map_or_else(Vec::new, |session| session.certificates())
    }

    /// Whether TLS is spoken.
    pub fn is_sealed(&self) -> bool {
        self.tls.is_some()
    }

    /// The HTTP/2 connection, where that is spoken.
    #[inline]
    pub fn h2(&self) -> Option<&h2::Connection> {
        match &self.codec {
            Some(Codec::H2(codec)) => Some(codec),
            _ => None,
        }
    }

    /// How many more requests [`Self::send`] takes now, as far as the version says.
    #[inline]
    pub fn capacity(&self) -> usize {
        match &self.codec {
            Some(codec) if self.takes_requests() => codec.capacity(),
            _ => 0,
        }
    }

    /// Whether the byte stream has ended in neither direction.
    #[inline]
    pub(super) fn is_intact(&self) -> bool {
        !self.broken && !self.ended
    }

    /// Whether a request may still be sent and answered: behind the peer's close_notify comes nothing,
    /// and ours has answered it.
    #[inline]
    pub(super) fn takes_requests(&self) -> bool {
        self.is_intact() && !self.peer_closed()
    }

    /// Requests sent and not yet ended.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.codec.as_ref().map_or(0, Codec::outstanding)
    }

    /// Whether the connection takes no more requests, now or later.
    pub fn is_closing(&self) -> bool {
        !self.takes_requests() || self.codec.as_ref().is_some_and(Codec::is_closing)
    }

    /// Whether the peer has ended its direction by close_notify. It may keep the socket open.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        let closed = tls::Session::peer_closed;
        self.tls.as_deref().is_some_and(closed) || self.proxy_session().is_some_and(closed)
    }

    /// Whether nothing more can happen: it takes no more requests, and none is outstanding.
    #[inline]
    pub fn is_finished(&self) -> bool {
        let done = |codec: &Codec| codec.is_closing() && codec.outstanding() == 0;
        self.codec.as_ref().is_some_and(done) || self.peer_closed()
    }

    /// Whether reading makes sense: what nobody takes is left in the socket.
    #[inline]
    pub fn may_read(&self) -> bool {
        !self.paused && self.gathered() <= WAITING_LIMIT
    }

    /// Whether [`Self::transmit`] has something, now.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.is_intact()
            && (self.gathered() > 0 || self.codec.as_ref().is_some_and(Codec::has_output))
    }

    /// Bytes that have been written and have not gone.
    #[inline]
    pub fn gathered(&self) -> usize {
        match &self.outer {
            None => self.queue.len() + self.plain.len(),
            // The rest waits for the end of the handshake.
            Some(outer) if outer.session.is_handshaking() => outer.queue.len(),
            Some(outer) => self.queue.len() + self.plain.len() + outer.queue.len(),
        }
    }

    /// Bytes of request content that have gone, behind TLS as those of records.
    #[inline]
    pub fn content_sent(&self) -> u64 {
        self.outgoing().content_sent()
    }
}
