//! A quinn + h3 server of somebody else's making, and a blocking client loop around our sessions.

mod answer;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use h3::server::RequestStream;
use h3_quinn::BidiStream;
use quinn::crypto::rustls::QuicServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use trilane_transport::quic::{Config, H3Session, Options, ReceiveBuffer};
use trilane_wire::{
    Events, Fields, Head, Request, RequestParts, StreamError, StreamId, h3 as wire,
};

pub(crate) use answer::{answer, server};

pub(crate) type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// Runs a server on a thread of its own for as long as the value lives.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: rustls::pki_types::CertificateDer<'static>,
    pub(crate) endpoint: quinn::Endpoint,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// How a server differs from the plain one.
#[derive(Default)]
pub(crate) struct ServerOptions {
    pub(crate) transport: quinn::TransportConfig,
    pub(crate) alpn: Option<&'static [u8]>,
    /// What it speaks instead of version 1.
    pub(crate) version: Option<u32>,
    /// Sends Retry, and counts here.
    pub(crate) retries: Option<Arc<AtomicUsize>>,
    pub(crate) refuse: bool,
    /// Connection ids that another server takes for its own, and reset tokens that it knows.
    pub(crate) forgetful: bool,
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

impl Server {
    /// A server whose connections are served by `handle`.
    pub(crate) fn with_connections<F, R>(options: ServerOptions, handle: F) -> Self
    where
        F: Fn(quinn::Connection) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let runtime = runtime();
        let key =
            rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()]).unwrap();
        let certificate = key.cert.der().clone();
        let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], private.into())
            .unwrap();
        tls.alpn_protocols = vec![options.alpn.unwrap_or(b"h3").to_vec()];
        let mut config =
            quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        config.transport_config(Arc::new(options.transport));

        let mut endpoint_config = quinn::EndpointConfig::default();
        if let Some(version) = options.version {
            endpoint_config.supported_versions(vec![version]);
        }
        if options.forgetful {
            endpoint_config
                .reset_key(Arc::new(Key))
                .cid_generator(|| Box::new(quinn_proto::RandomConnectionIdGenerator::new(8)));
        }
        let guard = runtime.enter();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let endpoint = quinn::Endpoint::new(
            endpoint_config,
            Some(config),
            socket,
            Arc::new(quinn::TokioRuntime),
        )
        .unwrap();
        drop(guard);

        let address = endpoint.local_addr().unwrap();
        let accepting = endpoint.clone();
        let handle = Arc::new(handle);
        runtime.spawn(async move {
            while let Some(incoming) = accepting.accept().await {
                if options.refuse {
                    incoming.refuse();
                    continue;
                }
                if let Some(retries) = &options.retries
                    && !incoming.remote_address_validated()
                {
                    retries.fetch_add(1, Ordering::Relaxed);
                    incoming.retry().unwrap();
                    continue;
                }
                let handle = Arc::clone(&handle);
                tokio::spawn(async move {
                    if let Ok(connection) = incoming.await {
                        handle(connection).await;
                    }
                });
            }
        });
        Self {
            address,
            certificate,
            endpoint,
            runtime: Some(runtime),
        }
    }

    /// A server whose requests are served by `handle`.
    pub(crate) fn with_requests<F, R>(options: ServerOptions, handle: F) -> Self
    where
        F: Fn(http::Request<()>, Stream) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self::with_connections(options, move |connection| serve(connection, handle.clone()))
    }

    /// What a client needs to trust it.
    pub(crate) fn client(&self, options: &Options) -> Config {
        Config::from_rustls(self.tls(b"h3"), options).unwrap()
    }

    pub(crate) fn tls(&self, alpn: &[u8]) -> Arc<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![alpn.to_vec()];
        Arc::new(tls)
    }
}

/// A reset key that two servers share, so that the second can reset the first one's connections.
struct Key;

impl quinn_proto::crypto::HmacKey for Key {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        for (index, out) in signature_out.iter_mut().enumerate() {
            *out = data
                .iter()
                .fold(index as u8, |sum, byte| sum.wrapping_mul(31) ^ byte);
        }
    }
    fn signature_len(&self) -> usize {
        32
    }
    fn verify(
        &self,
        _data: &[u8],
        _signature: &[u8],
    ) -> Result<(), quinn_proto::crypto::CryptoError> {
        Err(quinn_proto::crypto::CryptoError)
    }
}

async fn serve<F, R>(connection: quinn::Connection, handle: F)
where
    F: Fn(http::Request<()>, Stream) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let Ok(mut h3) =
        h3::server::Connection::<_, Bytes>::new(h3_quinn::Connection::new(connection)).await
    else {
        return;
    };
    while let Ok(Some(resolver)) = h3.accept().await {
        let handle = handle.clone();
        tokio::spawn(async move {
            if let Ok((request, stream)) = resolver.resolve_request().await {
                handle(request, stream).await;
            }
        });
    }
}

/// What one request came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) informational: Vec<u16>,
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) ended: bool,
    pub(crate) trailers: Option<Vec<(String, String)>>,
    pub(crate) error: Option<StreamError>,
}

/// Keeps everything, by slot.
#[derive(Debug, Default)]
pub(crate) struct Record(pub(crate) BTreeMap<u32, Seen>);

impl Record {
    fn at(&mut self, stream: StreamId) -> &mut Seen {
        let seen = self.0.entry(stream.slot).or_default();
        assert!(
            !seen.ended && seen.error.is_none(),
            "an event after the last one"
        );
        seen
    }

