//! Bodies of responses. None of them holds more than a piece of what it will send.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{BoxError, pattern};
use crate::{connection::Waiting, rpc::Call};

/// Piece of a long body: large enough to be cheap, small enough to share the connection.
const PIECE: u64 = 128 << 10;
/// A slow body moves at most this often.
const TICK: Duration = Duration::from_millis(10);

/// The body of a response; `B` is the request's, given back by `/echo`.
pub(crate) enum Reply<B> {
    /// All of it, in one piece.
    Bytes(Bytes),
    /// The pattern from `sent` to `length`.
    Pattern { sent: u64, length: u64 },
    /// The pattern, slowly.
    Drip(Box<Drip>),
    /// What the client sends.
    Echo(B),
    /// What a service says, with trailers.
    Call(Call),
}

impl<B> Body for Reply<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Bytes(bytes) => {
                let all = std::mem::take(bytes);
                Poll::Ready(Some(Ok(Frame::data(all))))
            }
            Self::Pattern { sent, length } if sent == length => Poll::Ready(None),
            Self::Pattern { sent, length } => {
                let piece = pattern::piece(*sent, (*length - *sent).min(PIECE));
                *sent += piece.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Self::Drip(drip) => drip.poll(cx).map(|piece| Some(Ok(Frame::data(piece?)))),
            Self::Echo(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| Some(frame?.map_err(Into::into))),
            Self::Call(call) => Pin::new(call).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Pattern { sent, length } => sent == length,
            Self::Drip(drip) => drip.sent == drip.length,
            Self::Echo(body) => body.is_end_stream(),
            Self::Call(call) => call.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pattern { sent, length } => SizeHint::with_exact(length - sent),
            Self::Drip(drip) => SizeHint::with_exact(drip.length - drip.sent),
            Self::Echo(body) => body.size_hint(),
            Self::Call(call) => call.size_hint(),
        }
    }
}

/// A body that comes at a steady rate.
pub(crate) struct Drip {
    sent: u64,
    length: u64,
    ticks: u64,
    duration: Duration,
    /// When the head was ready; known at the first look.
    start: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    _waiting: Waiting,
}

impl Drip {
    /// `length` bytes over `duration`.
    pub(super) fn new(length: u64, duration: Duration, waiting: Waiting) -> Self {
        // At most ten minutes in ticks of 10 ms: far below 2^64.
        let ticks = (duration.as_millis() / TICK.as_millis()) as u64;
        Self {
            sent: 0,
            length,
            ticks: ticks.min(length).max(1),
            duration,
            start: None,
            sleep: None,
            _waiting: waiting,
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.sent == self.length {
            return Poll::Ready(None);
        }
        let now = Instant::now();
        let start = *self.start.get_or_insert(now);
        loop {
            // The tick is over at the end of its interval; the last one ends with the duration.
            let interval = self.duration.as_nanos() / u128::from(self.ticks);
            let elapsed = Instant::now().duration_since(start).as_nanos();
            let done = elapsed.checked_div(interval).unwrap_or(u128::MAX);
            let done = done.min(u128::from(self.ticks)) as u64;
            // `length` and `ticks` are below 2^31 and 2^17.
            let due = self.length * done / self.ticks;
            if due > self.sent {
                let piece = pattern::piece(self.sent, (due - self.sent).min(PIECE));
                self.sent += piece.len() as u64;
                return Poll::Ready(Some(piece));
            }
            // The tick that brings the next byte.
            let next = (self.sent + 1) * self.ticks;
            let next = next.div_ceil(self.length).max(done + 1);
            let at = start + Duration::from_nanos((interval * u128::from(next)) as u64);
            let sleep = match &mut self.sleep {
                Some(sleep) => {
                    sleep.as_mut().reset(at);
                    sleep
                }
                None => self.sleep.insert(Box::pin(sleep_until(at))),
            };
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
