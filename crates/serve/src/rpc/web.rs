//! gRPC-Web, by tonic-web: the same calls, with the trailers at the end of the content.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use http::{
    HeaderValue, Request, Response,
    header::{ACCEPT, CONTENT_TYPE},
};
use tonic::body::Body;
use tonic_web::GrpcWebLayer;
use tower_layer::Layer;
use tower_service::Service;

use super::{Calling, Patient, Rpc, THOUGHT};

/// tonic-web compares whole values, so parameters have to go.
const BINARY: HeaderValue = HeaderValue::from_static("application/grpc-web+proto");
const TEXT: HeaderValue = HeaderValue::from_static("application/grpc-web-text+proto");

impl Service<Request<Body>> for Rpc {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Calling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Calling {
        // Here the frames are those of gRPC.
        let scan = self.scan(request.uri().path());
        let request = match scan {
            None => request,
            Some(_) => {
                request.map(|body| Body::new(Patient::new(body, THOUGHT, false).scanned(scan)))
            }
        };
        Rpc::call(self, request)
    }
}

pub(super) fn call(rpc: &Rpc, mut request: Request<Body>) -> Calling {
    let fields = request.headers_mut();
    let is_text = |value: &HeaderValue| value.as_bytes().starts_with(b"application/grpc-web-text");
    let kind = match fields.get(CONTENT_TYPE).is_some_and(is_text) {
        true => TEXT,
        false => BINARY,
    };
    // Who accepts anything is answered in the form of the request.
    let accepted = match fields.get(ACCEPT) {
        Some(accept) if is_text(accept) => TEXT,
        Some(accept) if accept.as_bytes().starts_with(b"application/grpc-web") => BINARY,
        _ => kind.clone(),
    };
    fields.insert(CONTENT_TYPE, kind);
    fields.insert(ACCEPT, accepted);
    let calling = GrpcWebLayer::new().layer(rpc.clone()).call(request);
    Box::pin(calling)
}
