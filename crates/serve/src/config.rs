//! What a caller can choose, and what can go wrong before the first request.

use std::{
    convert::Infallible,
    error, fmt, io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    sync::mpsc,
};

use http::{Request, Response};
use tonic::body::Body;
use tower_service::Service;
use trilane_grpc::Schema;
use trilane_transcode::ServiceConfig;

use crate::{InProcess, Limits, Place, Upstream};

/// How to start a server. `Config::default()` is what `trilane serve` does without flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on. Default: 127.0.0.1.
    pub bind: IpAddr,
    /// TCP port for cleartext HTTP/1.1 and HTTP/2; 0 picks a free one. Default: 8080.
    pub port: u16,
    /// TCP port for TLS and UDP port for QUIC; 0 picks a number free on both. Default: 8443.
    pub tls_port: u16,
    /// Worker threads, at least 1. Default: 1.
    pub threads: usize,
    /// Processor numbers; worker `i` is pinned to `cpus[i % len]`. Empty: not pinned.
    pub cpus: Vec<usize>,
    /// Folder of the local certificate authority.
    /// Default: `$XDG_STATE_HOME/trilane`, else `~/.local/state/trilane`.
    pub state: Option<PathBuf>,
    /// Certificate chain and private key (PEM) to use instead of the local authority's.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Names and addresses that the certificate must hold besides localhost, 127.0.0.1 and ::1.
    pub names: Vec<String>,
    /// Streams that a client may have open on one HTTP/2 or HTTP/3 connection. Default: 1000.
    pub streams: u32,
    /// Ask the client to leave after this many requests on one connection
    /// (`connection: close`, GOAWAY). Default: never.
    pub keepalive_requests: Option<u64>,
    /// Take early data (0-RTT) on sessions that are resumed: what comes in it may have been replayed,
    /// so unsafe methods are answered with 425 there (RFC 8470). Default: no.
    pub early_data: bool,
    /// Congestion control of our side over QUIC. Default: CUBIC.
    pub quic_congestion: Congestion,
    /// Send with the same congestion control over TCP, where the kernel allows it. Default: with the kernel's.
    pub same_over_tcp: bool,
    /// Have each client of HTTP/3 prove its address by a Retry packet first (RFC 9000 section 8.1.2),
    /// unless it has a token of an earlier connection. Default: no.
    pub retry: bool,
    /// Size of the chain of certificates in bytes of DER, made up by one that no client needs: what a
    /// server sends over QUIC before the client has proved its address is at most three times what has
    /// come in (RFC 9000 section 8.1). Default: our own certificate alone.
    pub chain_size: Option<usize>,
    /// Origins whose pages may read the answers (CORS), such as `https://app.example`; `*` for all.
    /// Default: none.
    pub cors_origins: Vec<String>,
    /// Names under which the server is served, beside `localhost`, the names below it, those of its certificate,
    /// and all addresses: a request for another host is answered with 421, lest a page have its own name lead
    /// here (DNS rebinding). `*.shop.example` stands for all names below, `*` for all. Default: none.
    pub allow_hosts: Vec<String>,
    /// Connections that one caller, by its IP address (of IPv6, the first 64 bits), may have at a time: more are
    /// closed. Default: half of what the process may have with [`Self::forwarding`], no bound otherwise. Over QUIC
    /// it holds for each worker, and half of what that may have is the most.
    pub connections_per_caller: Option<usize>,
    /// Told what an operator should know while it serves, a line each. Default: nobody is.
    pub warn: Option<fn(&str)>,
    /// Services of others that are served too, by calling them where they are. Default: none.
    pub forwarding: Option<Forwarding>,
}

/// Services of others: under their names over gRPC and gRPC-Web, and over HTTP under the paths of their
/// rules (`google.api.http`) and as `POST /package.Service/Method`.
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// All services, with their messages.
    pub schema: Schema,
    /// Where they are. Calls of a service that several upstreams have are shared by them.
    pub upstreams: Vec<Upstream>,
    /// How they are called there.
    pub limits: Limits,
    /// Told the number of an upstream whenever it has ended a connection, and when it is there again: it may
    /// have other services then, which can be put in by [`Server::switch`](crate::Server::switch).
    pub ended: Option<mpsc::Sender<usize>>,
    /// Whether nothing else is served: none of the embedded server's own endpoints and services.
    pub alone: bool,
    /// Rules of service configuration files, which override those of the methods' options.
    pub config: ServiceConfig,
    /// Whether query parameters that are no fields are ignored; they are refused otherwise.
    pub ignore_unknown_query: bool,
}

