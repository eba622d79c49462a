//! The content of a request over TCP.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::{
    Error,
    body::{Body, Frame, Incoming, SizeHint},
};

use crate::connection::Reading;

/// As it comes; over HTTP/1 it says until when the connection is read for it.
pub(crate) struct Content {
    incoming: Incoming,
    reading: Option<Reading>,
}

impl Content {
    /// `reading` is made where there is something to read.
    pub(super) fn new(incoming: Incoming, reading: impl FnOnce() -> Option<Reading>) -> Self {
        let reading = match incoming.is_end_stream() {
            true => None,
            false => reading(),
        };
        Self { incoming, reading }
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = Pin::new(&mut self.incoming).poll_frame(cx);
        if self.reading.is_some()
            && (matches!(frame, Poll::Ready(None | Some(Err(_)))) || self.incoming.is_end_stream())
        {
            self.reading = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
