//! Connections to an upstream: TCP or a Unix socket, TLS, and the first words of HTTP/2.

use std::{
    fmt, future::Future, io, net::SocketAddr, path::PathBuf, pin::Pin, sync::Arc, task::Poll,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::poll_fn;
use h2::client::{Builder, SendRequest};
use http::uri::{Authority, Scheme};
use rustls_pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tonic::Status;

use super::{Place, Upstream};
use crate::Error;

/// How long a connection may take to make, up to the server's SETTINGS.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The kernel asks a peer that says nothing for so long whether it is there (RFC 9293 section 3.8.4), and
/// gives it up after as long: servers of gRPC close connections on which PINGs of HTTP/2 come more often
/// than every few minutes.
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_PROBES: u32 = 4;
/// What a server may send on a stream before its caller reads, in bytes (RFC 9113 section 6.9): all that is held
/// of a response that nobody reads.
const STREAM_WINDOW: u32 = 256 << 10;
/// The same of a connection: as large as it can be.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// Streams that a connection has at most. Their windows fit into its own, so that callers who do not read keep the
/// window of no other caller: only who reads slowly is answered slowly.
pub(super) const MAX_STREAMS: usize = (CONNECTION_WINDOW / STREAM_WINDOW) as usize;
/// Largest head of a response in bytes.
const MAX_HEAD: u32 = 64 << 10;

/// One address of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What all connections to an upstream have in common.
pub(super) struct Dial {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    /// Host and port as they were given, for messages.
    pub(super) label: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// What carries a connection on until it ends.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Dial {
    pub(super) fn new(upstream: &Upstream) -> Result<Self, Error> {
        let (label, host) = match &upstream.place {
            Place::Host { host, port } if host.contains(':') => {
                (format!("[{host}]:{port}"), &**host)
            }
            Place::Host { host, port } => (format!("{host}:{port}"), &**host),
            Place::Unix(path) => (format!("unix:{}", path.display()), "localhost"),
            Place::Process(_) => ("this process".to_owned(), "localhost"),
        };
        let wrong = |what: &str| Error::Config(format!("upstream {label}: {what}"));
        let authority = match (&upstream.name, &upstream.place) {
            (Some(name), _) => Authority::try_from(&**name),
            // As gRPC has it for Unix sockets.
            (None, Place::Unix(_) | Place::Process(_)) => Authority::try_from("localhost"),
            (None, Place::Host { .. }) => Authority::try_from(&*label),
        };
        let authority = authority.map_err(|_| wrong("this is no host"))?;
        let tls = match &upstream.tls {
            None => None,
            Some(config) => {
                let name = match &upstream.name {
                    Some(_) => authority.host().trim_matches(['[', ']']),
                    None => host,
                };
                let name = ServerName::try_from(name.to_owned())
                    .map_err(|_| wrong("no certificate can be for this name"))?;
                let mut config = rustls::ClientConfig::clone(config);
                config.alpn_protocols = vec![b"h2".to_vec()];
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        Ok(Self {
            scheme: match tls {
                Some(_) => Scheme::HTTPS,
                None => Scheme::HTTP,
            },
            authority,
            label,
            tls,
        })
    }

    /// What messages call a server: its address too, where the upstream may have several.
    pub(super) fn label_of(&self, address: &Address) -> String {
        let own = address.to_string();
        match own == self.label {
            true => own,
            false => format!("{} ({own})", self.label),
        }
    }

    /// A connection on which the server has said how many streams it allows.
    pub(super) async fn connect(
        &self,
        address: &Address,
    ) -> Result<(SendRequest<Bytes>, Driver), Status> {
        let failed = |reason: &str| {
            let label = self.label_of(address);
            Status::unavailable(format!("{label} cannot be reached: {reason}"))
        };
        let made = timeout(CONNECT_TIMEOUT, self.open(address)).await;
        match made {
            Ok(made) => made.map_err(|reason| failed(&reason)),
            Err(_) => Err(failed(&format!(
                "no connection of HTTP/2 within {} s",
                CONNECT_TIMEOUT.as_secs()
            ))),
        }
    }

    async fn open(&self, address: &Address) -> Result<(SendRequest<Bytes>, Driver), String> {
        let told = |error: io::Error| error.to_string();
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(told)?;
                stream.set_nodelay(true).map_err(told)?;
                keep_alive(&stream).map_err(told)?;
                self.secure(stream).await
            }
            Address::Unix(path) => {
                self.secure(UnixStream::connect(path).await.map_err(told)?)
                    .await
            }
        }
    }

    async fn secure<S>(&self, stream: S) -> Result<(SendRequest<Bytes>, Driver), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some((connector, name)) = &self.tls else {
            return greet(stream).await;
        };
        let stream = connector
            .connect(name.clone(), stream)
            .await
            .map_err(|error| error.to_string())?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err("it did not choose HTTP/2 (ALPN)".into());
        }
        greet(stream).await
    }
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE / KEEPALIVE_PROBES)
            .with_retries(KEEPALIVE_PROBES),
    )?;
    // What has been sent and is not acknowledged is not probed.
    socket.set_tcp_user_timeout(Some(2 * KEEPALIVE))
}

/// Exchanges the prefaces of HTTP/2 (RFC 9113 section 3.4).
async fn greet<S>(stream: S) -> Result<(SendRequest<Bytes>, Driver), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, mut connection) = Builder::new()
        .enable_push(false)
        // None until the server has said how many: what it refuses for that has been sent in vain.
        .initial_max_send_streams(0)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEAD)
        .handshake::<_, Bytes>(stream)
        .await
        .map_err(|error| error.to_string())?;
    poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
        Poll::Ready(Ok(())) => Poll::Ready(Err("it ends each connection at once".to_owned())),
        Poll::Ready(Err(error)) => Poll::Ready(Err(error.to_string())),
        Poll::Pending if connection.max_concurrent_send_streams() == 0 => Poll::Pending,
        Poll::Pending => Poll::Ready(Ok(())),
    })
    .await?;
    // How it fails is told to those whose requests it had.
    let driver = async move { drop(connection.await) };
    Ok((sender, Box::pin(driver)))
}
