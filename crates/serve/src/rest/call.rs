//! Calls of the services in this process: messages in gRPC's frames, as from anywhere else.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::future::poll_fn;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Frame};
use prost_reflect::DynamicMessage;
use tokio::{sync::mpsc, time::timeout};
use tonic::{Code, Status, body::Body};
use trilane_transcode::{Binding, Format};

use super::{
    Exchange,
    answer::{Answered, Content, Fields, Outcome, media_type, status},
    raw,
};
use crate::upstream;
pub(super) use crate::upstream::status_of;

/// The prefix of a message: a flag and a length.
const PREFIX: usize = 5;

/// A message that a caller streams, framed, or why there is none.
pub(super) type Sent = Result<Bytes, Status>;

/// Calls the method of a binding. Of the request's fields those go along that are metadata.
pub(super) async fn start(
    exchange: &Exchange,
    binding: &Binding,
    requests: Body,
) -> Result<Response<Body>, Status> {
    let metadata = upstream::of_rest(&exchange.head.headers);
    let response = invoke(exchange, binding.grpc_path(), metadata, requests).await?;
    match status_of(response.headers()) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(response),
    }
}

/// Calls the method that gRPC has at a path.
pub(super) async fn invoke(
    exchange: &Exchange,
    path: &str,
    metadata: HeaderMap,
    requests: Body,
) -> Result<Response<Body>, Status> {
    let mut request = Request::new(requests);
    *request.method_mut() = Method::POST;
    *request.uri_mut() =
        Uri::try_from(path).map_err(|_| Status::internal("the method's name is no path"))?;
    *request.headers_mut() = metadata;
    let caller = &exchange.connection.caller;
    let Ok(response) = exchange.gateway.rpc.call(caller, request).await;
    Ok(response)
}

/// A message in its frame.
pub(super) fn frame(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    // Content is bounded far below 4 GiB.
    framed.put_u32(message.len() as u32);
    framed.put_slice(message);
    framed.freeze()
}

/// The requests of a call with one.
pub(super) fn whole(message: &[u8]) -> Body {
    framed(frame(message))
}

/// The same, of a message in its frame.
pub(super) fn framed(message: Bytes) -> Body {
    Body::new(Full::new(message))
}

/// The requests of a call with many, of which one may wait.
pub(super) fn channel() -> (mpsc::Sender<Sent>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Body::new(Requests(receiver)))
}

struct Requests(mpsc::Receiver<Sent>);

impl HttpBody for Requests {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0
            .poll_recv(cx)
            .map(|sent| sent.map(|sent| sent.map(Frame::data)))
    }
}

/// The messages of a response.
pub(super) struct Messages {
    body: Body,
    /// What has arrived of messages that have not been taken.
    buffer: BytesMut,
    ended: bool,
    /// One that has been waited for, and not been taken.
    first: Option<Bytes>,
    trailers: HeaderMap,
    /// Most bytes of a message.
    most: usize,
}

impl Messages {
    pub(super) fn new(response: Response<Body>, most: usize) -> Self {
        Self {
            most,
            body: response.into_body(),
            buffer: BytesMut::new(),
            ended: false,
            first: None,
            trailers: HeaderMap::new(),
        }
    }

    /// Waits for the first message or the end, but not for ever: a stream may have nothing to say. A server sends its
    /// head before it knows how the call ends.
    ///
    /// # Errors
    /// How the call ended, where it ended without a message.
    pub(super) async fn begin(&mut self, patience: Duration) -> Result<(), Status> {
        if let Ok(first) = timeout(patience, self.next()).await {
            self.first = first?;
        }
        Ok(())
    }

    /// The next message; an error is the last thing that comes.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Status>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        loop {
            if let Some(message) = self.take()? {
                return Poll::Ready(Some(Ok(message)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()?;
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => self.buffer.extend_from_slice(&data),
                Some(Err(frame)) => {
                    self.trailers = frame.into_trailers().unwrap_or_default();
                    self.ended = true;
                    match status_of(&self.trailers) {
                        Some(status) if status.code() != Code::Ok => {
                            return Poll::Ready(Some(Err(status)));
                        }
                        _ => {}
                    }
                }
                None => self.ended = true,
            }
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        poll_fn(|cx| self.poll_next(cx)).await.transpose()
    }

    /// What came after the messages; nothing before their end.
    pub(super) fn trailers(&self) -> &HeaderMap {
        &self.trailers
    }

    /// A message that is complete.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        let Some((&[flag, ref length @ ..], _)) = self.buffer.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if flag != 0 {
            return Err(Status::internal(
                "the service's message is compressed, though nobody offered to read that",
            ));
        }
        if length > self.most {
            let most = self.most;
            return Err(Status::resource_exhausted(format!(
                "the service's message has {length} bytes, where {most} are the most"
            )));
        }
        if self.buffer.len() < PREFIX + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

/// The message of a response that has one.
pub(super) async fn one(response: Response<Body>, most: usize) -> Result<Bytes, Status> {
    one_of(&mut Messages::new(response, most)).await
}

/// The message of a response that has one, and its trailers.
pub(super) async fn one_of(messages: &mut Messages) -> Result<Bytes, Status> {
    let message = messages
        .next()
        .await?
        .ok_or_else(|| Status::internal("the service ended the call without a message"))?;
    // The status, which comes after the message.
    match messages.next().await? {
        None => Ok(message),
        Some(_) => Err(Status::internal("the service sent more than one message")),
    }
}

/// The metadata that came before a response's messages, as fields of a response of HTTP.
pub(super) fn metadata<B>(called: &Response<B>) -> Fields {
    upstream::to_rest(called.headers()).collect()
}

/// A response's message as content.
pub(super) fn content(binding: &Binding, message: Bytes, format: Format) -> Outcome {
    if binding.gives_raw() {
        return raw::content(binding, message);
    }
    let mut content = Vec::with_capacity(message.len() * 3);
    write(binding, &message, format, &mut content)?;
    Ok(Answered::new(
        media_type(format),
        Content::Bytes(content.into()),
    ))
}

/// Writes a response's message to the end of `out`.
pub(super) fn write(
    binding: &Binding,
    message: &[u8],
    format: Format,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    let message = DynamicMessage::decode(binding.method().output(), message)
        .map_err(|reason| Status::internal(format!("the service's message is none: {reason}")))?;
    binding.response(&message, format, out).map_err(status)
}
