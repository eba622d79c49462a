//! Content as it is, in both directions: what a rule maps to a `google.api.HttpBody`.
//!
//! A stream of such messages is one content, whose pieces are their `data`.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderValue, header::CONTENT_TYPE};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use prost::Message;
use prost_reflect::DynamicMessage;
use tokio::sync::mpsc;
use tonic::{Status, body::Body};
use trilane_transcode::{Binding, Match, RawContent};

use super::{
    answer::{Answered, Content, Outcome, Refusal, status},
    call::{self, Messages, Sent},
    upload,
};
use crate::app::BoxError;

/// The most of an upload that one message holds, in bytes: far below what any server takes.
const PIECE: usize = 64 << 10;

/// Sends content to a call while it comes. The first message has what path and query hold, and the
/// type of the content; it is sent where there is no content, too.
pub(super) async fn send<B>(
    body: &mut B,
    sender: mpsc::Sender<Sent>,
    found: &Match,
    query: Option<&str>,
    content_type: &str,
) -> Result<(), Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let outcome = pass(body, &sender, found, query, content_type).await;
    if let Err(refusal) = &outcome {
        // Lest the service take what came for all there is. It may have ended already.
        let _ = sender.send(Err(refusal.status().clone())).await;
    }
    outcome
}

async fn pass<B>(
    body: &mut B,
    sender: &mpsc::Sender<Sent>,
    found: &Match,
    query: Option<&str>,
    content_type: &str,
) -> Result<(), Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut data = upload::piece(body).await?.unwrap_or_default();
    let start = data.split_to(data.len().min(PIECE));
    let mut message = found.raw(query, content_type, start)?;
    loop {
        let framed = call::frame(&message.encode_to_vec());
        if sender.send(Ok(framed)).await.is_err() {
            // The service has ended; its status is on the way.
            return Ok(());
        }
        while data.is_empty() {
            match upload::piece(body).await? {
                Some(next) => data = next,
                None => return Ok(()),
            }
        }
        message = found.raw_piece(data.split_to(data.len().min(PIECE)));
    }
}

/// The response of a call with one.
pub(super) fn content(binding: &Binding, message: Bytes) -> Outcome {
    let raw = read(binding, message)?;
    answered(&raw.content_type, Content::Bytes(raw.data))
}

/// The response of a call with a stream of them, once the first is there or there is none.
pub(super) async fn stream(mut messages: Messages, binding: Arc<Binding>) -> Outcome {
    let Some(first) = messages.next().await? else {
        return answered("", Content::Bytes(Bytes::new()));
    };
    let first = read(&binding, first)?;
    let pieces = Pieces {
        messages,
        binding,
        first: first.data,
        is_over: false,
    };
    answered(&first.content_type, Content::Stream(Body::new(pieces)))
}

/// A response whose type is what the service says; what says none has none (RFC 9110 section 8.3).
fn answered(content_type: &str, content: Content) -> Outcome {
    if content_type.is_empty() {
        return Ok(Answered::without_type(content));
    }
    match HeaderValue::from_str(content_type) {
        Ok(kind) => Ok(Answered::without_type(content).with(CONTENT_TYPE, kind)),
        Err(_) => {
            let shown: String = content_type.chars().take(80).collect();
            Err(Refusal::of(Status::internal(format!(
                "the service's content_type {shown:?} is no value of a field of HTTP"
            ))))
        }
    }
}

fn read(binding: &Binding, message: Bytes) -> Result<RawContent, Status> {
    let message = DynamicMessage::decode(binding.method().output(), message)
        .map_err(|reason| Status::internal(format!("the service's message is none: {reason}")))?;
    binding.raw_response(&message).map_err(status)
}

/// The body of such a response. An error breaks it off: whoever reads raw content has no other way to
/// tell it from the end.
struct Pieces {
    messages: Messages,
    binding: Arc<Binding>,
    first: Bytes,
    is_over: bool,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut data = std::mem::take(&mut self.first);
        while data.is_empty() {
            if self.is_over {
                return Poll::Ready(None);
            }
            let next = ready!(self.messages.poll_next(cx));
            let read = next.map(|message| read(&self.binding, message?));
            match read {
                None => self.is_over = true,
                Some(Ok(raw)) => data = raw.data,
                Some(Err(status)) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(status)));
                }
            }
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over && self.first.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
