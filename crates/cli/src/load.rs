//! `trilane load`.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use trilane_engine::{
    Arrivals, EventFormat, EventsAsked, Gate, Io, Listed, Options, Outcome, PemFile, Plan,
    PlanError, RateStage, TlsVersion, Verdict, Version,
};
use trilane_units as units;

use crate::compat::{self, Tool};
use crate::grpc::GrpcArgs;
use crate::interrupt::Interrupt;
use crate::output::{Lines, STDOUT_CLOSED, write_percentiles, write_result};
use crate::progress::Display;
use crate::prometheus::{self, Metrics};
use crate::standard::is_stdout_closed;
use crate::{
    BREACHED, FAILED, INTERRUPTED, INVALID, OK, USAGE, complain, report, requests, search, tell,
};

#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LoadArgs {
    /// Take the command line of another load generator, behind --: of wrk, wrk2, h2load, oha, hey or ab
    #[arg(long, value_enum, hide_possible_values = true, value_name = "TOOL")]
    compat: Option<Tool>,
    /// What to request; several of one origin take turns. {seq}, {rand:1-1000}, {uuid} and
    /// {csv:FILE:COLUMN} in path, query, fields or body are another text in each request
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// Connections, over all threads
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = number, help_heading = LOAD)]
    connections: usize,
    /// Requests in flight on each connection (HTTP/2 and HTTP/3)
    #[arg(short = 'm', long, value_name = "N", default_value = "1", value_parser = number, help_heading = LOAD)]
    streams: usize,
    /// Worker threads
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = number, help_heading = LOAD)]
    threads: usize,
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
    /// Header field, repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", help_heading = REQUEST)]
    headers: Vec<String>,
    /// Request body: text, @FILE, or @- for what comes from stdin
    #[arg(short, long, value_name = "TEXT|@FILE", help_heading = REQUEST)]
    body: Option<String>,
    /// How often each URL is requested, in proportion to the others, such as 3,1 [default: all as often]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), help_heading = REQUEST)]
    weights: Vec<u32>,
    /// Requests that take turns, from a file: JSON Lines with url, method, headers, body, weight and
    /// expect, or a .http file; a URL is then what theirs are relative to
    #[arg(long, value_name = "FILE", conflicts_with_all = ["grpc", "weights"], help_heading = REQUEST)]
    requests: Option<PathBuf>,
    /// Requests that take turns, from an HTTP Archive, as the developer tools of browsers save it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["grpc", "weights", "requests", "urls"], help_heading = REQUEST)]
    har: Option<PathBuf>,
    /// Of the archive only the requests to this host, or with *. before it to all below it
    #[arg(long, value_name = "HOST", requires = "har", help_heading = REQUEST)]
    har_host: Option<String>,
    /// Status codes that count as ok, such as 200 or 200-299,404
    #[arg(long, value_name = "CODES", default_value = "200-399", value_parser = statuses, conflicts_with = "grpc", help_heading = REQUEST)]
    expect_status: Statuses,
    /// Fail every response whose body differs from the first
    #[arg(long, conflicts_with = "grpc", help_heading = REQUEST)]
    check_body: bool,
    /// Have the kernel throw the bodies of responses away unread, once the first of each URL is known: only
    /// over HTTP/1.1 without TLS; lengths are still checked
    #[arg(long, conflicts_with_all = ["grpc", "check_body"], help_heading = REQUEST)]
    discard_bodies: bool,

    /// Responses are streams of events, and these are measured: server-sent events, or lines of JSON
    #[arg(long, value_enum, hide_possible_values = true, value_name = "sse|ndjson", conflicts_with_all = ["grpc", "check_body", "discard_bodies"], help_heading = REQUEST)]
    events: Option<Framed>,
    /// The first event is the first one whose text this regular expression matches
    #[arg(long, value_name = "REGEX", requires = "events", help_heading = REQUEST)]
    first_event: Option<String>,
    /// A longer gap between two events of a response is a stall
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::time, help_heading = REQUEST)]
    stall: Duration,

    #[command(flatten)]
    grpc: GrpcArgs,

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
    /// How the workers wait for their sockets, read and write them: by epoll, or over a ring of the kernel's
    /// (io_uring, Linux 6.1 or later); auto is epoll, as a request costs about the same over both
    #[arg(long, value_enum, default_value_t = Waiting::Auto, value_name = "epoll|uring|auto", hide_possible_values = true, help_heading = CONNECTION)]
    io: Waiting,
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

    /// Exit with 3 when the condition holds: 'p99>10ms', 'rate<1000', 'failed>0', 'error_rate>1%'
    #[arg(long, value_name = "EXPR", value_parser = Gate::parse, help_heading = RESULT)]
    fail_if: Vec<Gate>,
    /// Find the highest rate at which all of it holds, by runs of -d (5s) each, and its interval: such as
    /// 'p99<10ms, error_rate<0.1%'; -R is where the search begins
    #[arg(long, value_name = "EXPR,…", value_delimiter = ',', value_parser = Gate::parse_goal, conflicts_with_all = ["count", "stages", "fail_if", "ndjson", "hgrm"], help_heading = RESULT)]
    search: Vec<Gate>,
    /// Write the result to a file instead of stdout
    #[arg(short, long, value_name = "FILE", help_heading = RESULT)]
    output: Option<PathBuf>,
    /// Tell so many of the slowest requests one by one: what they waited for, and where they went
    #[arg(long, value_name = "N", default_value = "5", value_parser = slowest, help_heading = RESULT)]
    slowest: usize,
    /// Write a line of JSON for each second of the measurement, while it runs
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    ndjson: Option<PathBuf>,
    /// Serve what has been measured so far at /metrics of this address, for Prometheus, while it runs
    #[arg(long, value_name = "[ADDRESS]:PORT", value_parser = prometheus::address, conflicts_with = "search", help_heading = RESULT)]
    prometheus: Option<SocketAddr>,
    /// Write the percentiles of the latency, for HdrHistogram's plotters; in milliseconds
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    hgrm: Option<PathBuf>,
    /// How the result is written
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = RESULT)]
    format: Format,
}

