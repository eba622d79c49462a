//! What a user typed, checked before anything is sent.

mod events;
mod pacing;
mod packets;

use std::sync::Arc;
use std::time::Duration;

use trilane_connection::{QuicConfig, StreamConfig, TlsConfig};
use trilane_transport::{quic, tls};
use trilane_wire::field::is_connection_specific;
use trilane_wire::{h2, h3};
use url::Url;

pub(crate) use self::events::check_events;
use self::pacing::{check_in_flight, check_rate_per_connection};
use self::packets::check_quic;
use crate::cost::ServerClocks;
use crate::grpc::Protocol;
use crate::listed::Listed;
use crate::options::{Arrivals, Options, TlsVersion, Version};
use crate::plan::{Origin, PlanError, Transport, given, usage};
use crate::route::Route;

pub(crate) fn parse_url(text: &str) -> Result<Url, PlanError> {
    let url = match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        // A WebSocket begins as a request of HTTP (RFC 6455 §3).
        Ok(mut url) if matches!(url.scheme(), "ws" | "wss") => {
            let http = url.scheme().replacen("ws", "http", 1);
            if url.set_scheme(&http).is_err() {
                return usage(format!("{text:?} is not a URL: type ws://127.0.0.1:8080/"));
            }
            url
        }
        Ok(url) if text.contains("://") => {
            return usage(format!(
                "{text:?}: scheme {:?} is not spoken here: type http:// or https://",
                url.scheme()
            ));
        }
        other => return usage(not_a_url(text, other.err())),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return usage(format!(
            "{}: user and password in a URL are not sent: type -H 'Authorization: Basic …'",
            url.host_str().unwrap_or_default()
        ));
    }
    Ok(url)
}

/// The authority of a URL, where it is an IPv6 address without its brackets.
pub fn bare_ipv6(text: &str) -> Option<&str> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_bare = authority.matches(':').count() > 1 && !authority.contains(['[', '@']);
    is_bare.then_some(authority)
}

/// Why a text is not a URL, and what to type.
fn not_a_url(text: &str, error: Option<url::ParseError>) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    if let Some(authority) = bare_ipv6(text) {
        let path = &rest[authority.len()..];
        return format!(
            "{text:?} is not a URL: an IPv6 address needs brackets: type {scheme}://[{authority}]{path}, or {scheme}://[::1]:8080/ with a port"
        );
    }
    match error {
        Some(url::ParseError::InvalidPort) => {
            format!("{text:?} is not a URL: its port is not a number from 0 to 65535")
        }
        Some(url::ParseError::RelativeUrlWithoutBase) | None if !text.is_empty() => {
            format!("{text:?} is not a URL: type http://{rest} or https://{rest}")
        }
        Some(error) if text.contains("://") => {
            format!("{text:?} is not a URL: {error}: type http://127.0.0.1:8080/, for example")
        }
        _ => {
            format!("{text:?} is not a URL: type http://127.0.0.1:8080/ or https://127.0.0.1:8080/")
        }
    }
}

pub(crate) fn check_version(
    version: Option<Version>,
    url: &Url,
) -> Result<Option<Version>, PlanError> {
    let https = url.scheme() == "https";
    let secure = || url.as_str().replacen("http://", "https://", 1);
    let plain = || url.as_str().replacen("https://", "http://", 1);
    match (version, https) {
        (Some(Version::H2), false) => usage(format!(
            "--h2 needs TLS: type {} --h2, or {url} --h2c",
            secure()
        )),
        (Some(Version::H3), false) => usage(format!("--h3 needs https: type {} --h3", secure())),
        (Some(Version::H2c), true) => usage(format!(
            "--h2c is HTTP/2 without TLS: type {} --h2c, or {url} --h2",
            plain()
        )),
        (None, false) => Ok(Some(Version::H1)),
        (version, _) => Ok(version),
    }
}

