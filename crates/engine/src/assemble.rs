//! What the workers brought home becomes the outcome.

mod content;
mod set_up;
mod totals;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::allowance::InFlightStageOut;
use crate::cluster::WorkerOut;
use crate::connections::ConnectionsOut;
use crate::context::Learned;
use crate::cost::Spent;
use crate::latency::{Durations, percentiles};
use crate::origin::OriginOut;
use crate::outcome::{
    BodiesOut, Bytes, Cost, Distribution, EarlyResponses, EventsOut, Grpc, Latency, MostOut,
    Outcome, PhasesOut, PlanOut, Rate, Requests, StageOut, Target, WebSocketOut, WindowOut,
};
use crate::plan::{Model, Plan, Version};
use crate::record::{Bodies, Recorder, Window};
use crate::scenario::ScenarioOut;
use crate::stage::WINDOW;
use crate::tally::FirstResponse;
use crate::turns::TurnsOut;
use crate::validity::{Circumstances, Validity, Verdict, judge};
use crate::windows;
use crate::worker::Report;

pub(crate) use self::totals::Totals;

impl WindowOut {
    pub(crate) fn new(window: &Window, is_open_model: bool) -> Self {
        Self {
            // Divided, so that it is the decimal number that people expect.
            start_s: window.index as f64 / (1_000_000_000 / WINDOW) as f64,
            length_s: window.length_ns as f64 / 1e9,
            ok: window.ok,
            failed: window.failed,
            p50: window.service.quantile(0.5),
            p99: window.service.quantile(0.99),
            latencies: window.service.steps(),
            open: window.open,
            in_flight: window.in_flight,
            backlog: is_open_model.then_some(window.backlog),
            cpu_s: window.cpu_s,
            server_cpu_s: window.server_cpu_s,
        }
    }
}

impl Distribution {
    /// The percentiles in HdrHistogram's own text format (`.hgrm`), in milliseconds; `None` where `hdr`
    /// is not what it says.
    pub fn hgrm(&self) -> Option<String> {
        percentiles(&self.hdr)
    }
}

/// What is known of the machine that a run was on, or of all of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) started_at: SystemTime,
    pub(crate) dns: Duration,
    pub(crate) steal: f64,
    /// The share of its processors that other programs took, where that is known.
    pub(crate) others: Option<f64>,
    /// Whether the server runs on it, and left none of its processors idle.
    pub(crate) server_is_full: bool,
    pub(crate) interrupted: bool,
    pub(crate) peak_rss_bytes: Option<u64>,
}

impl Machine {
    /// Adds another machine of the same run.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.started_at = self.started_at.min(other.started_at);
        self.dns = self.dns.max(other.dns);
        self.steal = self.steal.max(other.steal);
        self.others = self.others.into_iter().chain(other.others).reduce(f64::max);
        self.server_is_full |= other.server_is_full;
        self.interrupted |= other.interrupted;
        let both = self.peak_rss_bytes.zip(other.peak_rss_bytes);
        self.peak_rss_bytes = both.map(|(one, more)| one.saturating_add(more));
    }
}

impl Outcome {
    /// Adds up what the workers of one machine brought home. `reports` has at least one.
    pub(crate) fn new(
        plan: &Plan,
        reports: Vec<Report>,
        windows: Vec<WindowOut>,
        machine: &Machine,
    ) -> Self {
        let measured_since = measured_since(&reports);
        let mut totals = Totals::new(plan);
        for (worker, report) in reports.into_iter().enumerate() {
            totals.add(worker, report, measured_since);
        }
        totals.outcome(windows, machine, None)
    }
}

/// When the measured part of a machine began, on its clock.
pub(crate) fn measured_since(reports: &[Report]) -> u64 {
    let each = reports
        .iter()
        .map(|report| report.recorder.measured_since());
    each.min().unwrap_or(u64::MAX)
}