/// How long a run of a search is, where nothing else was asked for.
const SEARCH_RUN: Duration = Duration::from_secs(5);

const LOAD: &str = "Load";
const REQUEST: &str = "Request";
const VERSION: &str =
    "Version (default: h1 for http, h2 or h1 by ALPN for https; for gRPC h2c and h2)";
const CONNECTION: &str = "Connection";
const RESULT: &str = "Result";

const AFTER_HELP: &str = "\
Counts take k and m (10k), times us, ms, s, m and h (500ms), sizes k and m (16k).
Exit codes: 0 ok, 1 could not run, 2 wrong usage, 3 a --fail-if gate was breached,
4 the measurement is invalid, 130 interrupted (the partial report is printed).
SSLKEYLOGFILE=FILE in the environment: secrets of connections are appended to it, for Wireshark.

Examples:
  trilane load http://127.0.0.1:8080/hello
  trilane load --h2 -c 8 -m 100 -d 30s --cacert ca.pem https://localhost:8443/
  trilane load -R 5k -d 60s --fail-if 'p99>10ms' https://api.example/
  trilane load --stages 10s:1k,30s:5k,10s:0 --arrivals poisson https://api.example/
  trilane load --weights 9,1 'http://127.0.0.1:8080/hello?n={seq}' http://127.0.0.1:8080/books
  trilane load --requests calls.jsonl -R 1k https://staging.example
  trilane load --search 'p99<10ms, error_rate<0.1%' -c 64 https://api.example/
  trilane load --compat wrk -- -t2 -c100 -d30s http://127.0.0.1:8080/hello
  trilane load --grpc trilane.library.v1.Library/GetBook -b '{\"name\": \"shelves/1/books/1\"}' \\
    -c 1 -m 64 http://127.0.0.1:8080";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// trilane.run/1, for programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Waiting {
    Auto,
    Epoll,
    Uring,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Spread {
    Constant,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tls {
    #[value(name = "1.2")]
    V1_2,
    #[value(name = "1.3")]
    V1_3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Framed {
    Sse,
    Ndjson,
}

#[derive(Clone, Debug)]
struct Stages(Vec<RateStage>);

/// Parses stages: `10s:1k,30s:1k`.
fn stages(text: &str) -> Result<Stages, String> {
    let stage = |part: &str| {
        let wrong = || {
            format!(
                "the stage {:?} has not the form TIME:PER_SECOND: write for example 10s:1k",
                part.trim()
            )
        };
        let (length, rate) = part.split_once(':').ok_or_else(wrong)?;
        Ok(RateStage {
            length: units::time(length)?,
            // Nothing at all is a rate to lead to.
            rate: match rate.trim() {
                "0" => 0.0,
                rate => units::rate(rate)?,
            },
        })
    };
    text.split(',')
        .map(stage)
        .collect::<Result<_, _>>()
        .map(Stages)
}

#[derive(Clone, Debug)]
struct Statuses(Vec<(u16, u16)>);

#[derive(Clone, Debug)]
struct Cpus(Vec<usize>);

fn number(text: &str) -> Result<usize, String> {
    units::count(text).map(|count| count as usize)
}

fn slowest(text: &str) -> Result<usize, String> {
    const MOST: usize = 10_000;
    let count = number(text)?;
    if count > MOST {
        return Err(format!(
            "{count} are too many to be looked at: type at most {MOST}"
        ));
    }
    Ok(count)
}

fn window(text: &str) -> Result<u32, String> {
    units::size(text)?
        .try_into()
        .map_err(|_| format!("{text:?} is more than HTTP has room for: 2147483647 bytes"))
}

/// Parses ranges of status codes: `200-299,404`.
pub(crate) fn status_ranges(text: &str) -> Result<Vec<(u16, u16)>, String> {
    let wrong = || format!("{text:?} is not a list of status codes: write 200 or 200-299,404");
    let code = |text: &str| {
        let code = text
            .trim()
            .parse::<u16>()
            .ok()
            .filter(|code| (100..=999).contains(code));
        code.ok_or_else(wrong)
    };
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (code(low)?, code(high)?);
        if low <= high {
            Ok((low, high))
        } else {
            Err(wrong())
        }
    };
    text.split(',').map(range).collect()
}

fn statuses(text: &str) -> Result<Statuses, String> {
    status_ranges(text).map(Statuses)
}

fn cpus(text: &str) -> Result<Cpus, String> {
    units::cpus(text).map(Cpus)
}

impl LoadArgs {
    fn options(&self) -> Result<Options, PlanError> {
        let flags = [
            (self.h1, Version::H1),
            (self.h2, Version::H2),
            (self.h2c, Version::H2c),
            (self.h3, Version::H3),
        ];
        let body = match self
            .body
            .as_deref()
            .map(|body| (body, body.strip_prefix('@')))
        {
            None => Vec::new(),
            Some((_, Some("-"))) => from_stdin()?,
            Some((_, Some(file))) => read(Path::new(file), "--body")?.1,
            Some((text, None)) => text.as_bytes().to_vec(),
        };
        let client = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((read(cert, "--cert")?, read(key, "--key")?)),
            _ => None,
        };
        let mut options = Options {
            listed: self.listed()?,
            urls: self.urls.clone(),
            weights: self.weights.clone(),
            version: flags
                .iter()
                .find(|(set, _)| *set)
                .map(|(_, version)| *version),
            connections: self.connections,
            streams: self.streams,
            threads: self.threads,
            requests: self.count,
            duration: self.duration,
            warmup: self.warmup,
            rate: self.rate,
            shed_after: self.shed_after,
            arrivals: match self.arrivals {
                Spread::Constant => Arrivals::Constant,
                Spread::Poisson => Arrivals::Poisson,
            },
            stages: self.stages.clone().map_or_else(Vec::new, |stages| stages.0),
            method: self.method.clone(),
            fields: self.headers.clone(),
            body,
            events: self.events.map(|framed| EventsAsked {
                format: match framed {
                    Framed::Sse => EventFormat::Sse,
                    Framed::Ndjson => EventFormat::Ndjson,
                },
                first: self.first_event.clone(),
                stall: self.stall,
            }),
            statuses: self.expect_status.0.clone(),
            check_body: self.check_body,
            discard_bodies: self.discard_bodies,
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            connect_parallel: self.connect_parallel,
            connect_rate: self.connect_rate,
            requests_per_connection: self
                .requests_per_connection
                .or(self.new_connections.then_some(1)),
            insecure: self.insecure,
            authorities: self
                .cacert
                .iter()
                .map(|file| read(file, "--cacert"))
                .collect::<Result<_, _>>()?,
            client,
            resumption: self.resume == Switch::On,
            early_data: self.early_data,
            tls_version: self.tls.map(|version| match version {
                Tls::V1_2 => TlsVersion::V1_2,
                Tls::V1_3 => TlsVersion::V1_3,
            }),
            ciphers: self.ciphers.clone(),
            sni: self.sni.clone(),
            connect_to: self.connect_to.clone(),
            resolve: self.resolve.clone(),
            spread: self.spread,
            bind: self.bind.clone(),
            proxy: self.proxy.clone(),
            congestion_control: self.congestion_control.clone(),
            io: match self.io {
                Waiting::Auto => Io::default(),
                Waiting::Epoll => Io::Epoll,
                Waiting::Uring => Io::Uring,
            },
            cpus: self.cpus.clone().map_or_else(Vec::new, |cpus| cpus.0),
            server_pids: self.server_pids.clone(),
            slowest: self.slowest,
            stream_window: self.stream_window,
            connection_window: self.connection_window,
            max_frame_size: self.max_frame_size,
            ..Options::default()
        };
        options.call = self.grpc.call(&options)?;
        Ok(options)
    }

    /// The requests of a file, where one was given.
    fn listed(&self) -> Result<Vec<Listed>, PlanError> {
        match (&self.requests, &self.har, self.urls.as_slice()) {
            (Some(_), _, [_, other, ..]) => Err(PlanError::Usage(format!(
                "{other}: with --requests one URL is enough: those of the file are relative to it"
            ))),
            (Some(file), ..) => requests::read(file, self.urls.first().map(String::as_str)),
            (None, Some(file), _) => requests::read_har(file, self.har_host.as_deref()),
            (None, None, _) => Ok(Vec::new()),
        }
    }
}