impl Forwarding {
    /// All services of `schema`, which are in this process: `service` is what tonic generates for one
    /// (`GreeterServer::new(...)`), or `tonic::service::Routes` of several. Nothing else is served.
    ///
    /// ```no_run
    /// # fn run<S>(greeter: S, descriptors: &[u8]) -> Result<(), Box<dyn std::error::Error>>
    /// # where
    /// #     S: tower_service::Service<
    /// #             http::Request<tonic::body::Body>,
    /// #             Response = http::Response<tonic::body::Body>,
    /// #             Error = std::convert::Infallible,
    /// #         > + Clone + Send + 'static,
    /// #     S::Future: Send,
    /// # {
    /// use trilane_serve::{Config, Forwarding, Schema, Server};
    ///
    /// // What `tonic_prost_build` writes with `file_descriptor_set_path`, or `protoc` and `buf build`.
    /// let schema = Schema::from_descriptor_set("greeter", descriptors)?;
    /// let forwarding = Some(Forwarding::of_process(schema, greeter));
    /// let server = Server::start(Config { forwarding, ..Config::default() })?;
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_process<S>(schema: Schema, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        let services = schema.pool().services();
        let services = services
            .map(|service| service.full_name().to_owned())
            .collect();
        Self {
            schema,
            upstreams: vec![Upstream {
                place: Place::Process(InProcess::new(service)),
                tls: None,
                name: None,
                services,
            }],
            limits: Limits::default(),
            ended: None,
            alone: true,
            config: ServiceConfig::default(),
            ignore_unknown_query: false,
        }
    }
}

/// A congestion controller of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno, as QUIC has it (RFC 9002 section 7).
    Reno,
    /// BBR, version 1.
    Bbr,
}

impl Congestion {
    /// What the kernel calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8080,
            tls_port: 8443,
            threads: 1,
            cpus: Vec::new(),
            state: None,
            identity: None,
            names: Vec::new(),
            streams: 1000,
            keepalive_requests: None,
            early_data: false,
            quic_congestion: Congestion::default(),
            same_over_tcp: false,
            retry: false,
            chain_size: None,
            cors_origins: Vec::new(),
            allow_hosts: Vec::new(),
            connections_per_caller: None,
            warn: None,
            forwarding: None,
        }
    }
}

/// Why a server did not start. The text says what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another program listens there.
    PortInUse {
        /// The port.
        port: u16,
        /// The flag that moves us elsewhere.
        flag: &'static str,
    },
    /// The address or port cannot be bound for another reason.
    Bind {
        /// What was to be bound.
        what: String,
        /// The system's answer.
        cause: io::Error,
    },
    /// A file of the state folder, or a certificate or key that was named, cannot be used.
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The state folder cannot be made, or nothing can be written in it.
    StateFolder {
        /// The folder.
        folder: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// No home folder, so no place for the local certificate authority.
    NoStateFolder,
    /// A value of [`Config`] that cannot work.
    Config(String),
    /// The certificates or the TLS configuration were refused.
    Tls(String),
    /// The system gave no thread or no event loop.
    System(io::Error),
}

impl Error {
    pub(crate) fn file(path: &Path, cause: impl fmt::Display) -> Self {
        Self::File {
            path: path.to_owned(),
            cause: cause.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortInUse { port, flag } => write!(
                f,
                "port {port} is in use; choose another with {flag} PORT ({flag} 0 picks a free one)"
            ),
            Self::Bind { what, cause } => write!(f, "cannot listen on {what}: {cause}"),
            Self::File { path, cause } => write!(f, "{}: {cause}", path.display()),
            Self::StateFolder { folder, cause } => write!(
                f,
                "cannot keep certificates in {}: {cause}: give another folder with --state DIR, or set XDG_STATE_HOME",
                folder.display()
            ),
            Self::NoStateFolder => write!(
                f,
                "no place for the certificates: set HOME or XDG_STATE_HOME, or give --state DIR"
            ),
            Self::Config(what) => write!(f, "{what}"),
            Self::Tls(what) => write!(f, "TLS: {what}"),
            Self::System(cause) => write!(f, "the system refused a worker: {cause}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Bind { cause, .. } | Self::StateFolder { cause, .. } | Self::System(cause) => {
                Some(cause)
            }
            _ => None,
        }
    }
}
