//! Streams of responses as text: a line for each message, or an event.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderValue;
use hyper::body::{Body as HttpBody, Frame};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use trilane_transcode::{Binding, Format};

use super::{
    answer::error,
    call::{self, Messages},
};
use crate::services::Services;

/// A stream that has nothing to say says so this often: who has left is only found out by writing.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);
/// Messages that are ready together leave together, up to this many bytes.
pub(super) const PIECE: usize = 32 << 10;

/// How messages are told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Framing {
    /// Newline-delimited JSON; an error is an object with the field `error`.
    Lines,
    /// Server-sent events (HTML Standard section 9.2); an error is an event of type `error`.
    Events,
}

impl Framing {
    /// What an `accept` field likes best: lines where it does not say.
    pub(super) fn accepted(accept: Option<&str>) -> Option<Self> {
        let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
            return Some(Self::Lines);
        };
        let mut best: Option<(f32, Self)> = None;
        for range in accept.split(',') {
            let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
            let framing = match kind.trim().to_ascii_lowercase().as_str() {
                "text/event-stream" | "text/*" => Self::Events,
                "application/x-ndjson" | "application/json" | "application/*" | "*/*" => {
                    Self::Lines
                }
                _ => continue,
            };
            let weight = weight(parameters);
            if weight > best.map_or(0.0, |(weight, _)| weight) {
                best = Some((weight, framing));
            }
        }
        best.map(|(_, framing)| framing)
    }

    pub(super) fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Lines => "application/x-ndjson",
            Self::Events => "text/event-stream",
        })
    }

    fn begin(self, out: &mut Vec<u8>) {
        if self == Self::Events {
            out.extend_from_slice(b"data: ");
        }
    }

    fn end(self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Self::Lines => b"\n",
            Self::Events => b"\n\n",
        });
    }

    fn error(self, services: &Services, status: &Status, out: &mut Vec<u8>) {
        let content = error(services, status, Format::Json);
        let (before, after): (&[u8], &[u8]) = match self {
            Self::Lines => (b"{\"error\":", b"}\n"),
            Self::Events => (b"event: error\ndata: ", b"\n\n"),
        };
        out.extend_from_slice(before);
        out.extend_from_slice(&content);
        out.extend_from_slice(after);
    }

    /// What says nothing: a comment, or an empty line between two values of JSON.
    fn heartbeat(self) -> Bytes {
        Bytes::from_static(match self {
            Self::Lines => b"\n",
            Self::Events => b":\n\n",
        })
    }
}

/// What leaves of a stream; nothing is its end.
pub(super) fn piece(out: Vec<u8>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
    Poll::Ready((!out.is_empty()).then(|| Ok(Frame::data(out.into()))))
}

/// RFC 9110 section 12.4.2; what is no weight counts as 0.
fn weight(parameters: &str) -> f32 {
    let weight = parameters
        .split(';')
        .find_map(|parameter| parameter.trim().strip_prefix("q="));
    weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0))
}

/// The body of such a response.
pub(super) struct Lines {
    messages: Messages,
    binding: Arc<Binding>,
    services: Arc<Services>,
    framing: Framing,
    ended: bool,
    /// Made when there is something to wait for.
    heartbeat: Option<Pin<Box<Sleep>>>,
}

impl Lines {
    pub(super) fn new(
        messages: Messages,
        binding: Arc<Binding>,
        services: Arc<Services>,
        framing: Framing,
    ) -> Self {
        Self {
            messages,
            binding,
            services,
            framing,
            ended: false,
            heartbeat: None,
        }
    }

    fn poll_heartbeat(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let heartbeat = self
            .heartbeat
            .get_or_insert_with(|| Box::pin(sleep(HEARTBEAT)));
        if heartbeat.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
        Poll::Ready(self.framing.heartbeat())
    }
}

impl HttpBody for Lines {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut out = Vec::new();
        let this = &mut *self;
        while !this.ended && out.len() < PIECE {
            let message = match this.messages.poll_next(cx) {
                Poll::Ready(message) => message,
                Poll::Pending if out.is_empty() => {
                    return this
                        .poll_heartbeat(cx)
                        .map(|heartbeat| Some(Ok(Frame::data(heartbeat))));
                }
                Poll::Pending => break,
            };
            let Some(message) = message else {
                this.ended = true;
                break;
            };
            let start = out.len();
            let written = message.and_then(|message| {
                this.framing.begin(&mut out);
                call::write(&this.binding, &message, Format::Json, &mut out)
            });
            match written {
                Ok(()) => this.framing.end(&mut out),
                Err(status) => {
                    out.truncate(start);
                    this.framing.error(&this.services, &status, &mut out);
                    this.ended = true;
                }
            }
        }
        // The next wait begins anew.
        this.heartbeat = None;
        piece(out)
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_framing_is_negotiated() {
        for (accept, expected) in [
            (None, Some(Framing::Lines)),
            (Some(""), Some(Framing::Lines)),
            (Some("*/*"), Some(Framing::Lines)),
            (Some("text/event-stream"), Some(Framing::Events)),
            (Some("TEXT/EVENT-STREAM, */*;q=0.1"), Some(Framing::Events)),
            (
                Some("text/event-stream;q=0.5, application/x-ndjson"),
                Some(Framing::Lines),
            ),
            (Some("application/json"), Some(Framing::Lines)),
            (Some("text/html"), None),
            (Some("text/event-stream;q=0"), None),
        ] {
            assert_eq!(Framing::accepted(accept), expected, "{accept:?}");
        }
    }
}