    pub(crate) fn done(&self) -> usize {
        self.0
            .values()
            .filter(|seen| seen.ended || seen.error.is_some())
            .count()
    }
}

fn texts(fields: Fields<'_>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

impl Events for Record {
    const FIELDS: bool = true;
    fn informational(&mut self, stream: StreamId, head: Head<'_>) {
        self.at(stream).informational.push(head.status);
    }
    fn head(&mut self, stream: StreamId, head: Head<'_>) {
        let seen = self.at(stream);
        assert_eq!(seen.status, 0);
        seen.status = head.status;
        seen.fields = texts(head.fields);
    }
    fn data(&mut self, stream: StreamId, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        self.at(stream).body.extend_from_slice(bytes);
    }
    fn end(&mut self, stream: StreamId, trailers: Option<Fields<'_>>) {
        let seen = self.at(stream);
        seen.ended = true;
        seen.trailers = trailers.map(texts);
    }
    fn fail(&mut self, stream: StreamId, error: StreamError) {
        self.at(stream).error = Some(error);
    }
}

/// Counts, as the load engine does: no fields are kept.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) heads: usize,
    pub(crate) bytes: usize,
    pub(crate) ended: usize,
    pub(crate) failed: usize,
}

impl Events for Count {
    const FIELDS: bool = false;
    fn head(&mut self, _stream: StreamId, head: Head<'_>) {
        assert_eq!(head.status, 200);
        self.heads += 1;
    }
    fn data(&mut self, _stream: StreamId, bytes: &[u8]) {
        self.bytes += bytes.len();
    }
    fn end(&mut self, _stream: StreamId, _trailers: Option<Fields<'_>>) {
        self.ended += 1;
    }
    fn fail(&mut self, _stream: StreamId, _error: StreamError) {
        self.failed += 1;
    }
}

pub(crate) fn h3_config() -> wire::Config {
    wire::Config {
        field_section: 64 * 1024,
        max_streams: 1000,
    }
}

/// What takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Turns a datagram into those that arrive.
pub(crate) type Road = Box<dyn FnMut(Vec<u8>) -> Vec<Vec<u8>>>;

/// A session on a real socket.
pub(crate) struct Client {
    pub(crate) session: H3Session,
    pub(crate) socket: UdpSocket,
    pub(crate) remote: SocketAddr,
    /// What the road does to datagrams, either way.
    pub(crate) road: Option<Road>,
    buffer: ReceiveBuffer,
    out: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(config: &Config, remote: SocketAddr, name: &str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(remote).unwrap();
        let session =
            H3Session::connect(config, h3_config(), remote, name, Instant::now()).unwrap();
        Self {
            session,
            socket,
            remote,
            road: None,
            buffer: ReceiveBuffer::new(),
            out: Vec::new(),
        }
    }

    /// Sends what there is, waits for the socket or the timer, and hands in what came.
    pub(crate) fn turn<E: Events>(&mut self, events: &mut E) {
        let now = Instant::now();
        while let Some(transmit) = self.session.transmit(now, 1, &mut self.out) {
            assert_eq!(transmit.len, self.out.len());
            assert_eq!(transmit.segment_size, transmit.len);
            let datagrams = match &mut self.road {
                None => vec![self.out.clone()],
                Some(road) => road(self.out.clone()),
            };
            for datagram in datagrams {
                // The answer to an earlier datagram: whoever asks first is told, and only once.
                let sent = self.socket.send(&datagram);
                if sent.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
                    self.session.unreachable(now, events);
                }
            }
        }
        let wait = self
            .session
            .timeout()
            .map_or(Duration::from_millis(100), |at| {
                at.saturating_duration_since(now)
                    .clamp(Duration::from_millis(1), Duration::from_millis(100))
            });
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let received = self.socket.recv(self.buffer.space());
        let now = Instant::now();
        match received {
            Ok(length) => {
                let batch = self.buffer.take(length);
                match &mut self.road {
                    None => self
                        .session
                        .receive(now, self.remote, 0, batch, length, events),
                    Some(road) => {
                        for datagram in road(batch.to_vec()) {
                            let length = datagram.len();
                            let datagram = BytesMut::from(&datagram[..]);
                            self.session
                                .receive(now, self.remote, 0, datagram, length, events);
                        }
                    }
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                self.session.unreachable(now, events);
            }
            Err(_) => {}
        }
        if self.session.timeout().is_some_and(|at| at <= now) {
            self.session.handle_timeout(now, events);
        }
        if self.session.error().is_some() {
            self.session.abandon(events);
        }
    }

    /// Takes turns until `done`, for no longer than [`PATIENCE`].
    pub(crate) fn until<E: Events>(
        &mut self,
        events: &mut E,
        mut done: impl FnMut(&H3Session, &E) -> bool,
    ) {
        let begin = Instant::now();
        while !done(&self.session, events) {
            assert!(begin.elapsed() < PATIENCE, "hangs: {:?}", self.session);
            self.turn(events);
        }
    }

    pub(crate) fn connected(&mut self) {
        self.until(&mut Record::default(), |session, _| {
            assert_eq!(session.error(), None);
            session.is_connected()
        });
    }
}

/// A request for `path`.
pub(crate) fn request(method: &str, path: &str, body: &[u8]) -> Request {
    Request::new(&RequestParts {
        method,
        scheme: "https",
        authority: "localhost",
        path,
        fields: &[("user-agent".into(), "trilane".into())],
        body: Arc::from(body),
        repeated: true,
    })
    .unwrap()
}