impl Totals<'_> {
    /// The outcome, with its rows; of a run on several machines with what each of `workers` did.
    pub(crate) fn outcome(
        self,
        windows: Vec<WindowOut>,
        machine: &Machine,
        workers: Option<Vec<WorkerOut>>,
    ) -> Outcome {
        let Self {
            plan,
            mut recorder,
            connections,
            concurrency,
            learned,
            peers,
            first,
            used,
            busy,
            stood_still_s,
            iterations,
            origins,
            measured,
            sending,
            unsent,
            cut_short,
        } = self;
        let waits = plan.has_waiting_requests();
        let Spent {
            worker: used,
            server_s,
        } = used;
        let version = obtained(plan, &learned);
        let window_s = measured as f64 / 1e9;
        let all = recorder.of_all_requests();
        let failed = recorder.failures.total();
        let rate_asked = match plan.model {
            Model::Closed => None,
            Model::Open(rate) => Some(rate),
        };
        let mut outcome = Outcome {
            schema: "trilane.run/1",
            trilane: build(),
            started_at: rfc3339(machine.started_at),
            interrupted: machine.interrupted,
            target: Target::new(plan, version, &learned, peers, &first),
            plan: PlanOut::new(plan, rate_asked),
            requests: Requests {
                started: recorder.started,
                ok: recorder.ok,
                failed,
                abandoned: recorder.started.saturating_sub(recorder.ok + failed),
                retried: recorder.retried,
                unsent: unsent.waiting,
                shed: unsent.shed,
                censored: recorder.censored,
                early_responses: EarlyResponses {
                    count: recorder.early.count,
                    body_bytes: recorder.early.body_bytes,
                    body_sent: recorder.early.body_sent,
                },
                failures: recorder
                    .failures
                    .iter()
                    .map(|(kind, count, example)| {
                        (kind.name(), json!({"count": count, "example": example}))
                    })
                    .collect(),
                warmup: json!({
                    "started": recorder.warmup.started,
                    "ok": recorder.warmup.ok,
                    "failed": recorder.warmup.failed,
                }),
            },
            status: status_counts(&recorder),
            bodies: BodiesOut::new(&recorder.bodies),
            grpc: plan
                .calls
                .as_ref()
                .map(|calls| Grpc::new(calls, &mut recorder, window_s)),
            events: plan
                .events
                .as_ref()
                .map(|events| EventsOut::new(events, recorder.events(), window_s)),
            websocket: plan
                .websocket
                .as_ref()
                .map(|socket| WebSocketOut::new(socket, &mut recorder, window_s)),
            scenario: plan
                .scenario
                .as_ref()
                .zip(iterations.as_ref())
                .map(|(scenario, counts)| ScenarioOut::new(scenario, counts, window_s)),
            origins: OriginOut::all(plan, recorder.origins.as_deref(), &origins),
            rate: Rate {
                requests_per_s: ratio(recorder.ok as f64, window_s).unwrap_or(0.0),
                goodput_bytes_per_s: ratio(recorder.traffic.body_received as f64, window_s)
                    .unwrap_or(0.0),
                sent_per_s: (plan.model != Model::Closed).then(|| {
                    // Each request that left has been late, if only by nothing.
                    let sent = iterations
                        .as_ref()
                        .map_or(recorder.late.count(), |counts| counts.begun);
                    ratio(sent as f64, sending as f64 / 1e9).unwrap_or(0.0)
                }),
                connections_per_s: ratio(connections.established_measured() as f64, window_s)
                    .unwrap_or(0.0),
                window_s,
            },
            backlog: windows::backlog(&windows),
            latency: Latency {
                service: distribution(&recorder.service),
                response: waits.then(|| distribution(&recorder.response)),
                late: plan.sends_when_due().then(|| distribution(&recorder.late)),
                queued: waits.then(|| distribution(&all.wait)),
                ttfb: distribution(&all.ttfb),
                failed: (recorder.failed.count() > 0).then(|| distribution(&recorder.failed)),
            },
            connections: ConnectionsOut::new(&connections, &concurrency),
            phases: PhasesOut::new(&recorder, machine.dns, plan.early_data),
            bytes: Bytes::new(&recorder, version, &learned),
            cost: Cost {
                user_s: used.user_s,
                system_s: used.system_s,
                cpu_us_per_request: ratio(used.cpu_s() * 1e6, recorder.ok as f64),
                server_cpu_us_per_request: server_s
                    .and_then(|seconds| ratio(seconds * 1e6, recorder.ok as f64)),
                context_switches: json!({
                    "voluntary": used.voluntary,
                    "involuntary": used.involuntary,
                }),
                syscalls: Some(recorder.traffic.syscalls),
                peak_rss_bytes: machine.peak_rss_bytes,
                busy,
                stood_still_s,
            },
            windows,
            slowest: recorder.slowest.told(),
            workers,
            validity: Validity {
                verdict: Verdict::Valid,
                reasons: Vec::new(),
                bound: "",
            },
            drawing: recorder.service.buckets(10),
        };
        outcome.validity = judge(
            &outcome,
            &Circumstances {
                rate_asked,
                concurrency,
                unsent: unsent.waiting,
                steal: machine.steal,
                others: machine.others,
                server_is_full: machine.server_is_full,
                udp_drops: recorder.traffic.datagrams_dropped,
                cut_short: cut_short.as_deref(),
                takes_pages: plan.takes_pages(),
            },
        );
        outcome
    }
}