pub(crate) fn check_numbers(options: &Options, version: Option<Version>) -> Result<(), PlanError> {
    let positive = [
        ("-c", options.connections as u64),
        ("-m", options.streams as u64),
        ("-t", options.threads as u64),
        ("-n", options.requests.unwrap_or(1)),
    ];
    for (flag, value) in positive {
        if value == 0 {
            return usage(format!(
                "{flag} 0: there must be at least one: type {flag} 1"
            ));
        }
    }
    for (flag, value, most) in [
        ("-c", options.connections, 1_000_000),
        ("-m", options.streams, 1_000_000),
        ("-t", options.threads, 1024),
    ] {
        if value > most {
            return usage(format!("{flag} {value} is more than {most}"));
        }
    }
    if version == Some(Version::H1) && options.streams > 1 {
        return usage(format!(
            "-m {0}: HTTP/1.1 carries one request at a time on a connection: type -c {1} for as many in flight",
            options.streams,
            options.streams * options.connections
        ));
    }
    for (flag, value) in [
        ("--timeout", options.timeout),
        ("--connect-timeout", options.connect_timeout),
    ] {
        if value < Duration::from_millis(1) {
            return usage(format!("{flag} is below 1ms: type {flag} 10s"));
        }
    }
    if let Some(every) = options.keepalive {
        if version == Some(Version::H1) {
            return usage(
                "--keepalive: HTTP/1.1 has no PING: leave --keepalive out, or type --h2c, --h2 or --h3",
            );
        }
        if every < Duration::from_millis(10) {
            return usage("--keepalive is below 10ms: type --keepalive 10s");
        }
    }
    if options.requests_per_connection == Some(0) {
        return usage(
            "--requests-per-connection 0 sends nothing: type --requests-per-connection 1 for a connection of its own for each request",
        );
    }
    if options.connect_parallel == Some(0) {
        return usage("--connect-parallel 0 connects nothing: type --connect-parallel 8");
    }
    if options.duration == Some(Duration::ZERO) {
        return usage("-d 0 measures nothing: type -d 10s");
    }
    check_arrivals(options)?;
    check_in_flight(options)?;
    check_quic(options, version)?;
    // RFC 9113 §6.5.2.
    let (least, most) = (16_384, 16_777_215);
    if !(least..=most).contains(&options.max_frame_size) {
        return usage(format!(
            "--max-frame-size {} is not between {least} and {most} bytes: type --max-frame-size 128k",
            options.max_frame_size
        ));
    }
    for (flag, value) in [
        ("--stream-window", options.stream_window),
        ("--connection-window", options.connection_window),
    ] {
        if !(65_535..=0x7fff_ffff).contains(&value) {
            return usage(format!(
                "{flag} {value} is not between 65535 and 2147483647 bytes: type {flag} 16m"
            ));
        }
    }
    Ok(())
}

/// Stages say how long a run takes and how much it sends, and only a rate has arrivals.
fn check_arrivals(options: &Options) -> Result<(), PlanError> {
    let has_rate = options.rate.is_some() || options.rate_per_connection.is_some();
    if options.shed_after.is_some() && !has_rate && options.stages.is_empty() {
        return usage(
            "--shed-after is about requests that are due at a time, and without a rate none is: type it with -R 1k",
        );
    }
    check_rate_per_connection(options)?;
    if options.stages.is_empty() {
        if options.arrivals == Arrivals::Poisson && options.rate.is_none() {
            return usage(
                "--arrivals poisson spreads requests over a rate, and there is none: type it with -R 1k",
            );
        }
        return Ok(());
    }
    if let Some(flag) = given(&[
        ("-R", options.rate.is_some()),
        ("-n", options.requests.is_some()),
        ("-d", options.duration.is_some()),
        ("--warmup", options.warmup.is_some()),
    ]) {
        return usage(format!(
            "{flag} and --stages do not go together: stages say themselves how long they take and how many requests they send"
        ));
    }
    if options.stages.iter().any(|stage| stage.length.is_zero()) {
        return usage(
            "a stage of --stages takes no time: type for example --stages '10s:1k,30s:1k'",
        );
    }
    if options.stages.iter().all(|stage| stage.rate == 0.0) {
        return usage("--stages send nothing at all: type for example --stages '10s:1k,30s:1k'");
    }
    Ok(())
}

