//! The result of one run, `trilane.run/1`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::allowance::InFlightStageOut;
use crate::asked::Asked;
use crate::cluster::WorkerOut;
use crate::connections::ConnectionsOut;
use crate::grpc::Response;
use crate::latency::Summary;
use crate::options::RateStage;
use crate::origin::OriginOut;
use crate::phases::RequestPhasesOut;
use crate::scenario::ScenarioOut;
use crate::slowest::Slow;
use crate::turns::TurnsOut;
pub use crate::validity::{Code, Reason, Validity, Verdict};
use crate::windows::BacklogOut;

/// The result of one run. Serialises to `trilane.run/1`, documented in docs/run.schema.json.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// `trilane.run/1`.
    pub schema: &'static str,
    /// Which build made it.
    pub trilane: Value,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// Whether the user ended it early.
    pub interrupted: bool,
    /// What was aimed at and what was negotiated.
    pub target: Target,
    /// What was to be done.
    pub plan: PlanOut,
    /// The account of every request.
    pub requests: Requests,
    /// Final responses by status code.
    pub status: BTreeMap<String, u64>,
    /// What ok responses brought; none where there were none, or calls, sessions and scenarios judge them.
    pub bodies: Option<BodiesOut>,
    /// What is known of gRPC calls, where the requests were such.
    pub grpc: Option<Grpc>,
    /// What is known of events in the content of responses, where they were asked about.
    pub events: Option<EventsOut>,
    /// What is known of WebSocket sessions, where the requests were such.
    pub websocket: Option<WebSocketOut>,
    /// What virtual users did, where the requests were those of a scenario.
    pub scenario: Option<ScenarioOut>,
    /// The requests to each origin, where they went to several.
    pub origins: Option<Vec<OriginOut>>,
    /// Ok requests and their bodies per second of the measured window.
    pub rate: Rate,
    /// Open model: requests that were due and had not left, as time went by.
    pub backlog: Option<BacklogOut>,
    /// Distributions of durations.
    pub latency: Latency,
    /// How many were tried, came up and went.
    pub connections: ConnectionsOut,
    /// Connection set-up, which is in no request's latency, and what the time of requests consists of.
    pub phases: PhasesOut,
    /// Bytes on the level of TCP and UDP payload.
    pub bytes: Bytes,
    /// What the client spent.
    pub cost: Cost,
    /// One row a second.
    pub windows: Vec<WindowOut>,
    /// What each machine did, where the run was on several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<Vec<WorkerOut>>,
    /// The slowest of the requests that are in the latency, the slowest first.
    pub slowest: Vec<Slow>,
    /// Whether the run may be believed.
    pub validity: Validity,
    /// A drawing of the latency distribution for the text report: lower bound (s) and count.
    #[serde(skip)]
    pub drawing: Vec<(f64, u64)>,
}

/// What was aimed at and what was negotiated.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// The first URL.
    pub url: String,
    /// The version obtained; where several were, that of most connections.
    pub version: Option<&'static str>,
    /// Connections established, by version.
    pub versions: BTreeMap<&'static str, u64>,
    /// The ALPN identifier agreed on.
    pub alpn: Option<String>,
    /// Version, cipher suite and key exchange group.
    pub tls: Option<Value>,
    /// Address and port of a connection.
    pub peer: Option<String>,
    /// Connections on which requests could be sent, by address and port.
    pub peers: BTreeMap<String, u64>,
    /// Of our side: the kernel's for TCP, ours for QUIC.
    pub congestion_control: Option<String>,
    /// Whether a server was told how often to acknowledge, as it knows the extension of QUIC for it; none
    /// where that was not asked for.
    pub ack_frequency: Option<bool>,
    /// Path MTU in bytes: of IP for TCP, of UDP payload for QUIC.
    pub mtu: Option<u64>,
    /// The `server` field of the first response.
    pub server: Option<String>,
    /// The server's SETTINGS; empty for HTTP/1.1.
    pub server_settings: Value,
    /// Our windows, in bytes; empty for HTTP/1.1.
    pub client_settings: Value,
    /// The first body: bytes and CRC-32.
    pub body: Option<Value>,
}

