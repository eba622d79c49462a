//! `trilane load`: its flags.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use trilane_engine::{Gate, Turns};
use trilane_units as units;
use url::Url;

use crate::cluster::ClusterArgs;
use crate::compat::Tool;
use crate::grpc::GrpcArgs;
use crate::output::width;
use crate::report::Layout;
use crate::websocket::WebSocketArgs;
use crate::{otlp, prometheus};

use self::values::{
    Announcing, Cpus, Expected, Format, Framed, Spread, Stages, StagesInFlight, Switch, Tls, cpus,
    expected, number, packet, slowest, stages, stages_in_flight, window,
};

mod command;
mod fields;
mod options;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use self::command::run;
pub(crate) use self::values::{code_names, status_ranges};

#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LoadArgs {
    /// Take the command line of another load generator, behind --: of wrk, wrk2, h2load, oha, hey or ab
    #[arg(long, value_enum, hide_possible_values = true, value_name = "TOOL")]
    compat: Option<Tool>,
    /// What to request; several take turns, of one origin or of several, each of which gets -c connections. {seq}, {rand:1-1000}, {uuid} and
    /// {csv:FILE:COLUMN} in path, query, fields or body are another text in each request
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// Connections, over all threads; to each origin, where the requests go to several
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = number, help_heading = LOAD)]
    connections: usize,
    /// Requests in flight on each connection (HTTP/2 and HTTP/3)
    #[arg(short = 'm', long, value_name = "N", default_value = "1", value_parser = number, help_heading = LOAD)]
    streams: usize,
    /// Worker threads [default: 1]
    #[arg(short, long, value_name = "N", value_parser = number, help_heading = LOAD)]
    threads: Option<usize>,
    /// Requests to send in all, instead of a duration
    #[arg(short = 'n', long, value_name = "N", value_parser = units::count, help_heading = LOAD)]
    count: Option<u64>,
    /// How long to measure [default: 10s, unless -n is given]
    #[arg(short, long, short_aliases = ['z', 'D'], value_name = "TIME", value_parser = units::time, help_heading = LOAD)]
    duration: Option<Duration>,
    /// Open model: requests per second, sent on time whatever the responses do
    #[arg(short = 'R', long, short_alias = 'q', value_name = "PER_SECOND", value_parser = units::rate, help_heading = LOAD)]
    rate: Option<f64>,
    /// Open model: how requests fall on the rate: evenly, or at random and independently of each other
    /// (a Poisson process), as those of many users
    #[arg(long, value_enum, default_value = "constant", hide_possible_values = true, value_name = "constant|poisson", help_heading = LOAD)]
    arrivals: Spread,
    /// Open model: a rate that changes, instead of -R, -d and --warmup: stages with commas between
    /// them, each its length and the rate that it leads to evenly, from that of the one before or from
    /// none, such as 10s:1k,30s:1k,10s:0
    #[arg(long, value_name = "TIME:PER_SECOND,…", value_parser = stages, help_heading = LOAD)]
    stages: Option<Stages>,
    /// Open model: requests per second on each connection, which keeps its own time, instead of -R for all
    /// together
    #[arg(long, value_name = "PER_SECOND", value_parser = units::rate, help_heading = LOAD)]
    rate_per_connection: Option<f64>,
    /// Closed model: a number of requests in flight that changes, instead of -d and --warmup: stages with
    /// commas between them, each its length and the number over all connections that it leads to evenly,
    /// from that of the one before or from none, such as 10s:10,30s:100,10s:0
    #[arg(long, value_name = "TIME:REQUESTS,…", value_parser = stages_in_flight, help_heading = LOAD)]
    stages_in_flight: Option<StagesInFlight>,
    /// Open model: do not send a request that could only leave so much after it was due: it is counted
    /// as shed
    #[arg(long, value_name = "TIME", value_parser = units::time, help_heading = LOAD)]
    shed_after: Option<Duration>,
    /// How long to send before measuring [default: 1s, or 0s with -n]
    #[arg(long, value_name = "TIME", value_parser = units::time, help_heading = LOAD)]
    warmup: Option<Duration>,
    /// Most time for a complete response
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::time, help_heading = LOAD)]
    timeout: Duration,
    /// Most time for TCP, TLS or QUIC to be ready
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::time, help_heading = LOAD)]
    connect_timeout: Duration,
    /// Most handshakes under way at a time, over all threads [default: 8 a thread, and more where the
    /// network takes the time]
    #[arg(long, value_name = "N", value_parser = number, help_heading = LOAD)]
    connect_parallel: Option<usize>,
    /// Connections to begin in a second, over all threads [default: no limit]
    #[arg(long, value_name = "PER_SECOND", value_parser = units::rate, help_heading = LOAD)]
    connect_rate: Option<f64>,
    /// Have each connection ask by a PING so often whether the server is there, and give it up where it does not
    /// answer until the next (HTTP/2; over HTTP/3 it keeps connections alive) [default: never; HTTP/3: 10s]
    #[arg(long, value_name = "TIME", value_parser = units::time, help_heading = LOAD)]
    keepalive: Option<Duration>,
    /// Close each connection after so many requests and make a new one in its place, as many at a time
    /// as there are connections: measures handshakes
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = LOAD)]
    requests_per_connection: Option<u64>,
    /// A connection of its own for each request: the same as --requests-per-connection 1
    #[arg(long, conflicts_with = "requests_per_connection", help_heading = LOAD)]
    new_connections: bool,

    /// Method [default: GET, or POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD", conflicts_with = "grpc", help_heading = REQUEST)]
    method: Option<String>,
    /// Header field, repeatable: 'Name: value', or @FILE with one in each line; ${NAME} in it is an environment
    /// variable. So no secret stands on the command line
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE|@FILE", help_heading = REQUEST)]
    headers: Vec<String>,
    /// Request body: text, @FILE, or @- for what comes from stdin
    #[arg(short, long, value_name = "TEXT|@FILE", help_heading = REQUEST)]
    body: Option<String>,
    /// How often each URL is requested, in proportion to the others, such as 3,1 [default: all as often]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), help_heading = REQUEST)]
    weights: Vec<u32>,
    /// Requests that take turns, from a file: JSON Lines with url, method, headers, body, weight and
    /// expect, or of gRPC calls with grpc (the method), headers, body, weight and expect; or a .http file; a
    /// URL is then what theirs are relative to
    #[arg(long, value_name = "FILE", conflicts_with = "weights", help_heading = REQUEST)]
    requests: Option<PathBuf>,
    /// What each of many virtual users does, step after step, from a file in TOML or JSON: requests,
    /// pauses, what is taken from responses into later requests, checks; -n and -R count its iterations
    #[arg(long, value_name = "FILE", conflicts_with_all = BESIDE_NO_SCENARIO, help_heading = REQUEST)]
    scenario: Option<PathBuf>,
    /// Virtual users of the scenario, over all threads [default: as many as requests can be in flight]
    #[arg(long, value_name = "N", value_parser = number, requires = "scenario", conflicts_with_all = BESIDE_NO_SCENARIO, help_heading = REQUEST)]
    users: Option<usize>,
    /// Requests that take turns, from an HTTP Archive, as the developer tools of browsers save it
    #[arg(long, value_name = "FILE", conflicts_with_all = BESIDE_NO_ARCHIVE, help_heading = REQUEST)]
    har: Option<PathBuf>,
    /// Of the archive only the requests to this host, with *. before it to all below it, or with * to all;
    /// repeatable
    #[arg(long, value_name = "HOST", requires = "har", conflicts_with_all = BESIDE_NO_ARCHIVE, help_heading = REQUEST)]
    har_host: Vec<String>,
    /// Status codes that count as ok, such as 200 or 200-299,404 [default: 200-399]; of gRPC calls by name or
    /// number, such as OK,NOT_FOUND [default: OK]
    #[arg(long, value_name = "CODES", value_parser = expected, help_heading = REQUEST)]
    expect_status: Option<Expected>,
    /// Fail every response whose body differs from the first
    #[arg(long, conflicts_with = "grpc", help_heading = REQUEST)]
    check_body: bool,
    /// Have the kernel throw the bodies of responses away unread, once the first of each URL is known: only
    /// over HTTP/1.1 without TLS; lengths are still checked
    #[arg(long, conflicts_with_all = ["grpc", "check_body"], help_heading = REQUEST)]
    discard_bodies: bool,

    /// Responses are streams of events, and these are measured: server-sent events, lines of JSON, or the
    /// messages that a gRPC call answers with or a WebSocket brings
    #[arg(long, value_enum, hide_possible_values = true, value_name = "sse|ndjson|messages", conflicts_with_all = ["check_body", "discard_bodies"], help_heading = REQUEST)]
    events: Option<Framed>,
    /// The first event is the first one whose text this regular expression matches
    #[arg(long, value_name = "REGEX", help_heading = REQUEST)]
    first_event: Option<String>,
    /// A longer gap between two events of a response is a stall
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::time, help_heading = REQUEST)]
    stall: Duration,

    #[command(flatten)]
    pub(crate) grpc: GrpcArgs,

    #[command(flatten)]
    websocket: WebSocketArgs,

    /// HTTP/1.1
    #[arg(long, group = "http_version", help_heading = VERSION)]
    h1: bool,
    /// HTTP/2 over TLS
    #[arg(long, group = "http_version", help_heading = VERSION)]
    h2: bool,
    /// HTTP/2 without TLS, by prior knowledge
    #[arg(long, group = "http_version", help_heading = VERSION)]
    h2c: bool,
    /// HTTP/3
    #[arg(long, group = "http_version", help_heading = VERSION)]
    h3: bool,

    /// Accept any certificate
    #[arg(short = 'k', long, help_heading = CONNECTION)]
    insecure: bool,
    /// Trust the authorities of a PEM file, beside the system's
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    cacert: Vec<PathBuf>,
    /// Client certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "key", help_heading = CONNECTION)]
    cert: Option<PathBuf>,
    /// Key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = CONNECTION)]
    key: Option<PathBuf>,
    /// The only version of TLS to offer, instead of 1.3 and 1.2
    #[arg(long, value_enum, hide_possible_values = true, value_name = "1.2|1.3", help_heading = CONNECTION)]
    tls: Option<Tls>,
    /// The only cipher suites to offer, by their registered names, such as TLS_AES_128_GCM_SHA256
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = CONNECTION)]
    ciphers: Vec<String>,
    /// Server name in the TLS handshake, instead of the URL's host
    #[arg(long, value_name = "NAME", help_heading = CONNECTION)]
    sni: Option<String>,
    /// Connect there, instead of to the URL's host and port
    #[arg(long, value_name = "HOST:PORT|unix:PATH", help_heading = CONNECTION)]
    connect_to: Option<String>,
    /// Take these addresses for a host, instead of the resolver's; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDRESS,…", help_heading = CONNECTION)]
    resolve: Vec<String>,
    /// Connect to all addresses of the host in turn, instead of to the first that answers
    #[arg(long, help_heading = CONNECTION)]
    spread: bool,
    /// Connect from these local addresses, in turn
    #[arg(long, value_name = "ADDRESS,…", help_heading = CONNECTION)]
    bind: Option<String>,
    /// Go through a proxy, by CONNECT; a name and a password go before the host, with a colon and an @
    #[arg(long, value_name = "URL", help_heading = CONNECTION)]
    proxy: Option<String>,
    /// Send the header of HAProxy's PROXY protocol as the first bytes of each connection, before TLS, with the
    /// connection's own addresses: to servers behind a balancer, which take it (curl: --haproxy-protocol is v1).
    /// Behind --proxy it goes through the tunnel; over a Unix socket it has no addresses
    #[arg(long, value_enum, hide_possible_values = true, value_name = "v1|v2", help_heading = CONNECTION)]
    proxy_protocol: Option<Announcing>,
    /// Tell these addresses as those of the clients instead, in turn, one for each connection: addresses and ranges,
    /// such as 10.0.0.0/24 (curl: --haproxy-clientip)
    #[arg(long, value_name = "ADDRESS,…", requires = "proxy_protocol", help_heading = CONNECTION)]
    proxy_source: Option<String>,
    /// Whether TLS sessions are resumed, over TCP and QUIC, with the tickets of earlier connections of
    /// the run; off makes every handshake a full one
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "on|off", hide_possible_values = true, help_heading = CONNECTION)]
    resume: Switch,
    /// Send requests in early data (0-RTT) on connections that resume a session: only safe methods, as
    /// early data can be replayed; what the server rejects or answers with 425 is sent again behind
    /// the handshake
    #[arg(long, help_heading = CONNECTION)]
    early_data: bool,
    /// Congestion control of our side: of TCP what the kernel has, over HTTP/3 cubic, reno or bbr
    #[arg(long, value_name = "NAME", help_heading = CONNECTION)]
    congestion_control: Option<String>,
    /// QUIC: the size of packets to begin with, 1200 to 1452 bytes of UDP payload [default: 1200, and larger
    /// ones as path MTU discovery finds that they pass]
    #[arg(long, value_name = "SIZE", value_parser = packet, help_heading = CONNECTION)]
    quic_initial_packet_size: Option<u32>,
    /// QUIC: ask the server to acknowledge every so-manieth packet (ACK_FREQUENCY), instead of every second;
    /// the report says where it does not know how
    #[arg(long, value_name = "PACKETS", help_heading = CONNECTION)]
    quic_ack_frequency: Option<u32>,
    /// QUIC: whether larger packets are tried (path MTU discovery, RFC 8899)
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "on|off", hide_possible_values = true, help_heading = CONNECTION)]
    quic_mtu_discovery: Switch,
    /// QUIC: one UDP socket for all connections of a thread, told apart by their connection ids, instead of one for
    /// each: one read brings what came for many of them. A server that spreads clients over its workers by address and port (SO_REUSEPORT)
    /// has all of a thread in one of them
    #[arg(long, help_heading = CONNECTION)]
    quic_shared_socket: bool,
    /// What each stream may receive before we grant more, in bytes
    #[arg(long, value_name = "SIZE", default_value = "16m", value_parser = window, help_heading = CONNECTION)]
    stream_window: u32,
    /// What each connection may receive before we grant more, in bytes
    #[arg(long, value_name = "SIZE", default_value = "64m", value_parser = window, help_heading = CONNECTION)]
    connection_window: u32,
    /// The largest frame that we take over HTTP/2 (SETTINGS_MAX_FRAME_SIZE): larger ones cost both ends
    /// less, and keep other streams waiting for longer; browsers take 16k
    #[arg(long, value_name = "SIZE", default_value = "16k", value_parser = window, help_heading = CONNECTION)]
    max_frame_size: u32,
    /// Processors for the worker threads, such as 0 or 0,2-3
    #[arg(long = "cpu", value_name = "LIST", value_parser = cpus, help_heading = CONNECTION)]
    cpus: Option<Cpus>,
    /// Tell the processor time of a process of the server, which runs on this machine; repeatable
    #[arg(long = "server-pid", value_name = "PID", help_heading = CONNECTION)]
    server_pids: Vec<u32>,

    /// The turns of this run among others, as JSON
    #[arg(long, value_name = "JSON", value_parser = values::turns, hide = true)]
    in_turn: Option<Turns>,

    /// Exit with 3 when one of them holds: 'p99>10ms', 'rate<1000', 'failed>0', 'error_rate>1%'; of messages of
    /// gRPC streams and WebSockets: 'received_rate<1000' (a second), 'sent_rate<1000', 'message_p99>10ms'
    #[arg(long, value_name = "EXPR,…", value_delimiter = ',', value_parser = Gate::parse, help_heading = RESULT)]
    fail_if: Vec<Gate>,
    /// Find the highest rate at which all of it holds, by runs of -d (5s) each, and its interval: such as
    /// 'p99<10ms, error_rate<0.1%'; -R is where the search begins
    #[arg(long, value_name = "EXPR,…", value_delimiter = ',', value_parser = Gate::parse_goal, conflicts_with_all = ["count", "stages", "stages_in_flight", "rate_per_connection", "fail_if", "ndjson", "hgrm"], help_heading = RESULT)]
    search: Vec<Gate>,
    /// Write the result to a file instead of stdout
    #[arg(short, long, value_name = "FILE", help_heading = RESULT)]
    output: Option<PathBuf>,
    /// List the N slowest requests one by one: what they waited for, and where they went [default: 5, which -v lists]
    #[arg(long, value_name = "N", value_parser = slowest, help_heading = RESULT)]
    slowest: Option<usize>,
    /// Show the run on the whole terminal while it lasts: rate, latency, failures, status codes and lateness,
    /// with charts over time; q ends it early, and the report follows
    #[arg(long, conflicts_with = "search", help_heading = RESULT)]
    live: bool,
    /// Write a line of JSON for each second of the measurement, while it runs
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    ndjson: Option<PathBuf>,
    /// Serve what has been measured so far at /metrics of this address, for Prometheus, while it runs
    #[arg(long, value_name = "[ADDRESS]:PORT", value_parser = prometheus::address, conflicts_with = "search", help_heading = RESULT)]
    prometheus: Option<SocketAddr>,
    /// Send what has been measured so far to a collector once a second and at the end, by OTLP over HTTP; without
    /// a path to /v1/metrics; OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES are heeded
    #[arg(long, value_name = "URL", value_parser = otlp::endpoint, conflicts_with = "search", help_heading = RESULT)]
    otlp: Option<Url>,
    /// Write the percentiles of the latency, for HdrHistogram's plotters; in milliseconds
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    hgrm: Option<PathBuf>,
    /// Write the result as a page with charts, one file that needs no network, beside what is printed
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    html: Option<PathBuf>,
    /// Print the whole report, not only the thirty lines that most people need
    #[arg(short, long, help_heading = RESULT)]
    verbose: bool,
    /// How the result is written
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = RESULT)]
    format: Format,

    #[command(flatten)]
    cluster: ClusterArgs,
}