/// gRPC needs HTTP/2 or HTTP/3, and so do streams to the server in any protocol: ALPN is not to choose anything
/// else.
pub(crate) fn check_call_version(
    options: &Options,
    listed: &[Listed],
    url: &Url,
) -> Result<Option<Version>, PlanError> {
    let https = url.scheme() == "https";
    let calls = listed.iter().filter_map(|each| each.call.as_ref());
    let mut calls = calls.chain(&options.call);
    let streams = calls.find(|call| call.method.kind().streams_requests());
    if options.calls.protocol != Protocol::Grpc {
        match (options.version, streams) {
            (_, None) => return check_version(options.version, url),
            (Some(Version::H1), Some(call)) => {
                return usage(format!(
                    "--h1: {} sends a stream, which needs HTTP/2 or HTTP/3: type --h2c (http), --h2 or --h3 (https)",
                    call.method.full_name()
                ));
            }
            _ => (),
        }
    }
    match (options.version, https) {
        (Some(Version::H1), _) => usage(
            "--grpc needs HTTP/2 or HTTP/3: leave --h1 out, or type --h2c (http), --h2 or --h3 (https)",
        ),
        (None, false) => Ok(Some(Version::H2c)),
        (None, true) => Ok(Some(Version::H2)),
        (version, _) => check_version(version, url),
    }
}

/// Refuses fields that would be sent in one version and vanish in the others.
pub(crate) fn check_fields(
    options: &Options,
    listed: &[Listed],
    version: Option<Version>,
) -> Result<(), PlanError> {
    if matches!(version, None | Some(Version::H1)) {
        return Ok(());
    }
    let refused = |names: &mut dyn Iterator<Item = &str>| {
        let mut lower = names.map(|name| name.trim().to_ascii_lowercase());
        let name = lower.find(|name| is_connection_specific(name.as_bytes()))?;
        Some(PlanError::Usage(format!(
            "-H {name:?}: HTTP/2 and HTTP/3 have no such field (RFC 9113 §8.2.2): leave it out, or type --h1"
        )))
    };
    let all = options
        .fields
        .iter()
        .filter_map(|text| text.split_once(':'));
    let of_all = refused(&mut all.map(|(name, _)| name));
    let of_one = || {
        listed.iter().find_map(|each| {
            let names = each.fields.iter().map(|(name, _)| name.as_str());
            refused(&mut { names }).map(|error| each.place(error))
        })
    };
    of_all.or_else(of_one).map_or(Ok(()), Err)
}

/// Refuses lists that say less, or other things, than they seem to.
pub(crate) fn check_listed(options: &Options, listed: &[Listed]) -> Result<(), PlanError> {
    let (weights, urls) = (options.weights.len(), options.urls.len());
    if weights > 0 && weights != urls {
        return usage(format!(
            "--weights has {weights} numbers for {urls} URLs: give one for each"
        ));
    }
    match listed.iter().find(|each| each.weight == 0) {
        Some(each) => Err(each.place(PlanError::Usage(
            "the weight 0 is a request that is never sent: leave it out, or give it 1".into(),
        ))),
        None => Ok(()),
    }
}

