//! Streams of responses: a line of text for each message, an event, or binary with its length before it.

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
use prost::encoding::encode_varint;
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
    /// Binary Protocol Buffers, each behind its length as a varint; an error breaks the stream off.
    Delimited,
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
            let kind = kind.trim();
            let framing = match kind.to_ascii_lowercase().as_str() {
                "text/event-stream" | "text/*" => Self::Events,
                "application/x-ndjson" | "application/json" | "application/*" | "*/*" => {
                    Self::Lines
                }
                _ if Format::of_media_type(kind) == Some(Format::Protobuf) => Self::Delimited,
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
            Self::Delimited => Format::Protobuf.media_type(),
        })
    }

    /// Writes a message.
    fn message(self, binding: &Binding, message: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
        match self {
            Self::Lines => {
                call::write(binding, message, Format::Json, out)?;
                out.extend_from_slice(b"\n");
            }
            Self::Events => {
                out.extend_from_slice(b"data: ");
                call::write(binding, message, Format::Json, out)?;
                out.extend_from_slice(b"\n\n");
            }
            Self::Delimited => {
                let mut content = Vec::with_capacity(message.len());
                call::write(binding, message, Format::Protobuf, &mut content)?;
                encode_varint(content.len() as u64, out);
                out.extend_from_slice(&content);
            }
        }
        Ok(())
    }

    /// Writes what ends a stream; false where nothing can say it.
    fn error(self, services: &Services, status: &Status, out: &mut Vec<u8>) -> bool {
        let (before, after): (&[u8], &[u8]) = match self {
            Self::Lines => (b"{\"error\":", b"}\n"),
            Self::Events => (b"event: error\ndata: ", b"\n\n"),
            Self::Delimited => return false,
        };
        out.extend_from_slice(before);
        out.extend_from_slice(&error(services, status, Format::Json));
        out.extend_from_slice(after);
        true
    }

    /// What says nothing: a comment, or an empty line between two values of JSON. Binary has nothing like it.
    fn heartbeat(self) -> Option<Bytes> {
        match self {
            Self::Lines => Some(Bytes::from_static(b"\n")),
            Self::Events => Some(Bytes::from_static(b":\n\n")),
            Self::Delimited => None,
        }
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
    /// What breaks the stream off, behind what has been written.
    broken: Option<Status>,
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
            broken: None,
            heartbeat: None,
        }
    }

    fn poll_heartbeat(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let Some(nothing) = self.framing.heartbeat() else {
            return Poll::Pending;
        };
        let heartbeat = self
            .heartbeat
            .get_or_insert_with(|| Box::pin(sleep(HEARTBEAT)));
        if heartbeat.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
        Poll::Ready(nothing)
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
            let written =
                message.and_then(|message| this.framing.message(&this.binding, &message, &mut out));
            if let Err(status) = written {
                out.truncate(start);
                this.ended = true;
                if !this.framing.error(&this.services, &status, &mut out) {
                    this.broken = Some(status);
                }
            }
        }
        // The next wait begins anew.
        this.heartbeat = None;
        match this.broken.take_if(|_| out.is_empty()) {
            Some(status) => Poll::Ready(Some(Err(status))),
            None => piece(out),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.broken.is_none()
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
            (Some("application/x-protobuf"), Some(Framing::Delimited)),
            (Some("text/html"), None),
            (Some("text/event-stream;q=0"), None),
        ] {
            assert_eq!(Framing::accepted(accept), expected, "{accept:?}");
        }
    }
}