impl LoadArgs {
    /// Whether a rate is searched for.
    pub(crate) fn is_search(&self) -> bool {
        !self.search.is_empty()
    }

    /// Whether the body comes from stdin.
    pub(crate) fn reads_stdin(&self) -> bool {
        self.body.as_deref() == Some("@-")
    }

    /// Whether the processor time of the server is told.
    pub(crate) fn watches_server(&self) -> bool {
        !self.server_pids.is_empty()
    }

    /// How the report is laid out.
    fn layout(&self) -> Layout {
        Layout {
            verbose: self.verbose,
            slowest: self.slowest.is_some(),
            width: width(self.output.as_deref()),
        }
    }

    /// How many threads were typed.
    pub(crate) fn threads_typed(&self) -> Option<usize> {
        self.threads
    }
}

// These exclude --scenario, and so --users; those below exclude --har, and so --har-host. It has to be said of both: clap
// does not ask for a flag that another one requires where something else excludes it.
const BESIDE_NO_SCENARIO: [&str; 7] = [
    "grpc",
    "weights",
    "requests",
    "har",
    "method",
    "body",
    "expect_status",
];
const BESIDE_NO_ARCHIVE: [&str; 4] = ["grpc", "weights", "requests", "urls"];

const LOAD: &str = "Load";
const REQUEST: &str = "Request";
const VERSION: &str =
    "Version (default: h1 for http, h2 or h1 by ALPN for https; for gRPC h2c and h2)";