impl BodiesOut {
    fn new(bodies: &Bodies) -> Option<Self> {
        let (summed, most) = bodies.most();
        Some(Self {
            mean_bytes: bodies.mean_bytes()?,
            summed,
            most: most.map(|(body, count)| MostOut {
                bytes: body.bytes,
                crc32: format!("{:08x}", body.crc32),
                count,
            }),
        })
    }
}

impl Target {
    fn new(
        plan: &Plan,
        version: Option<Version>,
        learned: &Learned,
        peers: BTreeMap<String, u64>,
        first: &FirstResponse,
    ) -> Self {
        let windows = || {
            json!({
                "stream_window": plan.stream_window,
                "connection_window": plan.connection_window,
            })
        };
        let body = first.bodies.first().copied().flatten();
        Self {
            url: plan.url.clone(),
            version: version.map(Version::name),
            versions: VERSIONS
                .iter()
                .zip(learned.versions)
                .filter(|(_, count)| *count > 0)
                .map(|(version, count)| (version.name(), count))
                .collect(),
            alpn: learned
                .tls
                .as_ref()
                .map(|info| String::from_utf8_lossy(&info.alpn).into_owned())
                .filter(|alpn| !alpn.is_empty()),
            tls: learned.tls.as_ref().map(
                |info| json!({"version": info.version, "cipher": info.cipher, "group": info.group}),
            ),
            peer: learned.peer.clone(),
            peers,
            congestion_control: learned.congestion_control.clone(),
            ack_frequency: learned.ack_frequency,
            mtu: learned.mtu,
            server: first.server.clone().filter(|server| !server.is_empty()),
            server_settings: server_settings(learned),
            client_settings: match version {
                Some(Version::H1) | None => json!({}),
                Some(Version::H3) => windows(),
                Some(Version::H2 | Version::H2c) => {
                    let mut settings = windows();
                    settings["max_frame_size"] = plan.max_frame_size.into();
                    settings
                }
            },
            body: body
                .map(|sum| json!({"bytes": sum.bytes, "crc32": format!("{:08x}", sum.crc32)})),
        }
    }
}

impl PlanOut {
    fn new(plan: &Plan, rate_per_s: Option<f64>) -> Self {
        let request = &plan.prepared[0];
        Self {
            connections: plan.connections,
            streams: plan.streams,
            threads: plan.threads,
            model: if rate_per_s.is_some() {
                "open"
            } else {
                "closed"
            },
            rate_per_s,
            arrivals: rate_per_s.map(|_| plan.arrivals.name()),
            stages: plan.stages.iter().map(StageOut::from).collect(),
            stages_in_flight: plan
                .stages_in_flight
                .iter()
                .map(InFlightStageOut::from)
                .collect(),
            requests: plan.requests,
            duration_s: plan.duration.map(|duration| duration.as_secs_f64()),
            warmup_s: plan.warmup.as_secs_f64(),
            timeout_s: plan.timeout.as_secs_f64(),
            cpus: (!plan.cpus.is_empty()).then(|| plan.cpus.clone()),
            turns: plan.in_turn.as_ref().map(TurnsOut::from),
            request: json!({
                "method": plan.method,
                "urls": plan.prepared.len(),
                "header_fields": request.fields().count(),
                "header_bytes": request.decoded_bytes(),
                "body_bytes": request.body().len(),
            }),
            asked: plan.asked.clone(),
        }
    }
}

