//! The content of a server's response.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;

use super::{call::code_of, meter::Meter, pool::Slot};
use crate::caller::Place;

/// What comes, and a status in the trailers where it breaks off: a caller of gRPC gets one then, as from
/// any server.
///
/// Dropped before its end, it resets the stream (CANCEL), so that the server need not go on.
pub(super) struct Answer {
    stream: RecvStream,
    /// What still sends the request's content; ends with the response.
    sending: Option<AbortOnDropHandle<()>>,
    /// The call's place on its connection, and its caller's; empty once the response is over.
    slot: Option<(Slot, Option<Place>)>,
    meter: Option<Meter>,
    is_over: bool,
}

impl Answer {
    pub(super) fn new(
        stream: RecvStream,
        sending: Option<AbortOnDropHandle<()>>,
        slot: (Slot, Option<Place>),
        limit: Option<u32>,
    ) -> Self {
        Self {
            stream,
            sending,
            slot: Some(slot),
            meter: limit.map(Meter::new),
            is_over: false,
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.sending = None;
        self.slot = None;
    }

    fn broken(&mut self, error: &h2::Error) -> Frame<Bytes> {
        let from = self
            .slot
            .as_ref()
            .map(|(slot, _)| slot.label())
            .unwrap_or_default();
        let text = format!("{from} broke off its answer: {error}");
        self.ended_with(&Status::new(code_of(error), text))
    }

    fn ended_with(&mut self, status: &Status) -> Frame<Bytes> {
        self.end();
        let mut trailers = HeaderMap::new();
        // Fails for a message that is no field value; tonic escapes what is none.
        let _ = status.add_header(&mut trailers);
        Frame::trailers(trailers)
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        match ready!(self.stream.poll_data(cx)) {
            Some(Ok(data)) => {
                // Whoever asks for more has taken what came before. Fails on streams that have ended.
                let _ = self.stream.flow_control().release_capacity(data.len());
                if let Some(Err(status)) = self.meter.as_mut().map(|meter| meter.pass(&data)) {
                    return Poll::Ready(Some(Ok(self.ended_with(&status))));
                }
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            Some(Err(error)) => return Poll::Ready(Some(Ok(self.broken(&error)))),
            None => {}
        }
        let frame = match ready!(self.stream.poll_trailers(cx)) {
            Ok(Some(trailers)) => Frame::trailers(trailers),
            Ok(None) => {
                self.end();
                return Poll::Ready(None);
            }
            Err(error) => self.broken(&error),
        };
        self.end();
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