/// What was to be done.
#[derive(Clone, Debug, Serialize)]
pub struct PlanOut {
    /// Connections.
    pub connections: usize,
    /// Streams per connection.
    pub streams: usize,
    /// Worker threads.
    pub threads: usize,
    /// `closed` or `open`.
    pub model: &'static str,
    /// Requests per second, or iterations of a scenario, open model; in stages on average.
    pub rate_per_s: Option<f64>,
    /// Open model: `constant` or `poisson`.
    pub arrivals: Option<&'static str>,
    /// The stages of a rate that changes; empty where it does not.
    pub stages: Vec<StageOut>,
    /// Closed model: the stages of a number in flight that changes; empty where it does not.
    pub stages_in_flight: Vec<InFlightStageOut>,
    /// Requests, or iterations of a scenario, where their number ends the run.
    pub requests: Option<u64>,
    /// Measured time in seconds, where it ends the run.
    pub duration_s: Option<f64>,
    /// Seconds before the measurement.
    pub warmup_s: f64,
    /// Most seconds for a response.
    pub timeout_s: f64,
    /// Processors of the workers.
    pub cpus: Option<Vec<usize>>,
    /// The turns of the run, where it took turns with others; times are of its own ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<TurnsOut>,
    /// The request: method, fields, bytes.
    pub request: Value,
    /// What else it takes to repeat the run.
    pub asked: Asked,
}

/// A part of the run in which the rate changes evenly, from that of the stage before or from none.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StageOut {
    /// Seconds that it takes.
    pub length_s: f64,
    /// Requests per second at its end.
    pub rate_per_s: f64,
}

impl From<&RateStage> for StageOut {
    fn from(stage: &RateStage) -> Self {
        Self {
            length_s: stage.length.as_secs_f64(),
            rate_per_s: stage.rate,
        }
    }
}

/// The account of every request: `started = ok + failed + abandoned`.
#[derive(Clone, Debug, Serialize)]
pub struct Requests {
    /// Sent in the measured window, or in flight at its beginning.
    pub started: u64,
    /// Complete and as expected.
    pub ok: u64,
    /// Not so.
    pub failed: u64,
    /// In flight at the end.
    pub abandoned: u64,
    /// Sent again, because the server had provably not processed them.
    pub retried: u64,
    /// Open model: due and never sent. Not in `started`.
    pub unsent: u64,
    /// Open model: due, and too late to be sent. Not in `started`, nor in any latency.
    pub shed: u64,
    /// Among those that failed: their response time is only known to exceed what was recorded.
    pub censored: u64,
    /// Complete responses that came before the request's content had left.
    pub early_responses: EarlyResponses,
    /// Kind → count and example.
    pub failures: BTreeMap<&'static str, Value>,
    /// Those that ended before the measurement.
    pub warmup: Value,
}

/// Responses that were complete before the content of their requests had left.
#[derive(Clone, Debug, Serialize)]
pub struct EarlyResponses {
    /// How many.
    pub count: u64,
    /// Bytes of content of their requests.
    pub body_bytes: u64,
    /// How much of it had been sent by then, as [`Bytes::body_sent`] counts.
    pub body_sent: u64,
}

/// The bodies of ok responses.
#[derive(Clone, Debug, Serialize)]
pub struct BodiesOut {
    /// Mean length.
    pub mean_bytes: f64,
    /// How many were summed: of the first URL a sample, or all with `--check-body`.
    pub summed: u64,
    /// Of these the most frequent body; none where none was summed.
    pub most: Option<MostOut>,
}

/// A body that several responses had.
#[derive(Clone, Debug, Serialize)]
pub struct MostOut {
    /// Its length.
    pub bytes: u64,
    /// Its CRC-32, hexadecimal.
    pub crc32: String,
    /// Responses that had it, as far as is known of many different ones.
    pub count: u64,
}

