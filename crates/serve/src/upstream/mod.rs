//! Servers of gRPC that calls go on to.
//!
//! A message passes as it is: its frame is never read here. Each worker has a connection of its own to
//! each server, over HTTP/2, made when the first call needs it and again when it has ended.

mod body;
mod fields;

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use http::{
    HeaderValue, Request, Response, Uri,
    header::{CONTENT_TYPE, TE},
    uri::{Authority, PathAndQuery, Scheme},
};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::{net::TcpStream, sync::Mutex, time::timeout};
use tokio_rustls::TlsConnector;
use tonic::{Code, Status, body::Body};

use crate::{Error, rpc::Calling};

pub(crate) use fields::{of_call, of_connect, of_rest, to_connect, to_rest};

/// How long a connection may take to make.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that says nothing is asked whether it is there this often, and given up after as long.
const PING: Duration = Duration::from_secs(20);
/// Windows of HTTP/2 in bytes: what a stream of large messages needs over some distance.
const WINDOW: u32 = 1 << 20;

/// A server of gRPC over HTTP/2.
#[derive(Clone)]
pub struct Upstream {
    /// Host name or address; an address of IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// TLS; `None` for HTTP/2 with prior knowledge. ALPN is set here.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Full names of the services that are called there.
    pub services: Vec<String>,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("tls", &self.tls.is_some())
            .field("services", &self.services)
            .finish()
    }
}

/// The servers behind one worker.
pub(crate) struct Upstreams {
    all: Vec<Arc<Peer>>,
    /// The number of a service's server.
    of: HashMap<Box<str>, usize>,
}

/// One server, and the connection to it.
pub(crate) struct Peer {
    host: String,
    port: u16,
    scheme: Scheme,
    authority: Authority,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    connection: Mutex<Option<SendRequest<Body>>>,
}

impl Upstreams {
    pub(crate) fn new(upstreams: &[Upstream]) -> Result<Self, Error> {
        let mut of = HashMap::new();
        for (number, upstream) in upstreams.iter().enumerate() {
            for service in &upstream.services {
                of.entry(service.as_str().into()).or_insert(number);
            }
        }
        let all = upstreams
            .iter()
            .map(|upstream| Peer::new(upstream).map(Arc::new));
        let all = all.collect::<Result<_, _>>()?;
        Ok(Self { all, of })
    }

    /// Where the method of this path is called.
    pub(crate) fn find(&self, path: &str) -> Option<&Arc<Peer>> {
        let (service, _) = path.strip_prefix('/')?.rsplit_once('/')?;
        match (self.of.get(service), &self.all[..]) {
            (Some(number), all) => all.get(*number),
            // What a server says about itself.
            (None, [only]) if service == "grpc.health.v1.Health" => Some(only),
            _ => None,
        }
    }
}

impl Peer {
    fn new(upstream: &Upstream) -> Result<Self, Error> {
        let Upstream { host, port, .. } = upstream;
        let wrong = |what: &str| Error::Config(format!("upstream {host}:{port}: {what}"));
        let bracketed = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.clone(),
        };
        let authority = Authority::try_from(format!("{bracketed}:{port}"))
            .map_err(|_| wrong("this is no host"))?;
        let tls = match &upstream.tls {
            None => None,
            Some(config) => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|_| wrong("no certificate can be for this name"))?;
                let mut config = rustls::ClientConfig::clone(config);
                config.alpn_protocols = vec![b"h2".to_vec()];
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        Ok(Self {
            host: host.clone(),
            port: *port,
            scheme: match tls {
                Some(_) => Scheme::HTTPS,
                None => Scheme::HTTP,
            },
            authority,
            tls,
            connection: Mutex::new(None),
        })
    }

    /// Calls a method there: the request is one of gRPC, without what concerns a connection.
    pub(crate) fn call(self: Arc<Self>, request: Request<Body>) -> Calling {
        Box::pin(async move {
            let called = self.send(request).await;
            Ok(called.unwrap_or_else(|status| status.into_http()))
        })
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Status> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = parts
            .path_and_query
            .map(|path| PathAndQuery::try_from(path.path()))
            .transpose()
            .map_err(|_| Status::internal("the method's name is no path"))?;
        *request.uri_mut() =
            Uri::from_parts(parts).map_err(|_| Status::internal("the method's name is no path"))?;
        *request.version_mut() = http::Version::HTTP_2;
        let fields = request.headers_mut();
        // A call of gRPC says how its messages are written, such as application/grpc+json.
        fields
            .entry(CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/grpc"));
        fields.insert(TE, HeaderValue::from_static("trailers"));
        // A connection may end as the request is on its way to it; what was not sent is sent once more.
        let mut unsent = request;
        for is_last in [false, true] {
            let mut connection = self.connection().await?;
            match connection.try_send_request(unsent).await {
                Ok(response) => return self.answer(response),
                Err(mut error) => match error.take_message() {
                    Some(request) if !is_last => unsent = request,
                    _ => return Err(self.lost(&error.into_error())),
                },
            }
        }
        Err(self.unavailable("it ends each connection at once"))
    }

    /// The connection, made anew where there is none that is open.
    async fn connection(&self) -> Result<SendRequest<Body>, Status> {
        let mut kept = self.connection.lock().await;
        if let Some(connection) = kept.as_ref().filter(|known| !known.is_closed()) {
            return Ok(connection.clone());
        }
        let made = match timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(made) => made?,
            Err(_) => {
                let limit = CONNECT_TIMEOUT.as_secs();
                return Err(self.unavailable(&format!("no connection within {limit} s")));
            }
        };
        Ok(kept.insert(made).clone())
    }

    async fn connect(&self) -> Result<SendRequest<Body>, Status> {
        let failed = |error: std::io::Error| self.unavailable(&error.to_string());
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let Some((connector, name)) = &self.tls else {
            return self.shake(stream).await;
        };
        let stream = connector
            .connect(name.clone(), stream)
            .await
            .map_err(failed)?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(self.unavailable("it did not choose HTTP/2 (ALPN)"));
        }
        self.shake(stream).await
    }

    async fn shake<S>(&self, stream: S) -> Result<SendRequest<Body>, Status>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(2 * WINDOW)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.lost(&error))?;
        // Ends with its last user; how it fails is told to those whose requests it had.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    /// The response, where it is one of gRPC.
    fn answer(&self, response: Response<hyper::body::Incoming>) -> Result<Response<Body>, Status> {
        let status = response.status();
        if status != http::StatusCode::OK {
            let code = trilane_grpc::status::of_http(status.as_u16());
            let text = format!("{} answers with HTTP status {status}", self.authority);
            return Err(Status::new(Code::from(code as i32), text));
        }
        let kind = response.headers().get(CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
            return Err(Status::unknown(format!(
                "{} answers with something else than gRPC: its content-type is not application/grpc",
                self.authority
            )));
        }
        let (mut head, content) = response.into_parts();
        fields::end_to_end(&mut head.headers);
        let body = Body::new(body::Carried::new(content, self.authority.clone()));
        Ok(Response::from_parts(head, body))
    }

    fn lost(&self, error: &hyper::Error) -> Status {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(reason) = cause {
            text = format!("{text}: {reason}");
            cause = reason.source();
        }
        self.unavailable(&text)
    }

    fn unavailable(&self, reason: &str) -> Status {
        Status::unavailable(format!("{} cannot be reached: {reason}", self.authority))
    }
}
