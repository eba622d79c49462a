//! TLS with a proxy, under everything else that a connection does.

use std::time::Instant;

use trilane_transport::tls;
use trilane_wire::Events;

use super::{Stream, sealing};
use crate::phase::{Over, Progress, TlsConfig};
use crate::queue::SendQueue;

/// What goes through the proxy's TLS.
#[derive(Debug)]
pub(super) struct Outer {
    pub(super) session: tls::Session,
    /// What goes to the proxy.
    pub(super) queue: SendQueue,
}

impl Outer {
    /// Begins the handshake.
    pub(super) fn new(
        TlsConfig {
            config,
            server_name,
        }: &TlsConfig,
    ) -> Result<Self, tls::Error> {
        let mut session = tls::Session::new(config, server_name)?;
        let mut queue = SendQueue::default();
        session.start(queue.tail())?;
        Ok(Self { session, queue })
    }

    /// Moves what waits in `queue` through TLS, once that has shaken hands.
    pub(super) fn seal(&mut self, queue: &mut SendQueue) -> Result<(), Over> {
        if self.session.is_handshaking() {
            return Ok(());
        }
        sealing::move_through(&mut self.session, queue, &mut self.queue)
    }
}

impl Stream {
    /// As [`Stream::receive`], from a proxy that speaks TLS.
    pub(super) fn receive_through<E: Events>(
        &mut self,
        now: Instant,
        bytes: &mut [u8],
        events: &mut E,
    ) -> Result<Progress, Over> {
        let Some(outer) = &mut self.outer else {
            return self.receive_inner(now, bytes, events);
        };
        let mut plaintext = Vec::new();
        let opened = outer.session.receive(
            bytes,
            |piece| plaintext.extend_from_slice(piece),
            outer.queue.tail(),
        );
        // What came before an error counts.
        let progress = match &mut plaintext[..] {
            [] => Ok(Progress::Same),
            plaintext => self.receive_inner(now, plaintext, events),
        };
        opened.map_err(Over::Tls)?;
        progress
    }

    /// Moves what goes to the origin through the proxy's TLS, where there is one.
    pub(super) fn seal_outer(&mut self) -> Result<(), Over> {
        match &mut self.outer {
            Some(outer) => outer.seal(&mut self.queue),
            None => Ok(()),
        }
    }

    /// TLS with the proxy, where it is spoken.
    #[inline]
    pub(super) fn proxy_session(&self) -> Option<&tls::Session> {
        self.outer.as_ref().map(|outer| &outer.session)
    }

    /// What goes to the socket.
    #[inline]
    pub(super) fn outgoing(&self) -> &SendQueue {
        match &self.outer {
            None => &self.queue,
            Some(outer) => &outer.queue,
        }
    }
}