impl Bytes {
    fn new(recorder: &Recorder, version: Option<Version>, learned: &Learned) -> Self {
        let traffic = &recorder.traffic;
        let udp = version == Some(Version::H3);
        Self {
            sent: traffic.sent,
            received: traffic.received,
            handshake_sent: recorder.phases.handshake_sent,
            handshake_received: recorder.phases.handshake_received,
            header_sent_encoded: traffic.fields_sent_encoded,
            header_sent_decoded: traffic.fields_sent_decoded,
            header_received_encoded: traffic.fields_received_encoded,
            header_received_decoded: traffic.fields_received_decoded,
            body_sent: traffic.body_sent,
            body_received: traffic.body_received,
            datagrams_sent: udp.then_some(traffic.datagrams_sent),
            datagrams_received: udp.then_some(traffic.datagrams_received),
            segments_sent: (!udp).then_some(traffic.segments_sent),
            segments_received: (!udp).then_some(traffic.segments_received),
            retransmits: traffic.retransmits,
            rtt_s: learned.rtt_s,
            min_rtt_s: learned.min_rtt_s,
        }
    }
}

const VERSIONS: [Version; 4] = [Version::H1, Version::H2, Version::H2c, Version::H3];

fn obtained(plan: &Plan, learned: &Learned) -> Option<Version> {
    let most = VERSIONS
        .iter()
        .zip(learned.versions)
        .max_by_key(|(_, count)| *count);
    most.filter(|(_, count)| *count > 0)
        .map(|(version, _)| *version)
        .or(plan.version)
}

fn server_settings(learned: &Learned) -> Value {
    let mut settings = Map::new();
    if let Some(h2) = learned.h2 {
        settings.insert("header_table_size".into(), json!(h2.header_table_size));
        settings.insert(
            "max_concurrent_streams".into(),
            json!(h2.max_concurrent_streams),
        );
        settings.insert("initial_window_size".into(), json!(h2.initial_window_size));
        settings.insert("max_frame_size".into(), json!(h2.max_frame_size));
        settings.insert(
            "max_header_list_size".into(),
            json!(h2.max_header_list_size),
        );
    }
    if let Some(h3) = learned.h3 {
        settings.insert(
            "qpack_max_table_capacity".into(),
            json!(h3.qpack_max_table_capacity),
        );
        settings.insert(
            "qpack_blocked_streams".into(),
            json!(h3.qpack_blocked_streams),
        );
        settings.insert(
            "max_field_section_size".into(),
            json!(h3.max_field_section_size),
        );
    }
    Value::Object(settings)
}

fn status_counts(recorder: &Recorder) -> BTreeMap<String, u64> {
    let counts = recorder
        .status
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0);
    counts
        .map(|(code, count)| (code.to_string(), *count))
        .collect()
}

pub(crate) fn distribution(durations: &Durations) -> Distribution {
    Distribution {
        summary: durations.summary(),
        hdr: durations.blob(),
    }
}

/// `a ÷ b`, where that is a number.
pub(crate) fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

/// The git revision of this build, in twelve digits, or `unknown`.
pub const REVISION: &str = env!("TRILANE_REVISION");

/// The profile of cargo that made this build: `release`, `quick-build` for a first look, or `debug`.
pub const PROFILE: &str = env!("TRILANE_PROFILE");

/// What `--version` prints behind the program's name: version, git revision and profile of this build.
pub const VERSION_LINE: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("TRILANE_REVISION"),
    ", ",
    env!("TRILANE_PROFILE"),
    ")"
);

/// Version, git revision and profile of this build.
pub fn build() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "revision": REVISION,
        "profile": PROFILE,
    })
}