const CONNECTION: &str = "Connection";
const RESULT: &str = "Result";

const AFTER_HELP: &str = "\
Counts take k and m (10k), times us, ms, s, m and h (500ms), sizes k and m (16k).
Exit codes: 0 ok, 1 could not run, 2 wrong usage, 3 a --fail-if gate was breached or
a --search holds at no rate that was tried, 4 the measurement is invalid, 130 interrupted
(the partial report is printed).
SSLKEYLOGFILE=FILE in the environment: secrets of connections are appended to it, for Wireshark.

Examples:
  trilane load http://127.0.0.1:8080/hello
  trilane load --h2 -c 8 -m 100 -d 30s --cacert ca.pem https://localhost:8443/
  trilane load -R 5k -d 60s --fail-if 'p99>10ms' https://api.example/
  trilane load --stages 10s:1k,30s:5k,10s:0 --arrivals poisson https://api.example/
  trilane load --stages-in-flight 10s:10,30s:100,10s:0 -c 100 https://api.example/
  trilane load --weights 9,1 'http://127.0.0.1:8080/hello?n={seq}' http://127.0.0.1:8080/books
  trilane load --weights 9,1 https://api.example/books https://auth.example/session
  trilane load -c 100 --ws-messages 1k -b ping ws://127.0.0.1:8080/echo
  trilane load --requests calls.jsonl -R 1k https://staging.example
  trilane load --scenario shop.toml --users 200 -c 50 https://staging.example
  trilane load --search 'p99<10ms, error_rate<0.1%' -c 64 https://api.example/
  trilane load --cluster tcp://10.0.0.1:8786 --workers 4 -R 1m -c 400 https://staging.example/
  trilane load --compat wrk -- -t2 -c100 -d30s http://127.0.0.1:8080/hello
  trilane load --grpc trilane.library.v1.Library/GetBook -b '{\"name\": \"shelves/1/books/1\"}' \\
    -c 1 -m 64 http://127.0.0.1:8080";
