//! What a user asks for, before it is checked.

use std::time::Duration;

use crate::events::EventsAsked;
use crate::grpc::{Call, CallOptions};
use crate::listed::Listed;
use crate::scenario::Scenario;
use crate::turns::Turns;
use crate::websocket::WebSocket;

pub use trilane_transport::tls::{File as PemFile, TlsVersion};
pub use trilane_wire::ProxyProtocol;

/// A version of HTTP with the way it is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.1, over TCP or TLS.
    H1,
    /// HTTP/2 over TLS.
    H2,
    /// HTTP/2 over TCP by prior knowledge.
    H2c,
    /// HTTP/3 over QUIC.
    H3,
}

impl Version {
    /// The name in flags, reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Version::H1 => "h1",
            Version::H2 => "h2",
            Version::H2c => "h2c",
            Version::H3 => "h3",
        }
    }

    /// The name as the RFCs write it.
    pub fn title(self) -> &'static str {
        match self {
            Version::H1 => "HTTP/1.1",
            Version::H2 => "HTTP/2",
            Version::H2c => "HTTP/2 without TLS",
            Version::H3 => "HTTP/3",
        }
    }
}

/// What a user asks for, unchecked.
#[derive(Clone, Debug)]
pub struct Options {
    /// One or more URLs of one origin, requested in turn.
    pub urls: Vec<String>,
    /// How often each URL is requested, in proportion to the others; empty: all as often.
    pub weights: Vec<u32>,
    /// Requests that take turns, instead of `urls`.
    pub listed: Vec<Listed>,
    /// The version asked for; `None` lets scheme and ALPN decide.
    pub version: Option<Version>,
    /// Connections, over all threads.
    pub connections: usize,
    /// Most requests in flight on one connection.
    pub streams: usize,
    /// Worker threads.
    pub threads: usize,
    /// Requests to send, over all threads.
    pub requests: Option<u64>,
    /// How long to measure.
    pub duration: Option<Duration>,
    /// How long to send before measuring.
    pub warmup: Option<Duration>,
    /// Open model: requests per second over all threads.
    pub rate: Option<f64>,
    /// Open model: how requests fall on the rate.
    pub arrivals: Arrivals,
    /// Open model: a rate that changes, instead of `rate`; the run ends with the last of them.
    pub stages: Vec<RateStage>,
    /// Open model: requests per second on each connection, instead of `rate`.
    pub rate_per_connection: Option<f64>,
    /// Closed model: a number of requests in flight that changes; the run ends with the last of them.
    pub stages_in_flight: Vec<InFlightStage>,
    /// Open model: how late a request may leave; one that could only leave later is not sent.
    pub shed_after: Option<Duration>,
    /// The method.
    pub method: Option<String>,
    /// Fields as `Name: value`.
    pub fields: Vec<String>,
    /// Names of fields whose values no result repeats, beside those that are secret by their names.
    pub hidden_fields: Vec<String>,
    /// The content.
    pub body: Vec<u8>,
    /// A gRPC call instead of a request with `method` and `body`; URLs are then prefixes of its path.
    pub call: Option<Call>,
    /// What is asked of all gRPC calls.
    pub calls: CallOptions,
    /// What is asked of WebSocket sessions; without it a URL with ws:// or wss:// has the default ones.
    pub websocket: Option<WebSocket>,
    /// What is asked about events in the content of responses.
    pub events: Option<EventsAsked>,
    /// What virtual users do with the listed requests, instead of these taking turns; `requests` and
    /// `rate` are then of its iterations.
    pub scenario: Option<Scenario>,
    /// Status codes that count as ok; empty: 200…399.
    pub statuses: Vec<(u16, u16)>,
    /// Whether each body must equal the first.
    pub check_body: bool,
    /// Whether the kernel throws away the bodies of responses, once that of each URL is known.
    pub discard_bodies: bool,
    /// Most time from sending a request to the end of its response.
    pub timeout: Duration,
    /// Most time for TCP, TLS and QUIC to be ready.
    pub connect_timeout: Duration,
    /// Most handshakes under way at a time, over all threads; without it eight a thread, and more
    /// where the network takes the time.
    pub connect_parallel: Option<usize>,
    /// Connections begun in a second, over all threads.
    pub connect_rate: Option<f64>,
    /// HTTP/2 and HTTP/3: how often each connection asks by a PING whether the server is there.
    pub keepalive: Option<Duration>,
    /// Requests after which a connection is closed and replaced by a new one; without it a connection
    /// carries as many as it can.
    pub requests_per_connection: Option<u64>,
    /// Accept any certificate.
    pub insecure: bool,
    /// PEM files of authorities: name and contents.
    pub authorities: Vec<PemFile>,
    /// Client certificate chain and key: name and contents each.
    pub client: Option<(PemFile, PemFile)>,
    /// Whether TLS sessions are resumed.
    pub resumption: bool,
    /// Whether requests go in early data (0-RTT) where a ticket allows it.
    pub early_data: bool,
    /// The only version of TLS that is offered.
    pub tls_version: Option<TlsVersion>,
    /// Names of the only cipher suites that are offered; empty: all that are safe.
    pub ciphers: Vec<String>,
    /// The name in the TLS handshake, instead of the URL's host.
    pub sni: Option<String>,
    /// Where to connect, `HOST:PORT` or `unix:PATH`, instead of the URL's authority.
    pub connect_to: Option<String>,
    /// Addresses of hosts, `HOST:PORT:ADDRESS,…`, instead of the resolver's.
    pub resolve: Vec<String>,
    /// Whether connections go to all addresses of the host in turn, and not to the first that works.
    pub spread: bool,
    /// Local addresses to connect from, in turn, with commas between them.
    pub bind: Option<String>,
    /// The URL of a proxy to go through by CONNECT.
    pub proxy: Option<String>,
    /// The version of the PROXY protocol in which each connection says first whose it is.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Addresses and ranges of them (`10.0.0.0/24`) that connections say they come from, in turn, with commas
    /// between them, instead of their own.
    pub proxy_source: Option<String>,
    /// Congestion control of our side: of TCP what the kernel has, of QUIC `cubic`, `reno` or `bbr`.
    pub congestion_control: Option<String>,
    /// QUIC: bytes of UDP payload to begin with; without it 1200, which every path takes.
    pub quic_initial_packet_size: Option<u32>,
    /// QUIC: the server is asked to acknowledge every so-manieth packet, instead of every second.
    pub quic_ack_frequency: Option<u32>,
    /// QUIC: whether larger packets are tried than those to begin with.
    pub quic_mtu_discovery: bool,
    /// QUIC: whether the connections of a thread share one UDP socket, for each address that they go to and
    /// each that they come from; without it each has its own.
    pub quic_shared_socket: bool,
    /// Processors for the workers, in turn.
    pub cpus: Vec<usize>,
    /// Processes of the server, on this machine, whose processor time is told.
    pub server_pids: Vec<u32>,
    /// The turns in which this run sends, where it shares the machine with others that do the same; closed model.
    pub in_turn: Option<Turns>,
    /// How many of the slowest requests are told one by one.
    pub slowest: usize,
    /// What each stream may receive before we grant more, in bytes.
    pub stream_window: u32,
    /// What each connection may receive before we grant more, in bytes.
    pub connection_window: u32,
    /// SETTINGS_MAX_FRAME_SIZE of HTTP/2: the largest frame that we take, in bytes.
    pub max_frame_size: u32,
}

