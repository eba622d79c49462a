//! How everything on a connection ends at once.

use super::exchange::Exchange;
use super::{Connection, QuicStreams};
use crate::{ErrorKind, Events, StreamError, Unprocessed};

impl Connection {
    /// The QUIC connection is lost: fails what is outstanding.
    pub fn eof<E: Events>(&mut self, events: &mut E) {
        self.closing = true;
        self.failed = true;
        let of_stream = |got_head| StreamError {
            kind: if got_head {
                ErrorKind::Body
            } else {
                ErrorKind::Closed
            },
            unprocessed: Unprocessed::Unknown,
            code: None,
            reason: if got_head {
                "the connection was lost inside a response"
            } else {
                "the connection was lost"
            },
        };
        self.fail_outstanding(of_stream, events);
    }

    /// The server has rejected the early data in which everything so far was sent, and QUIC has
    /// forgotten its streams (RFC 9001 §4.6.2): what is outstanding fails as not processed, and the
    /// connection begins anew.
    pub fn restart<E: Events>(&mut self, quic: &mut impl QuicStreams, events: &mut E) {
        let rejected = |_| StreamError {
            kind: ErrorKind::Closed,
            unprocessed: Unprocessed::Proved,
            code: None,
            reason: "the server rejected early data",
        };
        self.fail_outstanding(rejected, events);
        let fresh = Self::new(self.config, quic);
        *self = Self {
            sent_field_bytes: self.sent_field_bytes,
            content_taken: self.content_taken,
            ..fresh
        };
    }

    /// Fails every request, by whether its head has arrived.
    pub(super) fn fail_outstanding<E: Events>(
        &mut self,
        of_stream: impl Fn(bool) -> StreamError,
        events: &mut E,
    ) {
        for number in self.exchanges.numbers_from(0) {
            if let Some(exchange) = self.exchanges.get_mut(number).filter(|e| !e.has_ended()) {
                events.fail(Exchange::id(exchange), of_stream(exchange.got_head()));
            }
            self.exchanges.remove(number);
        }
        self.outstanding = 0;
    }
}