/// A scenario says what is sent when, and looks into every response.
pub(crate) fn check_scenario(options: &Options) -> Result<(), PlanError> {
    let Some(scenario) = &options.scenario else {
        return Ok(());
    };
    if scenario.steps.len() != options.listed.len() {
        return usage("a scenario has a step for each of its requests");
    }
    for (flag, given, why) in [
        ("--grpc", options.are_calls(), "sends requests, no calls"),
        (
            "--events",
            options.events.is_some(),
            "awaits whole responses",
        ),
        ("--check-body", options.check_body, "has checks of its own"),
        (
            "--discard-bodies",
            options.discard_bodies,
            "looks into responses",
        ),
        ("--early-data", options.early_data, "awaits each response"),
        (
            "--rate-per-connection",
            options.rate_per_connection.is_some(),
            "has users that share the connections",
        ),
        (
            "--stages-in-flight",
            !options.stages_in_flight.is_empty(),
            "has as many in flight as its users send",
        ),
    ] {
        if given {
            return usage(format!("{flag}: a scenario {why}: leave {flag} out"));
        }
    }
    match scenario.users {
        Some(0) => usage("--users 0: nobody sends anything: type --users 1"),
        Some(users) if users > 1_000_000 => usage(format!("--users {users} is more than 1000000")),
        _ => Ok(()),
    }
}

/// Early data can be replayed, needs a ticket, and leaves before ALPN has chosen a version.
pub(crate) fn check_early_data(
    options: &Options,
    version: Option<Version>,
    url: &str,
    methods: &[String],
) -> Result<(), PlanError> {
    const SAFE: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];
    if !options.early_data {
        return Ok(());
    }
    if let Some(method) = methods
        .iter()
        .find(|method| !SAFE.contains(&method.as_str()))
    {
        return usage(format!(
            "--early-data with {method}: whoever is on the way can replay early data, so only safe methods go there (RFC 8470): leave --early-data out, or request by GET, HEAD, OPTIONS or TRACE"
        ));
    }
    if !options.resumption {
        return usage(
            "--early-data with --resume off: early data needs the ticket of an earlier connection: type --resume on, or leave --early-data out",
        );
    }
    match version {
        None => usage(
            "--early-data leaves before ALPN has chosen a version: type --h1, --h2 or --h3 with it",
        ),
        Some(_) if !url.starts_with("https:") => usage(format!(
            "--early-data is a part of TLS and QUIC, and {url} has neither: type {}",
            url.replacen("http://", "https://", 1)
        )),
        Some(_) => Ok(()),
    }
}

/// QUIC is TLS 1.3 (RFC 9001 §4.2), and without TLS there is neither version nor cipher.
pub(crate) fn check_tls(
    options: &Options,
    version: Option<Version>,
    url: &Url,
) -> Result<(), PlanError> {
    tls::check_offer(options.tls_version, &options.ciphers)
        .map_err(|error| PlanError::Usage(format!("--ciphers: {error}")))?;
    let flag = match (options.tls_version, options.ciphers.as_slice()) {
        (Some(TlsVersion::V1_2), _) if version == Some(Version::H3) => {
            return usage("--tls 1.2 with --h3: QUIC is TLS 1.3: leave --tls out, or type --h2");
        }
        (Some(TlsVersion::V1_2), _) if options.early_data => {
            return usage(
                "--tls 1.2 with --early-data: early data came with TLS 1.3: type --tls 1.3",
            );
        }
        (Some(_), _) => "--tls",
        (None, [_, ..]) => "--ciphers",
        (None, []) => return Ok(()),
    };
    if url.scheme() == "https" {
        return Ok(());
    }
    usage(format!(
        "{flag} is about TLS, and {url} has none: type https:// instead of http://"
    ))
}

/// Only where a length says how much is thrown away, and nothing has to be decrypted for it.
pub(crate) fn check_discarding(
    options: &Options,
    version: Option<Version>,
    tls: bool,
) -> Result<(), PlanError> {
    if !options.discard_bodies {
        return Ok(());
    }
    if version != Some(Version::H1) || tls {
        return usage(
            "--discard-bodies works over HTTP/1.1 without TLS, where a body is all that comes: type a URL with http:// and --h1",
        );
    }
    Ok(())
}

/// The clocks of the server's processes.
pub(crate) fn server_clocks(pids: &[u32]) -> Result<ServerClocks, PlanError> {
    ServerClocks::new(pids).or_else(|pid| {
        usage(format!(
            "--server-pid {pid}: no such process runs here: type the number that ps or `trilane serve` tells"
        ))
    })
}

