//! What a run does: parsed once, valid by construction.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trilane_connection::{QuicConfig, StreamConfig};
use trilane_wire::Request;
use url::Url;

use crate::announced::Announced;
use crate::asked::Asked;
use crate::changing::Changing;
use crate::checks::{
    check_call_version, check_discarding, check_early_data, check_events, check_fields,
    check_listed, check_numbers, check_scenario, check_tls, check_version, congestion,
    server_clocks, transport,
};
use crate::cost::ServerClocks;
use crate::events::EventsPlan;
use crate::grpc::CallsPlan;
use crate::listed::turns;
pub(crate) use crate::options::{Arrivals, InFlightStage, Options, RateStage, Version};
use crate::origin::{self, Assignment, OriginPlan};
use crate::prepare::{self, Prepared};
use crate::route::Route;
use crate::scenario::{self, ScenarioPlan};
use crate::template::Templates;
use crate::turns::Turns;
use crate::websocket::SocketPlan;

/// Why there is no plan. `Usage` is the user's to mend on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// Wrong use, with what to type instead.
    Usage(String),
    /// The options are right but cannot be carried out here.
    Environment(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (PlanError::Usage(text) | PlanError::Environment(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for PlanError {}

/// What requests are for.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    /// The name in the TLS handshake.
    pub(crate) server_name: String,
}

/// When the next request leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Model {
    /// As soon as a stream is free.
    Closed,
    /// When it is due, whatever the responses do; requests per second over all workers, on average.
    Open(f64),
}

/// How connections are made.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    /// Over TCP, with TLS or without.
    Stream(Arc<StreamConfig>),
    /// Over UDP.
    Quic(Arc<QuicConfig>),
}

/// A plan that can be run.
#[derive(Debug)]
pub struct Plan {
    pub(crate) url: String,
    pub(crate) asked: Asked,
    /// Where requests go to; one at least.
    pub(crate) origins: Vec<OriginPlan>,
    /// For each of the requests which of them it goes to.
    pub(crate) origin_of: Arc<[u32]>,
    /// What each connection says first, where it says anything.
    pub(crate) announced: Option<Announced>,
    pub(crate) version: Option<Version>,
    pub(crate) connections: usize,
    pub(crate) streams: usize,
    pub(crate) threads: usize,
    pub(crate) requests: Option<u64>,
    pub(crate) duration: Option<Duration>,
    pub(crate) warmup: Duration,
    pub(crate) model: Model,
    pub(crate) arrivals: Arrivals,
    pub(crate) stages: Vec<RateStage>,
    pub(crate) rate_per_connection: Option<f64>,
    pub(crate) stages_in_flight: Vec<InFlightStage>,
    pub(crate) shed_after: Option<Duration>,
    pub(crate) method: String,
    pub(crate) prepared: Vec<Request>,
    /// For each of them what changes each time it is sent; empty where nothing does in any.
    pub(crate) changing: Vec<Option<Changing>>,
    /// The order in which they take turns.
    pub(crate) turns: Arc<[u32]>,
    /// Where the requests are gRPC calls.
    pub(crate) calls: Option<CallsPlan>,
    /// Where the requests are WebSocket sessions.
    pub(crate) websocket: Option<SocketPlan>,
    /// What is asked about events in the content of responses.
    pub(crate) events: Option<EventsPlan>,
    /// What virtual users do with the requests, where there are such.
    pub(crate) scenario: Option<ScenarioPlan>,
    /// Status codes that count as ok, for each of the requests.
    statuses: Vec<Vec<(u16, u16)>>,
    pub(crate) check_body: bool,
    pub(crate) discard_bodies: bool,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) connect_parallel: Option<usize>,
    pub(crate) connect_rate: Option<f64>,
    pub(crate) requests_per_connection: Option<u64>,
    /// How often connections over HTTP/2 ask whether the server is there.
    pub(crate) keepalive: Option<Duration>,
    pub(crate) spread: bool,
    pub(crate) early_data: bool,
    pub(crate) resumption: bool,
    pub(crate) congestion_control: Option<String>,
    pub(crate) quic_ack_frequency: Option<u32>,
    /// Whether the HTTP/3 connections of a worker share a socket.
    pub(crate) quic_shared_socket: bool,
    pub(crate) cpus: Vec<usize>,
    pub(crate) server: ServerClocks,
    pub(crate) in_turn: Option<Turns>,
    /// Requests that are told one by one, the slowest.
    pub(crate) slowest: usize,
    pub(crate) stream_window: u32,
    pub(crate) connection_window: u32,
    pub(crate) max_frame_size: u32,
}

