//! The content of a request, which may have to be sent more than once.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use hyper::body::Body as HttpBody;
use tonic::{Status, body::Body};

use super::meter::Meter;

/// What is kept of a request in case that it has to be sent again, in bytes: what grpc-go keeps. A request
/// that has sent more is not repeated.
const KEPT: usize = 256 << 10;

/// The content of one request, for all attempts to send it.
pub(super) struct Content(Mutex<State>);

struct State {
    body: Body,
    meter: Option<Meter>,
    has_ended: bool,
    /// Why there is no more of it, where the caller broke off, or has sent too much.
    failure: Option<Status>,
    kept: VecDeque<Bytes>,
    /// How many pieces came before those that are kept.
    forgotten: usize,
    kept_bytes: usize,
    /// Whether pieces are kept: a server has not begun to answer, and there were not too many.
    keeps: bool,
}

/// The next that is to be sent.
enum Next {
    Data { data: Bytes, is_last: bool },
    Trailers(HeaderMap),
    End,
}

impl Content {
    /// Its messages have `limit` bytes at most, where there is one.
    pub(super) fn new(body: Body, limit: Option<u32>) -> Self {
        Self(Mutex::new(State {
            has_ended: body.is_end_stream(),
            body,
            meter: limit.map(Meter::new),
            failure: None,
            kept: VecDeque::new(),
            forgotten: 0,
            kept_bytes: 0,
            keeps: true,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state();
        state.has_ended && state.kept.is_empty() && state.forgotten == 0
    }

    /// Whether all of it can be sent from the start.
    pub(super) fn can_repeat(&self) -> bool {
        let state = self.state();
        state.keeps && state.failure.is_none()
    }

    /// It will not be sent again.
    pub(super) fn settle(&self) {
        self.state().keeps = false;
    }

    /// Why there is no more of it.
    pub(super) fn failure(&self) -> Option<Status> {
        self.state().failure.clone()
    }

    /// The piece with the number `at`, counted on.
    fn poll_next(&self, at: &mut usize, cx: &mut Context<'_>) -> Poll<Result<Next, Status>> {
        let mut state = self.state();
        if !state.keeps {
            while state.forgotten < *at && state.kept.pop_front().is_some() {
                state.forgotten += 1;
            }
        }
        if let Some(data) = state.kept.get(*at - state.forgotten).cloned() {
            *at += 1;
            let is_last = state.has_ended && *at == state.forgotten + state.kept.len();
            return Poll::Ready(Ok(Next::Data { data, is_last }));
        }
        if state.has_ended {
            return Poll::Ready(Ok(Next::End));
        }
        let frame = match Pin::new(&mut state.body).poll_frame(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(frame) => frame,
        };
        Poll::Ready(match frame {
            None => {
                state.has_ended = true;
                Ok(Next::End)
            }
            Some(Err(status)) => {
                state.failure = Some(status.clone());
                Err(status)
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    if let Some(Err(status)) = state.meter.as_mut().map(|meter| meter.pass(&data)) {
                        state.failure = Some(status.clone());
                        return Poll::Ready(Err(status));
                    }
                    state.has_ended = state.body.is_end_stream();
                    state.keep(&data);
                    *at += 1;
                    Ok(Next::Data {
                        data,
                        is_last: state.has_ended,
                    })
                }
                Err(frame) => {
                    state.has_ended = true;
                    // What comes behind the content is not kept.
                    state.keeps = false;
                    Ok(Next::Trailers(frame.into_trailers().unwrap_or_default()))
                }
            },
        })
    }
}

impl State {
    fn keep(&mut self, data: &Bytes) {
        self.kept_bytes += data.len();
        if self.keeps && self.kept_bytes <= KEPT {
            self.kept.push_back(data.clone());
        } else {
            self.keeps = false;
            self.forgotten += self.kept.len() + 1;
            self.kept.clear();
        }
    }
}

/// Sends a request's content on a stream, as fast as the peer's windows allow. Ends when all is sent, or
/// when the stream or the content has failed, which the response tells.
pub(super) struct Sending {
    stream: SendStream<Bytes>,
    content: Arc<Content>,
    at: usize,
    /// What the windows had no room for yet.
    left: Bytes,
    is_last: bool,
}

impl Sending {
    pub(super) fn new(stream: SendStream<Bytes>, content: Arc<Content>) -> Self {
        Self {
            stream,
            content,
            at: 0,
            left: Bytes::new(),
            is_last: false,
        }
    }

    /// Sends what is left; whether the stream can take more.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        while !self.left.is_empty() {
            let room = match self.stream.capacity() {
                0 => match ready!(self.stream.poll_capacity(cx)) {
                    Some(room) => room?,
                    // The stream has been reset.
                    None => return Poll::Ready(Err(Reason::CANCEL.into())),
                },
                room => room,
            };
            let piece = self.left.split_to(room.min(self.left.len()));
            let is_end = self.is_last && self.left.is_empty();
            self.stream.send_data(piece, is_end)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl Future for Sending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            if ready!(this.poll_left(cx)).is_err() || this.is_last {
                return Poll::Ready(());
            }
            match ready!(this.content.poll_next(&mut this.at, cx)) {
                Ok(Next::Data { data, is_last }) => {
                    this.is_last = is_last;
                    if data.is_empty() {
                        let _ = this.stream.send_data(data, is_last);
                        continue;
                    }
                    this.stream.reserve_capacity(data.len());
                    this.left = data;
                }
                // Each fails where the stream has ended, as the response does then.
                Ok(Next::Trailers(trailers)) => {
                    let _ = this.stream.send_trailers(trailers);
                    return Poll::Ready(());
                }
                Ok(Next::End) => {
                    let _ = this.stream.send_data(Bytes::new(), true);
                    return Poll::Ready(());
                }
                Err(_) => {
                    this.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{future::poll_fn, stream};
    use http_body_util::{BodyExt, Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn pieces(sizes: &[usize]) -> Content {
        let frames: Vec<_> = sizes
            .iter()
            .map(|size| Ok::<_, Status>(Frame::data(Bytes::from(vec![b'x'; *size]))))
            .collect();
        Content::new(Body::new(StreamBody::new(stream::iter(frames))), None)
    }

    /// The sizes of `count` pieces from the one with the number `at` on.
    async fn take(content: &Content, at: &mut usize, count: usize) -> Vec<usize> {
        let mut sizes = Vec::new();
        while sizes.len() < count {
            match poll_fn(|cx| content.poll_next(at, cx)).await.unwrap() {
                Next::Data { data, .. } => sizes.push(data.len()),
                Next::Trailers(_) => panic!("there are no trailers"),
                Next::End => break,
            }
        }
        sizes
    }

    #[tokio::test]
    async fn an_attempt_begins_with_what_another_has_taken() {
        let content = pieces(&[1, 2, 3]);
        assert_eq!(take(&content, &mut 0, 2).await, [1, 2]);
        assert!(content.can_repeat());
        let mut at = 0;
        assert_eq!(take(&content, &mut at, 1).await, [1]);
        // The server has begun to answer: nothing is kept, and nothing is lost.
        content.settle();
        assert!(!content.can_repeat());
        assert_eq!(take(&content, &mut at, 9).await, [2, 3]);
    }

    #[tokio::test]
    async fn what_is_too_long_is_not_kept() {
        let content = pieces(&[KEPT, 1, 1]);
        let mut at = 0;
        assert_eq!(take(&content, &mut at, 1).await, [KEPT]);
        assert!(content.can_repeat());
        assert_eq!(take(&content, &mut at, 1).await, [1]);
        assert!(!content.can_repeat());
        assert_eq!(take(&content, &mut at, 9).await, [1]);
    }

    #[tokio::test]
    async fn the_last_piece_is_known_as_such() {
        let body = Full::new(Bytes::from_static(b"all")).map_err(|never| match never {});
        let content = Content::new(Body::new(body), None);
        assert!(!content.is_empty());
        for _ in 0..2 {
            let next = poll_fn(|cx| content.poll_next(&mut 0, cx)).await.unwrap();
            assert!(matches!(next, Next::Data { is_last: true, .. }));
        }
        assert!(Content::new(Body::empty(), None).is_empty());
    }
}