/// gRPC calls: what they were, and how they ended.
#[derive(Clone, Debug, Serialize)]
pub struct Grpc {
    /// `pkg.Service/Method`.
    pub method: String,
    /// `unary`, `server_streaming`, `client_streaming` or `bidi_streaming`.
    pub kind: &'static str,
    /// The calls of each method, where there are several: the first one is named above.
    pub methods: Option<Vec<MethodOut>>,
    /// `grpc`, `grpc-web` or `connect`.
    pub protocol: &'static str,
    /// `wire` or `codec`.
    pub mode: &'static str,
    /// Where the description of the method came from.
    pub schema: String,
    /// Whether messages were sent compressed.
    pub compressed: bool,
    /// The deadline in seconds that the server was told.
    pub deadline_s: Option<f64>,
    /// The largest message that was taken, in bytes.
    pub max_message_bytes: u64,
    /// Names of the statuses with which a call counted as ok.
    pub expected: Vec<&'static str>,
    /// Messages sent and received.
    pub messages: Value,
    /// The same per second of the measured window.
    pub messages_per_s: Value,
    /// Calls that ended by the name of their status, as a client of gRPC sees it: also of those that were
    /// reset, whose connection was lost, or that took too long.
    pub status: BTreeMap<&'static str, u64>,
    /// From the first byte sent to the end of these calls, by the name of their status.
    pub status_latency: BTreeMap<&'static str, Distribution>,
    /// Streams of messages from the server: from the read that brought messages before, at first from the
    /// start of the call, to the arrival of each; where messages are answered, from the message, or from
    /// when it was due, to its answer.
    pub message_latency: Option<Distribution>,
    /// How streams were sent, where calls were such.
    pub streams: Option<StreamsOut>,
    /// Microseconds for the encoding and the decoding of a message; mode `codec`.
    pub codec: Option<Value>,
    /// The last response, where responses were kept.
    #[serde(skip)]
    pub response: Option<Response>,
}

/// The calls of one of several methods.
#[derive(Clone, Debug, Serialize)]
pub struct MethodOut {
    /// `pkg.Service/Method`.
    pub method: String,
    /// As [`Grpc::kind`].
    pub kind: &'static str,
    /// Those that ended as expected.
    pub ok: u64,
    /// Those that had been sent and did not.
    pub failed: u64,
    /// From the first byte sent to the end of the ok ones.
    pub latency: Distribution,
}

/// How streams of messages were sent.
#[derive(Clone, Debug, Serialize)]
pub struct StreamsOut {
    /// Messages that each call sends; none where they were as many as there was time for.
    pub messages: Option<u64>,
    /// Messages that might be without an answer, where they were answered.
    pub messages_in_flight: Option<u64>,
    /// Answers to each message, such as `1` or `1/10`, where they were awaited.
    pub answers: Option<String>,
    /// Messages per second that each stream was to send.
    pub message_rate_per_s: Option<f64>,
    /// How long each stream was to last, in seconds.
    pub duration_s: Option<f64>,
    /// When we ended our direction: `sent`, `answered` or `never`.
    pub half_close: &'static str,
}

/// WebSocket sessions: what they were, and their messages.
#[derive(Clone, Debug, Serialize)]
pub struct WebSocketOut {
    /// `echo` or `subscribe`.
    pub mode: &'static str,
    /// `text` or `binary`: what was sent.
    pub kind: &'static str,
    /// Bytes of the message that was sent.
    pub message_bytes: u64,
    /// Messages of the server after which a session was closed; none where the server did that.
    pub messages_per_session: Option<u64>,
    /// Messages that might wait for their echo at a time.
    pub window: u64,
    /// Messages sent and received in the measured window.
    pub messages: Value,
    /// Received per second of it.
    pub received_per_s: f64,
    /// Mode `echo`: from a message to its echo.
    pub round_trip: Option<Distribution>,
}

/// Events in the content of responses.
#[derive(Clone, Debug, Serialize)]
pub struct EventsOut {
    /// `sse`, `ndjson` or `messages`.
    pub format: &'static str,
    /// What was looked for in the text of the first event.
    pub first_event: Option<String>,
    /// Events that came in the measured window.
    pub received: u64,
    /// The same per second of it.
    pub events_per_s: f64,
    /// From the first byte of a request to the first event of its response, or the one that was looked
    /// for.
    pub first: Distribution,
    /// Responses that were complete without that event.
    pub without_first: u64,
    /// From an event to the next one of its response.
    pub gap: Distribution,
    /// Longer gaps are stalls, in seconds.
    pub stall_s: f64,
    /// How many there were.
    pub stalls: u64,
    /// How long they were together, in seconds.
    pub stalled_s: f64,
}