/// The first of the flags that was given.
pub(crate) fn given<'a>(flags: &[(&'a str, bool)]) -> Option<&'a str> {
    let mut given = flags.iter().filter(|(_, given)| *given);
    given.next().map(|(flag, _)| *flag)
}

/// What is wrong with a regular expression, in one line: the library draws the place over several.
pub(crate) fn wrong_regex(error: &regex::Error) -> String {
    let told = error.to_string();
    let told: Vec<_> = told.lines().map(str::trim).collect();
    told.join(" ")
}

pub(crate) fn usage<T>(text: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::Usage(text.into()))
}

impl Plan {
    /// Checks `options` and prepares requests and TLS.
    pub fn new(options: &Options) -> Result<Self, PlanError> {
        let listed = options.all_listed();
        let variables = options.scenario.as_ref().map(scenario::variables);
        let mut templates = Templates::new(variables.unwrap_or_default());
        let targets = listed
            .iter()
            .map(|each| {
                templates
                    .parse_url(&each.url)
                    .map_err(|error| each.place(error))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if targets.is_empty() {
            return usage("no URL: type for example trilane load http://127.0.0.1:8080/hello");
        }
        let assignment = Assignment::new(targets.iter().map(|(url, _)| url));
        check_listed(options, &listed)?;
        let websocket = SocketPlan::new(options, &listed)?;
        check_scenario(options)?;
        let version_of = |url: &Url| match &websocket {
            _ if options.are_calls() => check_call_version(options, &listed, url),
            Some(socket) => Ok(Some(socket.version)),
            None => check_version(options.version, url),
        };
        assignment.check(options, &listed, version_of)?;
        let version = version_of(assignment.first())?;
        check_numbers(options, version)?;
        Turns::check(options)?;
        check_fields(options, &listed, version)?;
        for (url, _) in &assignment.firsts {
            check_tls(options, version, url)?;
        }
        let announced = Announced::new(options, version)?;
        let ten_seconds = options
            .requests
            .is_none()
            .then_some(Duration::from_secs(10));
        // A run in stages has its own way up.
        let in_stages = !options.stages.is_empty() || !options.stages_in_flight.is_empty();
        let default_warmup = if options.requests.is_some() || in_stages {
            Duration::ZERO
        } else {
            Duration::from_secs(1)
        };

        let calls = CallsPlan::new(options, &listed, &mut templates)?;
        check_events(options, calls.as_ref(), websocket.as_ref())?;
        let step_urls = targets.iter().zip(&*assignment.of);
        let step_urls = step_urls.map(|((url, _), &origin)| (url.clone(), origin as usize));
        let step_urls = step_urls.collect();
        let Prepared {
            methods,
            requests: prepared,
            changing,
            with_cookies,
        } = match &calls {
            Some(calls) => prepare::calls(options, calls, &listed, &targets, &mut templates)?,
            None => match &websocket {
                Some(socket) => prepare::handshakes(options, socket, &targets)?,
                None => prepare::requests(options, &listed, targets, &mut templates)?,
            },
        };
        let weights: Vec<_> = listed.iter().map(|each| each.weight).collect();
        for (url, _) in &assignment.firsts {
            check_early_data(options, version, url.as_str(), &methods)?;
            check_discarding(options, version, url.scheme() == "https")?;
        }
        let streams = if version == Some(Version::H1) {
            1
        } else {
            options.streams
        };
        let threads = options.threads.min(options.connections);
        let scenario = options.scenario.as_ref().map(|scenario| {
            let in_flight = options.connections * streams;
            let uses = |at| {
                let changing: Option<&Changing> = changing.get(at).and_then(Option::as_ref);
                changing.map_or_else(Vec::new, |changing| changing.variables().collect())
            };
            let uses: Vec<Vec<usize>> = (0..listed.len()).map(uses).collect();
            ScenarioPlan::new(
                scenario,
                &listed,
                step_urls,
                with_cookies,
                &uses,
                in_flight,
                threads,
            )
        });
        let congestion = congestion(options, version)?;
        let is_socket = websocket.is_some();
        let smallest_sections = assignment.smallest_sections(&prepared);
        let origins = assignment.firsts.iter().zip(smallest_sections);
        let origins = origins.map(|((url, _), smallest_section)| {
            let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
            let route = Route::new(options, host, url.port_or_known_default().unwrap_or(0))?;
            let origin = Origin {
                tls: url.scheme() == "https",
                server_name: options.sni.clone().unwrap_or_else(|| host.to_owned()),
            };
            Ok::<_, PlanError>(OriginPlan {
                name: origin::name(url),
                transport: transport(options, &origin, &route, version, congestion, is_socket)?,
                route,
                smallest_section,
            })
        });
        Ok(Self {
            url: trilane_text::url(&listed[0].url).into_owned(),
            asked: Asked::from(options),
            origins: origins.collect::<Result<_, _>>()?,
            origin_of: assignment.of,
            announced,
            version,
            connections: options.connections,
            streams,
            threads,
            requests: options.requests,
            duration: stages_length(options).or(options.duration).or(ten_seconds),
            warmup: options.warmup.unwrap_or(default_warmup),
            model: match options.rate.or(mean_rate(options)) {
                Some(rate) => Model::Open(rate),
                None => Model::Closed,
            },
            arrivals: options.arrivals,
            stages: options.stages.clone(),
            rate_per_connection: options.rate_per_connection,
            stages_in_flight: options.stages_in_flight.clone(),
            shed_after: options.shed_after,
            method: methods[0].clone(),
            prepared,
            changing,
            turns: turns(&weights)?,
            calls,
            // That of QUIC is its own.
            keepalive: options.keepalive.filter(|_| version != Some(Version::H3)),
            // A session over HTTP/1.1 has its connection for itself (RFC 6455 §4.1).
            requests_per_connection: match &websocket {
                Some(socket) if !socket.is_multiplexed() => Some(1),
                _ => options.requests_per_connection,
            },
            websocket,
            events: options.events.as_ref().map(EventsPlan::new).transpose()?,
            scenario: scenario.transpose()?,
            statuses: listed
                .iter()
                .map(|each| accepted(&each.statuses, &options.statuses))
                .collect(),
            check_body: options.check_body,
            discard_bodies: options.discard_bodies,
            timeout: options.timeout,
            connect_timeout: options.connect_timeout,
            connect_parallel: options.connect_parallel,
            connect_rate: options.connect_rate,
            spread: options.spread,
            early_data: options.early_data,
            resumption: options.resumption,
            quic_ack_frequency: options.quic_ack_frequency,
            quic_shared_socket: options.quic_shared_socket,
            congestion_control: match version {
                Some(Version::H3) => Some(congestion.name().to_owned()),
                _ => options.congestion_control.clone(),
            },
            cpus: options.cpus.clone(),
            server: server_clocks(&options.server_pids)?,
            in_turn: options.in_turn,
            slowest: options.slowest,
            stream_window: options.stream_window,
            connection_window: options.connection_window,
            max_frame_size: options.max_frame_size,
        })
    }

    /// How long the run lasts when nothing goes wrong: warm-up and measurement; `None` for a run
    /// that ends by its number of requests.
    pub fn expected(&self) -> Option<Duration> {
        self.duration
            .map(|duration| self.takes(duration + self.warmup))
    }

    /// How long the run takes to have so much time for itself.
    pub(crate) fn takes(&self, own: Duration) -> Duration {
        self.in_turn.map_or(own, |turns| turns.whole(own))
    }

    /// The first URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How long is not measured at its begin.
    pub fn warmup(&self) -> Duration {
        self.warmup
    }

    /// How many threads the run has, on all machines together: as many as were asked for, and no more than connections.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Whether the rate and the number of requests are those of iterations of a scenario.
    pub fn counts_iterations(&self) -> bool {
        self.scenario.is_some()
    }

    /// How many requests the run sends, where that ends it.
    pub fn requests(&self) -> Option<u64> {
        self.requests
    }

    /// The deadline of each call, where it comes before the timeout.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let calls = self.calls.as_ref()?;
        // The timeout of a stream may count from its last message, and so never come.
        calls
            .asked
            .deadline
            .filter(|deadline| *deadline <= self.timeout || calls.receives_streams())
    }

    /// Whether requests are there before they can leave: by a schedule, by virtual users, in an order over
    /// several origins, or because the connections that carried those before them are replaced.
    pub(crate) fn has_waiting_requests(&self) -> bool {
        self.sends_when_due() || self.requests_per_connection.is_some()
    }

    /// How long the requests take at their rate that a run of the open model is to send, in nanoseconds, where
    /// their number ends it.
    pub(crate) fn least_length(&self) -> Option<u64> {
        match (self.model, self.requests) {
            (Model::Open(rate), Some(requests)) => Some((requests as f64 / rate * 1e9) as u64),
            _ => None,
        }
    }

    /// Whether requests are due at a time, and not whenever a stream is free.
    pub(crate) fn sends_when_due(&self) -> bool {
        self.model != Model::Closed || self.scenario.is_some() || self.has_several_origins()
    }

    /// When a request is given up.
    pub(crate) fn patience(&self) -> Duration {
        self.deadline().unwrap_or(self.timeout)
    }

    /// Whether each of the requests takes 200 for an answer.
    pub(crate) fn takes_pages(&self) -> bool {
        let mut each = self.statuses.iter();
        each.all(|ranges| {
            ranges
                .iter()
                .any(|&(low, high)| (low..=high).contains(&200))
        })
    }

    /// Whether a response to this of the requests counts as ok by its status.
    pub(crate) fn accepts(&self, request: u32, status: u16) -> bool {
        self.statuses[request as usize]
            .iter()
            .any(|&(low, high)| (low..=high).contains(&status))
    }
}

/// The status codes that count as ok for a request that has `own` ones, in a run with those of all.
pub(crate) fn accepted(own: &[(u16, u16)], all: &[(u16, u16)]) -> Vec<(u16, u16)> {
    match (own, all) {
        ([], []) => vec![(200, 399)],
        ([], ranges) | (ranges, _) => ranges.to_vec(),
    }
}

/// How long all stages take, of either model.
fn stages_length(options: &Options) -> Option<Duration> {
    let of_rate = options.stages.iter().map(|stage| stage.length);
    let in_flight = options.stages_in_flight.iter().map(|stage| stage.length);
    of_rate.chain(in_flight).reduce(|sum, length| sum + length)
}

/// Requests per second of the open model, on average over all stages and over all connections.
fn mean_rate(options: &Options) -> Option<f64> {
    if let Some(rate) = options.rate_per_connection {
        return Some(rate * options.connections as f64);
    }
    let length = stages_length(options)?.as_secs_f64();
    if options.stages.is_empty() {
        return None;
    }
    let mut from = 0.0;
    let areas = options.stages.iter().map(|stage| {
        let before = std::mem::replace(&mut from, stage.rate);
        stage.length.as_secs_f64() * (before + stage.rate) / 2.0
    });
    Some(areas.sum::<f64>() / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(url: &str, change: impl FnOnce(&mut Options)) -> Result<Plan, PlanError> {
        let mut options = Options {
            urls: vec![url.into()],
            ..Options::default()
        };
        change(&mut options);
        Plan::new(&options)
    }

    fn message(url: &str, change: impl FnOnce(&mut Options)) -> String {
        plan(url, change).unwrap_err().to_string()
    }

    #[test]
    fn what_a_version_cannot_do_is_refused() {
        let h3 = |o: &mut Options| o.version = Some(Version::H3);
        let with = |name: &'static str| {
            move |o: &mut Options| {
                h3(o);
                o.congestion_control = Some(name.into());
            }
        };
        assert!(message("https://a/", with("vegas")).contains("cubic, reno and bbr"));
        let ran = |change: &dyn Fn(&mut Options)| plan("https://a/", change).unwrap();
        assert_eq!(ran(&with("bbr")).congestion_control.unwrap(), "bbr");
        assert_eq!(ran(&h3).congestion_control.unwrap(), "cubic");
        let close = |o: &mut Options| o.fields = vec!["Connection: close".into()];
        let told = message("https://a/", |o| {
            h3(o);
            close(o);
        });
        assert!(
            told.contains("\"connection\"") && told.contains("--h1"),
            "{told}"
        );
        plan("http://a/", close).unwrap();
    }

    #[test]
    fn http_means_h1_unless_h2c_is_asked() {
        assert_eq!(
            plan("http://a/", |_| ()).unwrap().version,
            Some(Version::H1)
        );
        let h2c = plan("http://a/", |o| o.version = Some(Version::H2c)).unwrap();
        assert_eq!(h2c.version, Some(Version::H2c));
    }

    #[test]
    fn wrong_use_says_what_to_type() {
        assert_eq!(
            message("localhost:8080/x", |_| ()),
            "\"localhost:8080/x\" is not a URL: type http://localhost:8080/x or https://localhost:8080/x"
        );
        for (url, told) in [
            (
                "http://a:99999/",
                "its port is not a number from 0 to 65535",
            ),
            ("http://a:http/", "its port is not a number from 0 to 65535"),
            (
                "http://::1:8080/x",
                "type http://[::1:8080]/x, or http://[::1]:8080/",
            ),
            (
                "fe80::1",
                "an IPv6 address needs brackets: type http://[fe80::1]",
            ),
            ("http://[::1/", "invalid IPv6 address"),
            ("", "type http://127.0.0.1:8080/"),
        ] {
            let said = message(url, |_| ());
            assert!(
                said.contains("is not a URL") && said.contains(told),
                "{url}: {said}"
            );
        }
        assert_eq!(
            message("http://a/x", |o| o.version = Some(Version::H3)),
            "--h3 needs https: type https://a/x --h3"
        );
        assert!(message("http://a/", |o| o.streams = 16).contains("type -c 1024"));
        assert!(message("http://a/", |o| o.connections = 0).contains("type -c 1"));
        assert!(message("http://a/", |o| o.fields = vec!["x".into()]).contains("-H 'Name: value'"));
        assert!(
            message("http://a/", |o| o.connect_to = Some("::1".into())).contains("--connect-to")
        );
        assert!(message("http://u:p@a/", |_| ()).contains("Authorization"));
        assert!(message("ftp://a/", |_| ()).contains("type http://"));
    }

    #[test]
    fn early_data_is_for_safe_methods_a_known_version_and_resumed_sessions() {
        let early = |change: &'static dyn Fn(&mut Options)| {
            move |o: &mut Options| {
                o.early_data = true;
                o.version = Some(Version::H2);
                change(o);
            }
        };
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            let mut options = Options {
                method: Some(method.into()),
                ..Options::default()
            };
            options.urls = vec!["https://a/".into()];
            early(&|_| ())(&mut options);
            Plan::new(&options).unwrap();
        }
        let told = message("https://a/", early(&|o| o.body = b"x".to_vec()));
        assert!(told.contains("with POST") && told.contains("GET"), "{told}");
        let told = message("https://a/", early(&|o| o.resumption = false));
        assert!(told.contains("type --resume on"), "{told}");
        let told = message("https://a/", early(&|o| o.version = None));
        assert!(told.contains("type --h1, --h2 or --h3"), "{told}");
        let told = message("http://a/", early(&|o| o.version = Some(Version::H2c)));
        assert!(told.contains("type https://a/"), "{told}");
    }

    #[test]
    fn a_plan_without_an_end_lasts_ten_seconds() {
        let plan = plan("http://a/", |_| ()).unwrap();
        assert_eq!(plan.expected(), Some(Duration::from_secs(11)));
    }

    #[test]
    fn a_counted_plan_has_no_warm_up() {
        let plan = plan("http://a/", |o| o.requests = Some(5)).unwrap();
        assert_eq!((plan.expected(), plan.warmup), (None, Duration::ZERO));
    }

    #[test]
    fn the_body_makes_it_a_post() {
        let plan = plan("http://a/", |o| o.body = b"x".to_vec()).unwrap();
        assert_eq!(plan.method, "POST");
        assert!(
            plan.prepared[0]
                .h1_head()
                .starts_with(b"POST / HTTP/1.1\r\nHost: a\r\n")
        );
    }

    #[test]
    fn ipv6_authorities_keep_their_brackets() {
        let plan = plan("https://[::1]:81/?q", |o| {
            o.connect_to = Some("[::2]:82".into())
        })
        .unwrap();
        assert!(
            plan.prepared[0]
                .h1_head()
                .starts_with(b"GET /?q HTTP/1.1\r\nHost: [::1]:81\r\n")
        );
        let [
            OriginPlan {
                route, transport, ..
            },
        ] = &plan.origins[..]
        else {
            panic!("one origin")
        };
        assert_eq!((route.host.as_str(), route.port), ("::2", 82));
        let Transport::Stream(config) = transport else {
            panic!("no byte stream")
        };
        assert_eq!(config.tls.as_ref().unwrap().server_name, "::1");
    }
}