fn from_stdin() -> Result<Vec<u8>, PlanError> {
    let mut body = Vec::new();
    match std::io::stdin().lock().read_to_end(&mut body) {
        Ok(_) => Ok(body),
        Err(error) => Err(PlanError::Environment(format!(
            "--body: cannot read stdin: {error}"
        ))),
    }
}

fn read(file: &Path, flag: &str) -> Result<PemFile, PlanError> {
    let name = file.display().to_string();
    match fs::read(file) {
        Ok(contents) => Ok((name, contents)),
        Err(error) => Err(PlanError::Environment(format!(
            "{flag}: cannot read {name}: {error}"
        ))),
    }
}

/// Runs the command and gives its exit code.
pub(crate) fn run(arguments: &LoadArgs) -> u8 {
    if let Some(tool) = arguments.compat {
        complain(compat::how(tool));
        return USAGE;
    }
    let options = arguments.options();
    let planned = options.and_then(|options| Ok((Plan::new(&options)?, options)));
    let (plan, options) = match planned {
        Ok(planned) => planned,
        Err(error) => {
            complain(&error);
            return if matches!(error, PlanError::Usage(_)) {
                USAGE
            } else {
                FAILED
            };
        }
    };
    // Before anything is sent: the run may take hours.
    if arguments.output.is_none() && is_stdout_closed() {
        complain(format!(
            "{STDOUT_CLOSED}: write the result to a file by -o, or to nobody by >/dev/null"
        ));
        return FAILED;
    }
    if !arguments.search.is_empty() {
        return search(arguments, &options);
    }
    let mut lines = match arguments.ndjson.as_deref().map(Lines::create).transpose() {
        Ok(lines) => lines,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    let metrics = match arguments.prometheus.map(Metrics::serve).transpose() {
        Ok(metrics) => metrics,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    let control = Interrupt::catch().next();
    let display = Display::start(&control, &plan);
    let outcome = trilane_engine::run_watched(&plan, &control, &mut |second| {
        if let Some(lines) = &mut lines {
            lines.write(second);
        }
        if let Some(metrics) = &metrics {
            metrics.update(second);
        }
    });
    display.finish();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    let percentiles = arguments.hgrm.as_deref();
    let written = [
        print(arguments, &outcome),
        percentiles.map_or(Ok(()), |file| write_percentiles(&outcome, file)),
        lines.map_or(Ok(()), Lines::finish),
    ];
    let errors: Vec<_> = written.into_iter().filter_map(Result::err).collect();
    if !errors.is_empty() {
        errors.iter().for_each(complain);
        return FAILED;
    }
    conclude(arguments, &outcome)
}

/// Runs until the highest rate is known at which everything holds, and gives the exit code.
fn search(arguments: &LoadArgs, options: &Options) -> u8 {
    let goals = &arguments.search;
    let duration = options.duration.unwrap_or(SEARCH_RUN);
    let samples = goals.iter().map(Gate::samples).max().unwrap_or(1);
    // A fifth more than it takes, as arrivals may be at random.
    let lowest = 1.2 * samples as f64 / duration.as_secs_f64();
    let interrupt = Interrupt::catch();
    let run = |rate: Option<f64>| {
        let plan = Plan::new(&Options {
            rate,
            duration: Some(duration),
            arrivals: if rate.is_some() {
                options.arrivals
            } else {
                Arrivals::Constant
            },
            shed_after: options.shed_after.filter(|_| rate.is_some()),
            ..options.clone()
        });
        let plan = plan.map_err(|error| error.to_string())?;
        let control = interrupt.next();
        let display = Display::start(&control, &plan);
        let outcome = trilane_engine::run(&plan, &control);
        display.finish();
        outcome.map_err(|error| error.to_string())
    };
    let searched = search::search(goals, lowest, options.rate, run, |line| tell(line));
    let searched = match searched {
        Ok(searched) => searched,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    let text = match arguments.format {
        Format::Text => Ok(searched.text()),
        Format::Json => serde_json::to_string(&searched)
            .map_err(|error| format!("the result cannot be written as JSON: {error}")),
    };
    let written = text.and_then(|text| write_result(text, arguments.output.as_deref()));
    if let Err(error) = written {
        complain(error);
        return FAILED;
    }
    searched.code()
}

fn print(arguments: &LoadArgs, outcome: &Outcome) -> Result<(), String> {
    let text = match arguments.format {
        Format::Text => report::text(outcome),
        Format::Json => serde_json::to_string(outcome)
            .map_err(|error| format!("the result cannot be written as JSON: {error}"))?,
    };
    write_result(text, arguments.output.as_deref())
}

fn conclude(arguments: &LoadArgs, outcome: &Outcome) -> u8 {
    let breaches: Vec<_> = arguments
        .fail_if
        .iter()
        .filter_map(|gate| gate.breach(outcome))
        .collect();
    for breach in &breaches {
        complain(format!("--fail-if {breach}"));
    }
    if outcome.interrupted {
        INTERRUPTED
    } else if !breaches.is_empty() {
        BREACHED
    } else if outcome.validity.verdict == Verdict::Invalid {
        if let Some(reason) = outcome.validity.reasons.first() {
            complain(format!("the measurement is invalid: {}", reason.text));
        }
        INVALID
    } else {
        OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lists_are_ranges() {
        assert_eq!(statuses("200-299,404").unwrap().0, [(200, 299), (404, 404)]);
        for text in ["", "99", "299-200", "2xx", "200,"] {
            assert!(statuses(text).unwrap_err().contains("write 200"), "{text}");
        }
    }
}
