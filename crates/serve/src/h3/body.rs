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
    /// All of it has arrived, in one piece.
    Whole(Bytes),
    /// There is more to come.
    Open {
        /// What had arrived already.
        arrived: [Option<Bytes>; 2],
        /// What `content-length` leaves to come.
        left: Option<u64>,
        stream: Box<RequestStream<RecvStream, Bytes>>,
    },
}

impl Body {
    pub(super) fn new(
        arrived: [Option<Bytes>; 2],
        length: Option<u64>,
        stream: RequestStream<RecvStream, Bytes>,
    ) -> Self {
        Self::Open {
            arrived,
            left: length,
            stream: Box::new(stream),
        }
    }
}

/// RFC 9110 section 8.6.
pub(super) fn declared_length(fields: &HeaderMap) -> Option<u64> {
    fields.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// RFC 9114 section 4.1.2, for content that has arrived whole.
pub(super) fn is_as_long_as_declared(body: &Body, fields: &HeaderMap) -> bool {
    use hyper::body::Body as _;
    declared_length(fields).is_none_or(|length| body.size_hint().exact() == Some(length))
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let (arrived, left, stream) = match &mut *self {
            Self::Ended => return Poll::Ready(None),
            Self::Whole(all) => {
                let all = std::mem::take(all);
                *self = Self::Ended;
                return Poll::Ready(Some(Ok(Frame::data(all))));
            }
            Self::Open {
                arrived,
                left,
                stream,
            } => (arrived, left, stream),
        };
        let piece = match arrived.iter_mut().find_map(Option::take) {
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
            Self::Whole(all) => SizeHint::with_exact(all.len() as u64),
            Self::Open {
                left: Some(left), ..
            } => SizeHint::with_exact(*left),
            Self::Open { left: None, .. } => SizeHint::default(),
        }
    }
}