/// How the requests of the open model fall on its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// At an even spacing.
    #[default]
    Constant,
    /// At random and independently of each other, as those of many users: a Poisson process.
    Poisson,
}

impl Arrivals {
    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
        }
    }
}

/// A part of a run in which the rate changes evenly, from that of the stage before or from none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateStage {
    /// How long it takes.
    pub length: Duration,
    /// Requests per second at its end, over all threads.
    pub rate: f64,
}

/// A part of a run in which the number of requests in flight changes evenly, from that of the stage before
/// or from none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightStage {
    /// How long it takes.
    pub length: Duration,
    /// Requests in flight at its end, over all connections and threads.
    pub in_flight: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            weights: Vec::new(),
            listed: Vec::new(),
            version: None,
            connections: 64,
            streams: 1,
            threads: 1,
            requests: None,
            duration: None,
            warmup: None,
            rate: None,
            arrivals: Arrivals::default(),
            stages: Vec::new(),
            rate_per_connection: None,
            stages_in_flight: Vec::new(),
            shed_after: None,
            method: None,
            fields: Vec::new(),
            hidden_fields: Vec::new(),
            body: Vec::new(),
            call: None,
            calls: CallOptions::default(),
            websocket: None,
            events: None,
            scenario: None,
            statuses: Vec::new(),
            check_body: false,
            discard_bodies: false,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            connect_parallel: None,
            connect_rate: None,
            keepalive: None,
            requests_per_connection: None,
            insecure: false,
            authorities: Vec::new(),
            client: None,
            resumption: true,
            early_data: false,
            tls_version: None,
            ciphers: Vec::new(),
            sni: None,
            connect_to: None,
            resolve: Vec::new(),
            spread: false,
            bind: None,
            proxy: None,
            proxy_protocol: None,
            proxy_source: None,
            congestion_control: None,
            quic_initial_packet_size: None,
            quic_ack_frequency: None,
            quic_mtu_discovery: true,
            quic_shared_socket: false,
            cpus: Vec::new(),
            server_pids: Vec::new(),
            in_turn: None,
            slowest: 5,
            stream_window: 16 << 20,
            connection_window: 64 << 20,
            max_frame_size: 16_384,
        }
    }
}
