//! gRPC-Web, by tonic-web: the same calls, with the trailers at the end of the content.

use std::{
    convert::Infallible,
    sync::Arc,
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
use crate::connection::Connection;

/// tonic-web compares whole values, so parameters have to go.
const BINARY: HeaderValue = HeaderValue::from_static("application/grpc-web+proto");
const TEXT: HeaderValue = HeaderValue::from_static("application/grpc-web-text+proto");

/// The services behind calls in another format of messages than Protocol Buffers, such as `+json`.
#[derive(Clone)]
struct Inner {
    rpc: Rpc,
    connection: Arc<Connection>,
    /// What gRPC calls the content then; `None` for Protocol Buffers.
    kind: Option<HeaderValue>,
}

impl Service<Request<Body>> for Inner {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Calling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Calling {
        if let Some(kind) = &self.kind {
            request.headers_mut().insert(CONTENT_TYPE, kind.clone());
        }
        // Here the frames are those of gRPC.
        let scan = self.rpc.scan(request.uri().path());
        let request = match scan {
            None => request,
            Some(_) => {
                request.map(|body| Body::new(Patient::new(body, THOUGHT, false).scanned(scan)))
            }
        };
        self.rpc.call(&self.connection.caller, request)
    }
}

pub(super) fn call(rpc: &Rpc, connection: &Arc<Connection>, mut request: Request<Body>) -> Calling {
    let fields = request.headers_mut();
    let is_text = |value: &HeaderValue| value.as_bytes().starts_with(b"application/grpc-web-text");
    let other = fields.get(CONTENT_TYPE).and_then(other_format);
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
    let kind_with = |begin: &str| {
        let suffix = other.as_deref()?;
        HeaderValue::from_str(&format!("{begin}{suffix}")).ok()
    };
    let answered = [
        kind_with("application/grpc-web"),
        kind_with("application/grpc-web-text"),
    ];
    let inner = Inner {
        rpc: rpc.clone(),
        connection: connection.clone(),
        kind: kind_with("application/grpc"),
    };
    let calling = GrpcWebLayer::new().layer(inner).call(request);
    let [binary, text] = answered;
    Box::pin(async move {
        let mut response = calling.await?;
        let fields = response.headers_mut();
        // tonic-web says that messages are Protocol Buffers, whatever they are.
        let told = match fields.get(CONTENT_TYPE).is_some_and(is_text) {
            true => text,
            false => binary,
        };
        if let Some(kind) = told {
            fields.insert(CONTENT_TYPE, kind);
        }
        Ok(response)
    })
}

/// What a content type says of messages that are not Protocol Buffers, such as `+json`.
fn other_format(kind: &HeaderValue) -> Option<String> {
    let kind = kind.to_str().ok()?.split(';').next()?.trim_end();
    let (_, format) = kind.split_once('+')?;
    (format != "proto").then(|| format!("+{format}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_suffixes() {
        for (kind, expected) in [
            ("application/grpc-web", None),
            ("application/grpc-web+proto", None),
            ("application/grpc-web-text+proto; a=b", None),
            ("application/grpc-web+json", Some("+json")),
            ("application/grpc-web-text+json ; a=b", Some("+json")),
        ] {
            let found = other_format(&HeaderValue::from_static(kind));
            assert_eq!(found.as_deref(), expected, "{kind}");
        }
    }
}
