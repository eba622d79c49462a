//! The content of an upstream's response.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, uri::Authority};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tonic::Status;

/// What comes, and `UNAVAILABLE` in the trailers where it breaks off: a caller of gRPC gets a status
/// then, as from any server.
pub(super) struct Carried {
    content: Incoming,
    from: Authority,
    is_over: bool,
}

impl Carried {
    pub(super) fn new(content: Incoming, from: Authority) -> Self {
        Self {
            content,
            from,
            is_over: false,
        }
    }
}

impl HttpBody for Carried {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let frame = match ready!(Pin::new(&mut self.content).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            None => {
                self.is_over = true;
                return Poll::Ready(None);
            }
            Some(Err(error)) => {
                self.is_over = true;
                let text = format!("{} broke off its answer: {error}", self.from);
                let mut trailers = HeaderMap::new();
                // Fails for a message that is no field value; tonic escapes what is none.
                let _ = Status::unavailable(text).add_header(&mut trailers);
                Frame::trailers(trailers)
            }
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}