/// Seconds since the epoch as UTC, RFC 3339.
fn rfc3339(time: SystemTime) -> String {
    let elapsed = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + elapsed).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::concurrency::Concurrency;
    use crate::connections::Connections;
    use crate::options::Options;
    use crate::record::{Instants, Wait};
    use crate::schedule::Unsent;
    use crate::validity::Code;

    /// The outcome of what one worker counted, with these windows.
    fn outcome(
        options: Options,
        recorder: Recorder,
        connections: Connections,
        windows: Vec<WindowOut>,
    ) -> Outcome {
        let plan = Plan::new(&Options {
            urls: vec!["http://a/".into()],
            ..options
        })
        .unwrap();
        let report = Report {
            iterations: None,
            recorder,
            connections,
            origins: Vec::new(),
            peers: BTreeMap::new(),
            concurrency: Concurrency::default(),
            learned: Learned::default(),
            first: FirstResponse::default(),
            used: Spent::default(),
            measured: 1_000_000_000,
            sending: 1_000_000_000,
            stood_still: 0,
            unsent: Unsent::default(),
            cut_short: None,
        };
        let machine = Machine {
            started_at: SystemTime::UNIX_EPOCH,
            dns: Duration::ZERO,
            steal: 0.0,
            others: None,
            server_is_full: false,
            interrupted: false,
            peak_rss_bytes: None,
        };
        Outcome::new(&plan, vec![report], windows, &machine)
    }

    fn finds(outcome: &Outcome, code: Code) -> bool {
        let mut reasons = outcome.validity.reasons.iter();
        reasons.any(|reason| reason.code == code)
    }

    #[test]
    fn few_connections_are_those_that_are_open_most_of_the_time() {
        // FINDINGS T13: all of them were open once.
        for (open, usual, few) in [([9, 9, 100], 9, true), ([100, 95, 95], 100, false)] {
            let windows = open.map(|open| WindowOut {
                open,
                ..WindowOut::new(&Window::new(0, false), false)
            });
            let found = |requests_per_connection| {
                let options = Options {
                    connections: 100,
                    requests_per_connection,
                    ..Options::default()
                };
                let connections = Connections::at_least(100);
                outcome(options, Recorder::new(false), connections, windows.to_vec())
            };
            assert_eq!(found(None).usually_open(), usual);
            assert_eq!(finds(&found(None), Code::FewConnections), few);
            // Those that the plan replaces are never all there.
            assert!(!finds(&found(Some(1)), Code::FewConnections));
        }
    }

    #[test]
    fn a_run_of_nothing_but_redirects_says_so() {
        // FINDINGS I15.
        let found = |statuses: &[usize], expected: (u16, u16)| {
            let mut recorder = Recorder::new(false);
            for status in statuses {
                recorder.status[*status] += 1;
            }
            let options = Options {
                statuses: vec![expected],
                ..Options::default()
            };
            let outcome = outcome(options, recorder, Connections::default(), Vec::new());
            finds(&outcome, Code::Redirects)
        };
        let usual = (200, 399);
        assert!(found(&[301, 301, 308], usual));
        assert!(!found(&[301], (300, 399)));
        for others in [&[301, 200][..], &[304], &[]] {
            assert!(!found(others, usual));
        }
    }

    #[test]
    fn the_server_was_the_limit_where_it_alone_left_no_processor_idle() {
        let none = Connections::default();
        let mut outcome = outcome(Options::default(), Recorder::new(false), none, Vec::new());
        let mut bound = |busy, others, rate_asked, server_is_full| {
            outcome.cost.busy = vec![busy];
            let around = Circumstances {
                rate_asked,
                concurrency: Concurrency::default(),
                unsent: 0,
                steal: 0.0,
                others,
                server_is_full,
                udp_drops: 0,
                cut_short: None,
                takes_pages: false,
            };
            judge(&outcome, &around).bound
        };
        assert_eq!(bound(0.7, Some(0.01), None, true), "server");
        assert_eq!(bound(0.7, Some(0.01), None, false), "server_or_network");
        assert_eq!(bound(0.7, Some(0.2), None, true), "server_or_network");
        // A requested rate says nothing about the server's limit.
        assert_eq!(bound(0.7, Some(0.01), Some(5.0), true), "server_or_network");
        assert_eq!(bound(0.97, Some(0.01), None, true), "client");
    }

    #[test]
    fn books_that_are_wrong_make_a_run_invalid() {
        let mut recorder = Recorder::new(false);
        recorder.started(Wait::default(), false);
        recorder.ok(2, Instants::default());
        recorder.ok(3, Instants::default());
        let none = Connections::default();
        let outcome = outcome(Options::default(), recorder, none, Vec::new());
        assert_eq!(
            outcome.requests.abandoned, 0,
            "not as many as fit in 64 bits"
        );
        assert_eq!(outcome.validity.verdict, Verdict::Invalid);
        assert!(finds(&outcome, Code::Accounts));
    }
}
