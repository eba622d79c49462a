//! Clients of other people's making, one per version, behind one face.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::{Buf, Bytes};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trilane_serve::{Config, Server};

/// Every way in, by the project's names; `h1s` is HTTP/1.1 over TLS.
pub(crate) const VERSIONS: [&str; 5] = ["h1", "h1s", "h2c", "h2", "h3"];

/// A server on free ports, with a state folder of its own.
pub(crate) struct Target {
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
}

pub(crate) fn start() -> Target {
    start_with(|_| {})
}

pub(crate) fn start_with(change: impl FnOnce(&mut Config)) -> Target {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config {
        port: 0,
        tls_port: 0,
        state: Some(folder.path().to_owned()),
        ..Config::default()
    };
    change(&mut config);
    Target {
        server: Server::start(config).unwrap(),
        folder,
    }
}

/// Longer than any test takes: what ends before has not waited for it.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// Runs a test's client part on a runtime of its own; what takes longer than five minutes hangs.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            tokio::time::timeout(Duration::from_secs(300), work)
                .await
                .expect("a test hangs")
        })
}

/// One response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// One connection.
pub(crate) enum Client {
    H1(http1::SendRequest<Full<Bytes>>, String),
    H2(http2::SendRequest<Full<Bytes>>, String),
    H3 {
        requests: h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>,
        authority: String,
        /// Ends the connection when dropped.
        _endpoint: quinn::Endpoint,
    },
}

impl Client {
    pub(crate) async fn connect(target: &Target, version: &str) -> Self {
        let addresses = target.server.addresses();
        let secure = !matches!(version, "h1" | "h2c");
        let address = if secure {
            addresses.https
        } else {
            addresses.http
        };
        let scheme = if secure { "https" } else { "http" };
        let origin = format!("{scheme}://localhost:{}", address.port());
        match version {
            "h1" => Self::h1(TcpStream::connect(address).await.unwrap(), origin).await,
            "h1s" => Self::h1(tls(target, address, b"http/1.1").await, origin).await,
            "h2c" => Self::h2(TcpStream::connect(address).await.unwrap(), origin).await,
            "h2" => Self::h2(tls(target, address, b"h2").await, origin).await,
            "h3" => {
                let (endpoint, connection) = quic(target).await;
                let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(connection))
                    .await
                    .unwrap();
                tokio::spawn(async move {
                    let _ = std::future::poll_fn(|cx| driver.poll_close(cx)).await;
                });
                Self::H3 {
                    requests,
                    authority: origin,
                    _endpoint: endpoint,
                }
            }
            other => panic!("no version {other}"),
        }
    }

    async fn h1<I>(io: I, origin: String) -> Self
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, connection) = http1::handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection);
        Self::H1(requests, origin)
    }

    async fn h2<I>(io: I, origin: String) -> Self
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self::H2(requests, origin)
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(Request::get(path), "").await
    }

    pub(crate) async fn send(
        &mut self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Answer {
        self.try_send(request, body).await.unwrap()
    }

    /// The status of a response whose body is not waited for.
    pub(crate) async fn status(&mut self, path: &str) -> StatusCode {
        let get = |origin: &str| Request::get(format!("{origin}{path}"));
        let empty = Full::new(Bytes::new());
        match self {
            Self::H1(requests, _) => {
                let request = Request::get(path)
                    .header("host", "localhost")
                    .body(empty)
                    .unwrap();
                requests.send_request(request).await.unwrap().status()
            }
            Self::H2(requests, origin) => {
                let request = get(origin).body(empty).unwrap();
                requests.send_request(request).await.unwrap().status()
            }
            Self::H3 {
                requests,
                authority,
                ..
            } => {
                let request = get(authority).body(()).unwrap();
                let mut stream = requests.send_request(request).await.unwrap();
                stream.finish().await.unwrap();
                stream.recv_response().await.unwrap().status()
            }
        }
    }

    /// Sends to a path; the authority is filled in as the version wants it.
    pub(crate) async fn try_send(
        &mut self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let body = body.into();
        let mut request = request.body(body.clone()).unwrap();
        let path = request.uri().path_and_query().unwrap().clone();
        match self {
            Self::H1(requests, origin) => {
                let host = origin.split("://").nth(1).unwrap().parse().unwrap();
                request.headers_mut().insert("host", host);
                requests.ready().await?;
                collect(requests.send_request(request.map(Full::new)).await?).await
            }
            Self::H2(requests, origin) => {
                *request.uri_mut() = format!("{origin}{path}").parse().unwrap();
                requests.ready().await?;
                collect(requests.send_request(request.map(Full::new)).await?).await
            }
            Self::H3 {
                requests,
                authority,
                ..
            } => {
                *request.uri_mut() = format!("{authority}{path}").parse().unwrap();
                let mut stream = requests.send_request(request.map(|_| ())).await?;
                if !body.is_empty() {
                    stream.send_data(body).await?;
                }
                stream.finish().await?;
                let head = stream.recv_response().await?;
                let mut body = Vec::new();
                while let Some(mut piece) = stream.recv_data().await? {
                    body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
                }
                Ok(Answer {
                    status: head.status(),
                    fields: head.headers().clone(),
                    body: body.into(),
                })
            }
        }
    }
}

async fn collect(
    response: Response<hyper::body::Incoming>,
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let (head, body) = response.into_parts();
    Ok(Answer {
        status: head.status,
        fields: head.headers,
        body: body.collect().await?.to_bytes(),
    })
}

/// Trusts the target's authority and nobody else. Offers one protocol, or none.
pub(crate) fn trust(target: &Target, alpn: &[u8]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let authority = target.server.ca_path().unwrap();
    roots
        .add(CertificateDer::from_pem_file(authority).unwrap())
        .unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    if !alpn.is_empty() {
        config.alpn_protocols = vec![alpn.to_vec()];
    }
    config
}

pub(crate) async fn tls(
    target: &Target,
    address: SocketAddr,
    alpn: &[u8],
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = TlsConnector::from(Arc::new(trust(target, alpn)))
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
        .unwrap();
    let spoken = stream.get_ref().1.alpn_protocol();
    assert_eq!(spoken.unwrap_or_default(), alpn);
    stream
}

pub(crate) async fn quic(target: &Target) -> (quinn::Endpoint, quinn::Connection) {
    quic_by(target, target.server.addresses().https).await
}

/// Through whatever is at the address.
pub(crate) async fn quic_by(
    target: &Target,
    address: SocketAddr,
) -> (quinn::Endpoint, quinn::Connection) {
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(trust(target, b"h3")).unwrap();
    let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let connection = endpoint
        .connect_with(
            quinn::ClientConfig::new(Arc::new(crypto)),
            address,
            "localhost",
        )
        .unwrap()
        .await
        .unwrap();
    (endpoint, connection)
}

/// Runs a check with a fresh server and connection of every version.
macro_rules! over_every_version {
    ($($name:ident($client:ident, $version:ident) $body:block)*) => {$(
        #[test]
        fn $name() {
            for $version in $crate::common::VERSIONS {
                let target = $crate::common::start();
                $crate::common::run(async {
                    let mut $client = $crate::common::Client::connect(&target, $version).await;
                    $body
                });
            }
        }
    )*};
}

pub(crate) use over_every_version;
