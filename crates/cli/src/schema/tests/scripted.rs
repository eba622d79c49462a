//! Servers that answer as they are told.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::oneshot;

/// What a response consists of; it stays open where `ends` is not set.
#[derive(Default)]
pub(super) struct Content {
    pub(super) frames: VecDeque<Frame<Bytes>>,
    pub(super) ends: bool,
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

pub(super) fn answer(
    kind: &'static str,
    data: &[&[u8]],
    trailers: &[(&'static str, &str)],
) -> Response<Content> {
    let mut frames: VecDeque<_> = data
        .iter()
        .map(|piece| Frame::data(Bytes::copy_from_slice(piece)))
        .collect();
    let trailers: HeaderMap = trailers
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse::<HeaderValue>().unwrap()))
        .collect();
    if !trailers.is_empty() {
        frames.push_back(Frame::trailers(trailers));
    }
    Response::builder()
        .header("content-type", kind)
        .body(Content { frames, ends: true })
        .unwrap()
}

pub(super) fn status(code: u32) -> Response<Content> {
    answer(
        "application/grpc",
        &[],
        &[("grpc-status", &code.to_string())],
    )
}

pub(super) fn http(status: u16) -> Response<Content> {
    let mut response = answer("text/html", &[b"<html>"], &[]);
    *response.status_mut() = status.try_into().unwrap();
    response
}

/// A server over HTTP/2 without TLS that answers each request as told; not at all by `None`.
pub(super) struct Scripted {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Scripted {
    pub(super) fn start(
        script: impl Fn(Request<Incoming>) -> Option<Response<Content>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let script = Arc::new(script);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let serve = async {
                    while let Ok((stream, _)) = listener.accept().await {
                        let script = Arc::clone(&script);
                        let service = service_fn(move |request| {
                            let response = script(request);
                            async move {
                                match response {
                                    Some(response) => Ok::<_, Infallible>(response),
                                    None => std::future::pending().await,
                                }
                            }
                        });
                        tokio::spawn(
                            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                                .serve_connection(TokioIo::new(stream), service),
                        );
                    }
                };
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            address,
            _stop: stop,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A server that does `each` with every connection.
pub(super) fn raw(each: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            each(stream);
        }
    });
    url
}