/// Per second of the measured window.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// Ok requests per second.
    pub requests_per_s: f64,
    /// Bytes of response bodies per second.
    pub goodput_bytes_per_s: f64,
    /// Open model: requests per second that left, or iterations of a scenario that began. Of a counted run it
    /// counts the time until the last was due or left, whichever is later.
    pub sent_per_s: Option<f64>,
    /// Connections per second that came to where requests may be sent.
    pub connections_per_s: f64,
    /// Length of the measured window in seconds.
    pub window_s: f64,
}

/// A distribution: statistics in seconds, and all of it.
#[derive(Clone, Debug, Serialize)]
pub struct Distribution {
    /// Statistics, in seconds.
    #[serde(flatten)]
    pub summary: Summary,
    /// HdrHistogram V2, deflated, base64; values in nanoseconds.
    pub hdr: String,
}

/// Distributions of durations.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// From the first byte sent.
    pub service: Distribution,
    /// From the intended start; open model, or where connections are replaced on purpose: there from
    /// the end of the connection before, where the request waited for the next one.
    pub response: Option<Distribution>,
    /// Of the time between the intended start and the first byte sent, what the client is to blame
    /// for: there was room for the request; open model.
    pub late: Option<Distribution>,
    /// The rest of it: no stream, window or connection was free; where there is `response`.
    pub queued: Option<Distribution>,
    /// From the first byte sent to the head of the response.
    pub ttfb: Distribution,
    /// From the first byte sent to the end of requests that failed, those that took too long left
    /// out; none where there are none.
    pub failed: Option<Distribution>,
}

/// What the time of connections and requests consists of, in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct PhasesOut {
    /// Name resolution, once.
    pub dns: Distribution,
    /// TCP.
    pub connect: Option<Distribution>,
    /// TLS over TCP.
    pub tls: Option<Distribution>,
    /// QUIC with its TLS.
    pub quic: Option<Distribution>,
    /// Requests that were the first on their connections.
    pub cold: RequestPhasesOut,
    /// All others.
    pub warm: RequestPhasesOut,
    /// TLS handshakes, in TCP or QUIC.
    pub handshakes: HandshakesOut,
    /// What became of early data, where it was asked for.
    pub early_data: Option<EarlyDataOut>,
    /// Of connections begun in the measured window; none where there were none.
    pub measured: Option<MeasuredOut>,
}

/// How connections begun in the measured window were set up, in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredOut {
    /// TCP.
    pub connect: Option<Distribution>,
    /// TLS over TCP.
    pub tls: Option<Distribution>,
    /// QUIC with its TLS.
    pub quic: Option<Distribution>,
    /// From the beginning of the connection to the head of the first response on it.
    pub first_byte: Option<Distribution>,
    /// TLS handshakes, in TCP or QUIC.
    pub handshakes: HandshakesOut,
    /// What became of early data, where it was asked for.
    pub early_data: Option<EarlyDataOut>,
}

/// What became of early data (0-RTT).
#[derive(Clone, Debug, Serialize)]
pub struct EarlyDataOut {
    /// Connections made that had offered it.
    pub offered: u64,
    /// Those of them whose server took it.
    pub accepted: u64,
    /// Those of them whose server did not.
    pub rejected: u64,
    /// Requests sent in it.
    pub requests: u64,
    /// Those of them that the server rejected with it, and that were sent again behind the handshake.
    pub requests_rejected: u64,
    /// Those of them that were answered with 425 (RFC 8470), and sent once more behind a handshake.
    pub too_early: u64,
}

