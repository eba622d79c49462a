//! One attempt to have a server answer a call.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream, client::ResponseFuture};
use http::{
    HeaderMap, Method, Request, Response, StatusCode, Uri, Version, header::CONTENT_TYPE,
    uri::PathAndQuery,
};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Code, Status, body::Body};

use super::{
    answer::Answer,
    content::{Content, Sending},
    dial::Dial,
    fields,
    pool::{Server, Slot},
};
use crate::caller::Place;

/// How many connections of a server may turn out to end before another server is tried.
const CONNECTIONS: usize = 3;

/// The head of a request, for all attempts to send it.
pub(super) struct Head {
    path: PathAndQuery,
    fields: HeaderMap,
}

/// Why an attempt has not led to an answer.
pub(super) enum Failure {
    /// There is no connection to the server.
    Unconnected(Status),
    /// The server has not processed the request: it was not sent, or the server says so.
    Unprocessed(Status),
    /// The server may have processed it.
    Lost(Status),
}

impl Head {
    /// Fields are those of a call already.
    pub(super) fn new(uri: Uri, fields: HeaderMap) -> Result<Self, Status> {
        let path = PathAndQuery::try_from(uri.path())
            .map_err(|_| Status::internal("the method's name is no path"))?;
        Ok(Self { path, fields })
    }

    fn request(&self, dial: &Dial) -> Result<Request<()>, Status> {
        let uri = Uri::builder()
            .scheme(dial.scheme.clone())
            .authority(dial.authority.clone())
            .path_and_query(self.path.clone())
            .build()
            .map_err(|_| Status::internal("the method's name is no path"))?;
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.fields.clone();
        Ok(request)
    }
}

impl Failure {
    pub(super) fn into_status(self) -> Status {
        match self {
            Self::Unconnected(status) | Self::Unprocessed(status) | Self::Lost(status) => status,
        }
    }
}

impl Server {
    /// Sends a request, and returns the response when its head has come and is one of gRPC. That keeps the place of
    /// the caller, if there is one.
    pub(super) async fn call(
        self: &Arc<Self>,
        head: &Head,
        content: &Arc<Content>,
        place: &mut Option<Place>,
    ) -> Result<Response<Body>, Failure> {
        let is_bare = content.is_empty();
        let (slot, response, stream) = self.open(head, is_bare).await?;
        let sending = match is_bare {
            true => None,
            false => send(Sending::new(stream, content.clone())).await,
        };
        let response = match response.await {
            Ok(response) => response,
            Err(error) => {
                drop(sending);
                if let Some(status) = content.failure() {
                    return Err(Failure::Lost(status));
                }
                if error.is_go_away() {
                    slot.retire();
                }
                let status = self.lost(&error);
                return Err(match is_unprocessed(&error) {
                    true => Failure::Unprocessed(status),
                    false => Failure::Lost(status),
                });
            }
        };
        content.settle();
        let held = (slot, place.take());
        self.answer(response, sending, held).map_err(Failure::Lost)
    }

    /// Sends the head of a request, on a connection that takes it.
    async fn open(
        self: &Arc<Self>,
        head: &Head,
        is_bare: bool,
    ) -> Result<(Slot, ResponseFuture, SendStream<Bytes>), Failure> {
        let mut ended = 0;
        loop {
            let slot = self.place().await.map_err(Failure::Unconnected)?;
            let request = head.request(&self.dial).map_err(Failure::Lost)?;
            let error = match slot.sender().send_request(request, is_bare) {
                Ok((response, stream)) => return Ok((slot, response, stream)),
                Err(error) => error,
            };
            let status = self.lost(&error);
            if !error.is_go_away() && !error.is_io() {
                return Err(Failure::Lost(status));
            }
            // The connection ends, and has taken nothing of the request.
            slot.retire();
            ended += 1;
            if ended == CONNECTIONS {
                return Err(Failure::Unprocessed(status));
            }
        }
    }

    /// The response, where it is one of gRPC.
    fn answer(
        &self,
        response: Response<RecvStream>,
        sending: Option<AbortOnDropHandle<()>>,
        held: (Slot, Option<Place>),
    ) -> Result<Response<Body>, Status> {
        let status = response.status();
        if status != StatusCode::OK {
            let code = trilane_grpc::status::of_http(status.as_u16());
            let text = format!("{} answers with HTTP status {status}", self.label());
            return Err(Status::new(Code::from(code as i32), text));
        }
        let kind = response.headers().get(CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
            return Err(Status::unknown(format!(
                "{} answers with something else than gRPC: its content-type is not application/grpc",
                self.label()
            )));
        }
        let (mut head, stream) = response.into_parts();
        fields::of_response(&mut head.headers);
        let body = Body::new(Answer::new(stream, sending, held, self.limits.message));
        Ok(Response::from_parts(head, body))
    }

    fn lost(&self, error: &h2::Error) -> Status {
        let text = format!("{} did not answer: {error}", self.label());
        Status::new(code_of(error), text)
    }
}

/// Sends what can be sent at once, and the rest in a task of its own.
async fn send(mut sending: Sending) -> Option<AbortOnDropHandle<()>> {
    let begun = poll_fn(|cx| Poll::Ready(Pin::new(&mut sending).poll(cx))).await;
    begun
        .is_pending()
        .then(|| AbortOnDropHandle::new(tokio::spawn(sending)))
}

/// Whether an error proves that the server has not processed a request: it has refused the stream (RFC
/// 9113 section 8.7), or has said that it looks at none from that one on (section 6.8).
fn is_unprocessed(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    // Of the streams of a connection that ends, h2 has the server's GOAWAY fail those alone which are
    // beyond its last.
    error.is_remote() && (is_refused || error.is_go_away())
}

/// The code for a stream that has failed: "Errors" in gRPC over HTTP2.
pub(super) fn code_of(error: &h2::Error) -> Code {
    match error.reason().filter(|_| error.is_reset()) {
        None | Some(Reason::REFUSED_STREAM) => Code::Unavailable,
        Some(Reason::CANCEL) => Code::Cancelled,
        Some(Reason::ENHANCE_YOUR_CALM) => Code::ResourceExhausted,
        Some(Reason::INADEQUATE_SECURITY) => Code::PermissionDenied,
        Some(_) => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proof_is_proof() {
        // What this side says or finds out proves nothing.
        for reason in [Reason::REFUSED_STREAM, Reason::NO_ERROR, Reason::CANCEL] {
            assert!(!is_unprocessed(&h2::Error::from(reason)));
        }
    }
}
