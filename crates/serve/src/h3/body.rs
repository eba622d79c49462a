//! The body of an HTTP/3 request.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use h3::server::RequestStream;
use http::{HeaderMap, header::CONTENT_LENGTH};
use hyper::body::{Frame, SizeHint};

use super::quic::RecvStream;
use crate::app::BoxError;

/// Content as it arrives; nothing is read before it is asked for.
pub(crate) enum Body {
    /// The stream ended with the head.
    Ended,
    /// There is more to come.
    Open {
        /// What had arrived already.
        first: Option<Bytes>,
        /// What `content-length` leaves to come.
        left: Option<u64>,
        stream: Box<RequestStream<RecvStream, Bytes>>,
    },
}

impl Body {
    pub(super) fn new(
        first: Option<Bytes>,
        length: Option<u64>,
        stream: RequestStream<RecvStream, Bytes>,
    ) -> Self {
        Self::Open {
            first,
            left: length,
            stream: Box::new(stream),
        }
    }
}

/// RFC 9110 section 8.6.
pub(super) fn declared_length(fields: &HeaderMap) -> Option<u64> {
    fields.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self::Open {
            first,
            left,
            stream,
        } = &mut *self
        else {
            return Poll::Ready(None);
        };
        let piece = match first.take() {
            Some(piece) => Some(piece),
            None => match stream.poll_recv_data(cx) {
                Poll::Ready(Ok(piece)) => {
                    piece.map(|mut piece| piece.copy_to_bytes(piece.remaining()))
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Pending => return Poll::Pending,
            },
        };
        // RFC 9114 section 4.1.2: content that is not as long as declared is malformed.
        let arrived = piece.as_ref().map_or(0, |piece| piece.len() as u64);
        let malformed = match left {
            Some(left) if piece.is_none() => *left > 0,
            Some(left) if *left < arrived => true,
            Some(left) => {
                *left -= arrived;
                false
            }
            None => false,
        };
        if malformed {
            return Poll::Ready(Some(
                Err("content-length does not match the content".into()),
            ));
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ended => SizeHint::with_exact(0),
            Self::Open {
                left: Some(left), ..
            } => SizeHint::with_exact(*left),
            Self::Open { left: None, .. } => SizeHint::default(),
        }
    }
}