/// TLS handshakes, in TCP or QUIC.
#[derive(Clone, Debug, Serialize)]
pub struct HandshakesOut {
    /// Full ones.
    pub full: u64,
    /// Resumed ones.
    pub resumed: u64,
    /// Those in which the server accepted early data.
    pub early_data: u64,
}

/// Bytes and packets of the measured window.
#[derive(Clone, Debug, Serialize)]
pub struct Bytes {
    /// Payload of TCP or UDP.
    pub sent: u64,
    /// Payload of TCP or UDP.
    pub received: u64,
    /// Of all connections of the run, what was sent before requests could be.
    pub handshake_sent: u64,
    /// And what was received before that.
    pub handshake_received: u64,
    /// Field sections sent, as encoded: of HTTP/1.1 the whole head.
    pub header_sent_encoded: u64,
    /// Field sections sent, uncompressed, in every version alike: names and values with the
    /// pseudo-fields of HTTP/2 (RFC 7541 §4.1, without its 32 for each field).
    pub header_sent_decoded: u64,
    /// Field sections received, as encoded: of HTTP/1.1 the whole head.
    pub header_received_encoded: u64,
    /// Field sections received, uncompressed, in every version alike.
    pub header_received_decoded: u64,
    /// Content of requests. HTTP/1.1: what the peer's TCP acknowledged; HTTP/2, TLS as the content of records, and
    /// Unix sockets: what the kernel had taken. HTTP/3: what QUIC had taken, which the server's windows allow, as far as the datagrams that were sent
    /// can carry it; some of it may have waited for the congestion control.
    pub body_sent: u64,
    /// Response bodies.
    pub body_received: u64,
    /// UDP datagrams.
    pub datagrams_sent: Option<u64>,
    /// UDP datagrams.
    pub datagrams_received: Option<u64>,
    /// TCP segments.
    pub segments_sent: Option<u64>,
    /// TCP segments.
    pub segments_received: Option<u64>,
    /// TCP segments sent again, or QUIC packets lost.
    pub retransmits: u64,
    /// Smoothed round-trip time of one connection at the end, in seconds.
    pub rtt_s: Option<f64>,
    /// The smallest round-trip time that any connection has seen, in seconds.
    pub min_rtt_s: Option<f64>,
}

/// What the client spent in the measured window.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// CPU seconds of the workers in user mode.
    pub user_s: f64,
    /// CPU seconds of the workers in the kernel.
    pub system_s: f64,
    /// CPU microseconds per ok request.
    pub cpu_us_per_request: Option<f64>,
    /// CPU microseconds of the server's processes per ok request, where they are known.
    pub server_cpu_us_per_request: Option<f64>,
    /// Of the workers: voluntary and involuntary.
    pub context_switches: Value,
    /// Made by the workers, as far as they count: sockets and epoll.
    pub syscalls: Option<u64>,
    /// Of the process.
    pub peak_rss_bytes: Option<u64>,
    /// For each worker the share of the window in which it ran or was ready to run, 0…1.
    pub busy: Vec<f64>,
    /// For each worker the longest time of the window, in seconds, in which its loop did not come round though
    /// it had not asked the kernel to wait: it was stopped, starved, or had too much to do at once.
    pub stood_still_s: Vec<f64>,
}

/// A tenth of a second of the measured part.
#[derive(Clone, Debug, Serialize)]
pub struct WindowOut {
    /// Since the beginning of the measured part.
    pub start_s: f64,
    /// A tenth of a second, but for the last.
    pub length_s: f64,
    /// Ok requests.
    pub ok: u64,
    /// Failed requests.
    pub failed: u64,
    /// Median service time in seconds.
    pub p50: Option<f64>,
    /// 99th percentile of service time in seconds.
    pub p99: Option<f64>,
    /// Service times by size, as pairs of a step and a count: step `i` has those from 10^(i/10) µs up to
    /// the next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<(u32, u64)>,
    /// Connections open at its end.
    pub open: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Open model: requests that were due at its end and had not left.
    pub backlog: Option<u64>,
    /// Processor time of the workers in it, in seconds.
    pub cpu_s: f64,
    /// Processor time of the server's processes in it, in seconds, where they are known.
    pub server_cpu_s: Option<f64>,
}