/// The controller of QUIC connections: the kernel has those of TCP, and refuses what it does not have.
pub(crate) fn congestion(
    options: &Options,
    version: Option<Version>,
) -> Result<quic::Congestion, PlanError> {
    let Some(asked) = &options.congestion_control else {
        return Ok(quic::Congestion::default());
    };
    let mut known = quic::Congestion::ALL.into_iter();
    match known.find(|each| each.name() == asked) {
        Some(found) => Ok(found),
        None if version == Some(Version::H3) => usage(format!(
            "--congestion-control {asked}: over HTTP/3 there are cubic, reno and bbr"
        )),
        None => Ok(quic::Congestion::default()),
    }
}

/// Certificates are read, and how connections are made is settled.
pub(crate) fn transport(
    options: &Options,
    origin: &Origin,
    route: &Route,
    version: Option<Version>,
    congestion: quic::Congestion,
    is_socket: bool,
) -> Result<Transport, PlanError> {
    use trilane_connection::Version as Spoken;

    let versions: &[Spoken] = match version {
        Some(Version::H1) => &[Spoken::H1],
        Some(Version::H2 | Version::H2c) => &[Spoken::H2],
        Some(Version::H3) => &[Spoken::H3],
        None => &[Spoken::H2, Spoken::H1],
    };
    let alpn = |version: &Spoken| match version {
        Spoken::H1 => b"http/1.1".to_vec(),
        Spoken::H2 => b"h2".to_vec(),
        Spoken::H3 => b"h3".to_vec(),
    };
    let tls = || {
        tls::Config::new(&tls::Options {
            authorities: options.authorities.clone(),
            insecure: options.insecure,
            client: options.client.clone(),
            alpn: versions.iter().map(alpn).collect(),
            resumption: options.resumption,
            early_data: options.early_data,
            version: options.tls_version,
            ciphers: options.ciphers.clone(),
            ..tls::Options::default()
        })
        .map_err(|error| PlanError::Environment(error.to_string()))
    };
    let server_name = origin.server_name.clone();
    if version != Some(Version::H3) {
        let tls = origin.tls.then(tls).transpose()?;
        return Ok(Transport::Stream(Arc::new(StreamConfig {
            tunnel: route.tunnel()?,
            proxy_tls: None,
            tls: tls.map(|config| TlsConfig {
                config,
                server_name,
            }),
            versions: versions.to_vec(),
            h2: h2::Config {
                stream_window: options.stream_window,
                connection_window: options.connection_window,
                max_streams: options.streams as u32,
                max_frame: options.max_frame_size,
                // A server may allow as few, and close the connection of who opens more. Later connections open
                // as many as it has allowed before.
                streams_before_settings: u32::from(!is_socket),
                ..h2::Config::default()
            },
            phase_timeout: Some(options.connect_timeout),
        })));
    }
    let quic = quic::Config::new(
        &tls()?,
        &quic::Options {
            stream_window: options.stream_window.into(),
            connection_window: options.connection_window.into(),
            handshake_timeout: options.connect_timeout,
            // A response may take longer than the idle timeout of either side.
            keep_alive: Some(options.keepalive.unwrap_or(Duration::from_secs(10))),
            congestion,
            initial_mtu: options
                .quic_initial_packet_size
                .and_then(|size| size.try_into().ok())
                .unwrap_or(quic::Options::default().initial_mtu),
            mtu_discovery: options.quic_mtu_discovery.then_some(quic::LARGEST_PROBE),
            ack_frequency: options.quic_ack_frequency,
            ..quic::Options::default()
        },
    )
    .map_err(|error| PlanError::Environment(error.to_string()))?;
    Ok(Transport::Quic(Arc::new(QuicConfig {
        quic,
        h3: h3::Config {
            max_streams: options.streams as u32,
            ..h3::Config::default()
        },
        server_name,
    })))
}
