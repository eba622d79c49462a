//! A tonic client's channel over one connection of any version that gRPC goes over.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures_util::future::poll_fn;
use http::{Request, Response, Uri};
use hyper::{
    body::{Body as _, Frame},
    client::conn::http2,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tonic::body::Body;

use crate::common::{Target, quic, tls};

/// Generated from the definition.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub(crate) mod proto {
    include!("../../generated/client/trilane.library.v1.rs");
}

pub(crate) type Library = proto::library_client::LibraryClient<Channel>;

/// The versions that carry trailers.
pub(crate) const WITH_TRAILERS: [&str; 3] = ["h2c", "h2", "h3"];

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type H3Requests = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

#[derive(Clone)]
pub(crate) enum Channel {
    H2(http2::SendRequest<Body>, String),
    /// The endpoint ends the connection when dropped.
    H3(H3Requests, String, #[allow(dead_code)] quinn::Endpoint),
}

impl Channel {
    pub(crate) async fn connect(target: &Target, version: &str) -> Self {
        Self::connect_with(target, version, |_| {}).await
    }

    /// With settings of HTTP/2.
    pub(crate) async fn connect_with(
        target: &Target,
        version: &str,
        set: impl FnOnce(&mut http2::Builder<TokioExecutor>),
    ) -> Self {
        let addresses = target.server.addresses();
        let secure = format!("https://localhost:{}", addresses.https.port());
        let mut builder = http2::Builder::new(TokioExecutor::new());
        set(&mut builder);
        match version {
            "h2c" => {
                let stream = TcpStream::connect(addresses.http).await.unwrap();
                // A call is more than one write.
                stream.set_nodelay(true).unwrap();
                let io = TokioIo::new(stream);
                let (requests, connection) = builder.handshake(io).await.unwrap();
                tokio::spawn(connection);
                Self::H2(
                    requests,
                    format!("http://localhost:{}", addresses.http.port()),
                )
            }
            "h2" => {
                let io = TokioIo::new(tls(target, addresses.https, b"h2").await);
                let (requests, connection) = builder.handshake(io).await.unwrap();
                tokio::spawn(connection);
                Self::H2(requests, secure)
            }
            "h3" => {
                let (endpoint, connection) = quic(target).await;
                let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(connection))
                    .await
                    .unwrap();
                tokio::spawn(async move {
                    let _ = poll_fn(|cx| driver.poll_close(cx)).await;
                });
                Self::H3(requests, secure, endpoint)
            }
            other => panic!("{other} has no trailers"),
        }
    }

    pub(crate) async fn library(target: &Target, version: &str) -> Library {
        Library::new(Self::connect(target, version).await)
    }

    pub(crate) async fn send(
        &mut self,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let path = request.uri().path_and_query().unwrap().clone();
        match self {
            Self::H2(requests, origin) => {
                *request.uri_mut() = format!("{origin}{path}").parse::<Uri>()?;
                requests.ready().await?;
                Ok(requests.send_request(request).await?.map(Body::new))
            }
            Self::H3(requests, origin, _) => {
                *request.uri_mut() = format!("{origin}{path}").parse::<Uri>()?;
                let (head, mut body) = request.into_parts();
                let stream = requests.send_request(Request::from_parts(head, ())).await?;
                let (mut sender, mut receiver) = stream.split();
                tokio::spawn(async move {
                    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                        let Ok(data) = frame?.into_data() else { break };
                        sender.send_data(data).await?;
                    }
                    sender.finish().await?;
                    Ok::<_, BoxError>(())
                });
                let head = receiver.recv_response().await?;
                Ok(head.map(|()| Body::new(H3Body(receiver))))
            }
        }
    }
}

impl tower_service::Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut channel = self.clone();
        Box::pin(async move { channel.send(request).await })
    }
}

struct H3Body(h3::client::RequestStream<h3_quinn::RecvStream, Bytes>);

impl hyper::body::Body for H3Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(mut data) = ready!(self.0.poll_recv_data(cx))? {
            let data = data.copy_to_bytes(data.remaining());
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let trailers = ready!(self.0.poll_recv_trailers(cx))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }
}
