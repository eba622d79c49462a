"""One run, `trilane.run/1`: one process that executed one plan (docs/run.schema.json)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field
from msgspec.structs import replace

from trilane import hiding
from trilane.lab.model.answer import Answer
from trilane.lab.model.capacity import Capacity
from trilane.lab.model.contender import (
    Benchmark,
    Client,
    Content,
    Process,
    Repetitions,
    Syscalls,
    Wire,
)
from trilane.lab.model.record import (
    Amount,
    Count,
    Crc32,
    Positive,
    Record,
    Share,
    StatusCode,
    Text,
    Time,
    Version,
)
from trilane.lab.model.traffic import (
    Backlog,
    Bytes,
    Connections,
    Cost,
    Distribution,
    ErrorKind,
    Latency,
    Phases,
    Rate,
    Statistics,
    Window,
)
from trilane.lab.model.validity import Reason, RunValidity

SCHEMA: Literal["trilane.run/1"] = "trilane.run/1"
RpcKind: TypeAlias = Literal["unary", "server_streaming", "client_streaming", "bidi_streaming"]
SettingName: TypeAlias = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
Settings: TypeAlias = dict[SettingName, Count | None]
"""Name of a setting, in lower case with underscores, to its value in the unit that its RFC gives;
None where the peer set no limit.
"""


class Program(Record, frozen=True):
    """The program that ran."""

    version: str
    """Version of the release."""
    revision: str
    """Git revision, short; `unknown` outside a checkout."""
    profile: str
    """Build profile: `release`, `quick-build` (`make race` makes it, for a first look), `debug`, or
    another of cargo's. Only numbers of `release` are worth publishing."""


class Tls(Record, frozen=True):
    """A TLS session."""

    version: Literal["TLSv1.2", "TLSv1.3"]
    """TLSv1.2 or TLSv1.3."""
    cipher: str
    """Cipher suite."""
    group: str | None
    """Key exchange group; null where it is not known, as in a resumed session."""


class Body(Record, frozen=True):
    """A response body."""

    bytes: Count
    """Length, bytes."""
    crc32: Crc32
    """CRC-32 (ISO-HDLC), hexadecimal."""


class FrequentBody(Body, frozen=True):
    """A body that several responses had."""

    count: Positive
    """Responses that had it, as far as is known of many different ones."""


class Bodies(Record, frozen=True):
    """The bodies of ok responses."""

    mean_bytes: Amount
    """Mean length, bytes."""
    summed: Count
    """How many were summed: of the first URL a sample, or all with --check-body."""
    most: FrequentBody | None
    """Of these the most frequent one; null where none was summed."""


class Target(Record, frozen=True):
    """What was aimed at, and what was obtained."""

    url: str
    """Address as asked; the first one where several were given."""
    version: Version | None
    """HTTP version obtained; where several were, that of most connections; null when none came
    up.
    """
    versions: dict[Version, Positive]
    """Connections established, by version."""
    alpn: str | None
    """Protocol agreed in the TLS handshake; null in cleartext or where the server chose none."""
    tls: Tls | None
    """Parameters of the TLS handshake; null in cleartext."""
    peer: str | None
    """Address and port connected to; null when no connection came up."""
    congestion_control: str | None
    """Algorithm of our side."""
    mtu: Count | None
    """Path MTU, bytes."""
    server: str | None
    """The response's Server field (RFC 9110 §10.2.4)."""
    server_settings: Settings | None
    """What the server announced in SETTINGS; empty for h1; null where a client under test does not
    tell.
    """
    client_settings: Settings | None
    """Windows that we granted, bytes; empty for h1; null where a client under test does not
    tell.
    """
    body: Body | None
    """The response body that later ones are compared with; null without a response."""
    connections: Count | None = None
    """Connections opened, where a client under test tells."""
    peers: dict[str, Positive] = field(default_factory=dict)
    """Connections on which requests could be sent, by address and port; absent in runs of other
    clients.
    """
    ack_frequency: bool | None = None
    """Whether a server was told how often to acknowledge, as it knows the extension of QUIC for it;
    null where that was not asked for.
    """

    @classmethod
    def of_client(
        cls,
        url: str,
        versions: dict[Version, int] | None = None,
        connections: int | None = None,
    ) -> Target:
        """What a client under test tells: `versions` are its responses by HTTP version."""
        versions = versions or {}
        by_count: list[Version] = sorted(versions, key=versions.__getitem__)
        return cls(
            url=hiding.text(url),
            version=by_count[-1] if by_count else None,
            versions=versions,
            alpn=None,
            tls=None,
            peer=None,
            congestion_control=None,
            mtu=None,
            server=None,
            server_settings=None,
            client_settings=None,
            body=None,
            connections=connections,
        )


class Request(Record, frozen=True):
    """The prepared request."""

    method: str
    """Method (RFC 9110 §9)."""
    urls: Positive
    """URLs that take turns; the counts here are of the first."""
    header_fields: Count | None
    """Fields, pseudo-fields not counted."""
    header_bytes: Count | None
    """Names and values before compression, bytes."""
    body_bytes: Count
    """Body, bytes."""
    coding: str | None = None
    """Content coding asked for, such as gzip."""


class Asked(Record, frozen=True):
    """What else it takes to repeat the run, in the words of the command line."""

    urls: list[str]
    """The first hundred URLs."""
    version: Version | None
    """Version asked for; null lets scheme and ALPN decide."""
    header: list[str]
    """`Name: value`, in order; the values of credentials and cookies are hidden."""
    expect_status: list[tuple[int, int]]
    """Ranges of status codes that count as ok; empty: 200 to 399."""
    check_body: bool
    """Whether each body had to equal the first."""
    body_crc32: str | None
    """CRC-32 of the request body, hexadecimal."""
    connect_timeout_s: Amount
    """Limit of a connect and handshake, seconds."""
    connect_parallel: Positive | None
    """Most handshakes under way at a time."""
    connect_rate_per_s: Amount | None
    """Connections begun in a second."""
    requests_per_connection: Positive | None
    """Requests after which a connection is closed and replaced."""
    connect_to: str | None
    """HOST:PORT or unix:PATH."""
    resolve: list[str]
    """Each HOST:PORT:ADDRESS,…"""
    bind: str | None
    """Local addresses."""
    proxy: str | None
    """URL of the proxy, without user and password."""
    sni: str | None
    """Name in the TLS handshake."""
    insecure: bool
    """Whether any certificate was accepted."""
    resumption: bool
    """Whether TLS sessions were resumed."""
    early_data: bool
    """Whether requests went in early data where a ticket allowed it."""
    congestion_control: str | None
    """Congestion control asked for."""
    stream_window: Count
    """Bytes."""
    connection_window: Count
    """Bytes."""
    max_frame_size: Count = 16_384
    """The largest frame of HTTP/2 that was taken, bytes."""
    shed_after_s: Amount | None = None
    """Open model: how late a request might leave, seconds."""
    discard_bodies: bool = False
    """Whether the kernel threw bodies away unread, once the first of each URL was known."""
    spread: bool = False
    """Whether connections went to all addresses of the host in turn."""
    tls_version: str | None = None
    """The only version of TLS that was offered, such as 1.2."""
    ciphers: list[str] = field(default_factory=list)
    """The only cipher suites that were offered."""
    weights: list[Positive] = field(default_factory=list)
    """How often each URL was requested, in proportion to the others."""
    rate_per_connection_per_s: Amount | None = None
    """Open model: arrivals per second on each connection, where each had a rate of its own."""
    quic_initial_packet_size: Positive | None = None
    """UDP payload of QUIC to begin with, bytes; null where nothing was asked for."""
    quic_ack_frequency: Positive | None = None
    """Packets of QUIC that the server was asked to acknowledge together."""
    quic_mtu_discovery: bool = True
    """Whether QUIC tried larger packets than those to begin with."""
    proxy_protocol: Literal["v1", "v2"] | None = None
    """Version of the PROXY protocol in which each connection said first whose it was."""
    proxy_source: str | None = None
    """Addresses and ranges that connections said they came from, by the PROXY protocol."""
    quic_shared_socket: bool = False
    """Whether the QUIC connections of a thread shared one UDP socket."""
    keepalive_s: Amount | None = None
    """Seconds between the PINGs of each connection; left out where it sent none unasked."""


class RateStage(Record, frozen=True):
    """A part of a run in which the rate changes evenly, from that of the one before or none."""

    length_s: Amount
    """Seconds that it takes."""
    rate_per_s: Amount
    """Arrivals per second at its end."""


class InFlightStage(Record, frozen=True):
    """A part of a run in which the number in flight changes evenly, from that before or none."""

    length_s: Amount
    """Seconds that it takes."""
    in_flight: Count
    """Requests in flight at its end, over all connections."""


class InTurn(Record, frozen=True):
    """Turns of some milliseconds: all runs of a block go on at a time, and one of them sends."""

    length_s: Amount
    """Length of one, seconds."""
    of: Positive
    """Runs that took turns."""


class Plan(Record, frozen=True):
    """What was to be done."""

    connections: Positive | None
    """Connections, all threads together; null where the client decides."""
    streams: Positive | None
    """Requests in flight per connection; null where the client decides."""
    threads: Positive | None
    """Worker threads; null where the client decides."""
    model: Literal["closed", "open"]
    """`closed`: the next request follows a completion; `open`: requests arrive at a rate."""
    rate_per_s: Amount | None
    """Arrivals per second, all connections together, in stages on average; null in the closed
    model.
    """
    requests: Count | None
    """Requests to send; null when time ends the run."""
    duration_s: Amount | None
    """Measured window, seconds; null when a count of requests ends the run."""
    warmup_s: Amount
    """Time before the window, seconds."""
    timeout_s: Amount
    """Limit of one request, seconds."""
    cpus: list[Count] | None
    """Cores the workers are pinned to, by worker; null when not pinned."""
    request: Request
    """The prepared request."""
    arrivals: Literal["constant", "poisson"] | None = None
    """Open model: `constant`: requests are due at an even spacing; `poisson`: at random and
    independently of each other.
    """
    stages: list[RateStage] = field(default_factory=list)
    """Open model: the stages of a rate that changes; empty where it does not."""
    stages_in_flight: list[InFlightStage] = field(default_factory=list)
    """Closed model: the stages of a number in flight that changes; empty where it does not."""
    turns: InTurn | None = None
    """Where the run took turns with others, which; its times are of its own turns alone."""
    strategy: str | None = None
    """How a client under test keeps requests in flight; absent in runs of the engine alone."""
    session: bool | None = None
    """Whether the client keeps connections between requests."""
    in_flight: Count | None = None
    """Most requests under way at once."""
    processes: Count | None = None
    """Processes that the client may start."""
    workload: str | None = None
    """What was requested, for people."""
    asked: Asked | None = None
    """What else it takes to repeat the run, in the words of the command line; absent in runs of
    other clients.
    """


class EarlyResponses(Record, frozen=True):
    """Complete responses that came before the content of their requests had been sent."""

    count: Count
    """Responses."""
    body_bytes: Count
    """Content of their requests, bytes."""
    body_sent: Count
    """How much of it had been sent by then, bytes, counted as `bytes.body_sent`."""


class Failure(Record, frozen=True):
    """Requests that failed in one way."""

    count: Positive
    """Requests."""
    example: Text
    """Message of the first one."""


class Warmup(Record, frozen=True):
    """Requests before the window."""

    started: Count
    """Requests that began."""
    ok: Count
    """Responses that passed."""
    failed: Count
    """Requests that failed."""


class Requests(Record, frozen=True):
    """Accounts: `started` = `ok` + `failed` + `abandoned`."""

    started: Count
    """Requests that began in the window."""
    ok: Count
    """Complete responses that passed every check."""
    failed: Count
    """Requests that ended otherwise: the sum of `failures`."""
    abandoned: Count
    """In flight at the end."""
    unsent: Count
    """Open model: due and never sent; not in `started`."""
    censored: Count
    """Failed requests (timeout) that are in `latency` with the time they had lasted."""
    retried: Count
    """Sent again because the server provably had not processed them; not counted twice in
    `started`.
    """
    early_responses: EarlyResponses | None
    """Complete responses, ok or not, that came before the content of the request had been sent;
    null for a client under test, which does not tell.
    """
    failures: dict[ErrorKind, Failure]
    """Failed requests by kind; kinds that did not occur are left out."""
    warmup: Warmup
    """Requests before the window."""
    shed: Count = 0
    """Open model: due, and too late to be sent; not in `started`, nor in any latency."""

    @classmethod
    def of_client(
        cls, started: int, ok: int, abandoned: int, failures: dict[ErrorKind, Failure]
    ) -> Requests:
        """What a client under test tells."""
        return cls(
            started=started,
            ok=ok,
            failed=sum(failure.count for failure in failures.values()),
            abandoned=abandoned,
            unsent=0,
            censored=failures["timeout"].count if "timeout" in failures else 0,
            retried=0,
            early_responses=None,
            failures=failures,
            warmup=Warmup(started=0, ok=0, failed=0),
        )


class Messages(Record, frozen=True):
    """Messages of the measured window."""

    sent: Count
    """Begun to be sent."""
    received: Count
    """Received whole."""


class Codec(Record, frozen=True):
    """What encoding and decoding took, in microseconds of wall clock for a message."""

    encode_us: Amount | None
    """To encode one, with its compression."""
    decode_us: Amount | None
    """To decode one, with the reading of its frame and its decompression."""


class MessageRates(Record, frozen=True):
    """Messages per second of the measured window."""

    sent: Amount
    """Begun to be sent."""
    received: Amount
    """Received whole."""


class Method(Record, frozen=True):
    """The calls of one of several methods."""

    method: str
    """As package.Service/Method."""
    kind: RpcKind
    """Which sides send streams of messages."""
    ok: Count
    """Calls that ended as expected."""
    failed: Count
    """Calls that had been sent and did not."""
    latency: Distribution
    """From the first byte sent to the end of the ok ones."""


class Streams(Record, frozen=True):
    """How streams of messages were sent."""

    messages: Count | None
    """Messages that each call sends; null where they were as many as there was time for."""
    messages_in_flight: Count | None
    """Messages of a call that might be without an answer; null where none was awaited."""
    answers: str | None
    """Answers to each message, such as `1`, `3` or `1/10`; null where none was awaited."""
    message_rate_per_s: Amount | None
    """Messages per second that each stream was to send."""
    duration_s: Amount | None
    """How long each stream was to last."""
    half_close: Literal["sent", "answered", "never"]
    """When we ended our direction: with the last message, with its answer, or never."""


class Grpc(Record, frozen=True):
    """What is known of gRPC calls."""

    method: str
    """As package.Service/Method."""
    kind: RpcKind
    """Which sides send streams of messages."""
    methods: list[Method] | None
    """The calls of each method, where there are several, of which `method` is the first; else
    null.
    """
    protocol: Literal["grpc", "grpc-web", "connect"]
    """How calls were written."""
    mode: Literal["wire", "codec"]
    """`wire`: requests encoded once, responses counted by their frames; `codec`: encoded and
    decoded in each call.
    """
    schema: str
    """Where the description of the method came from."""
    compressed: bool
    """Whether messages were sent compressed with gzip."""
    deadline_s: Amount | None
    """What the server was told by grpc-timeout."""
    max_message_bytes: Count
    """The largest message that was taken."""
    expected: list[str]
    """Names of the statuses with which a call counted as ok."""
    messages: Messages
    """Messages of the measured window."""
    messages_per_s: MessageRates
    """The same per second of it."""
    status: dict[str, Positive]
    """Calls that ended by the name of their status, as a client of gRPC sees it: also of those that
    were reset, whose connection was lost, or that took too long.
    """
    status_latency: dict[str, Distribution]
    """From the first byte sent to the end of these calls, by the name of their status."""
    message_latency: Distribution | None
    """Streams of messages from the server: from the read that brought messages before, at first
    from the start of the call, to the arrival of each; where messages are answered, from the
    message, or from when it was due, to its answer; null for a single response.
    """
    streams: Streams | None
    """How streams were sent; null where no call was one."""
    codec: Codec | None
    """Mode `codec`: microseconds of wall clock for a message."""


class Events(Record, frozen=True):
    """Events in the content of responses."""

    format: Literal["sse", "ndjson", "messages"]
    """How they were told apart: server-sent events, lines, or messages of gRPC or
    WebSocket.
    """
    first_event: str | None
    """The regular expression that was looked for in the text of the first one."""
    received: Count
    """Events that came in the measured window."""
    events_per_s: Amount
    """The same per second of it."""
    first: Distribution
    """From the first byte of a request to the first event of its response, or to the one that was
    looked for.
    """
    without_first: Count
    """Responses that were complete without that event."""
    gap: Distribution
    """From an event to the next one of its response."""
    stall_s: Amount
    """Longer gaps are stalls, seconds."""
    stalls: Count
    """How many there were."""
    stalled_s: Amount
    """How long they were together, seconds."""


class WebSocket(Record, frozen=True):
    """WebSocket sessions: what they were, and their messages."""

    mode: Literal["echo", "subscribe"]
    """`echo`: messages were sent and each awaited back; `subscribe`: those of the server were."""
    kind: Literal["text", "binary"]
    """What was sent."""
    message_bytes: Count
    """Bytes of the message that was sent."""
    messages_per_session: Count | None
    """Messages of the server after which a session was closed; null where the server did that."""
    window: Count
    """Messages that might wait for their echo at a time."""
    messages: Messages
    """Messages of the measured window."""
    received_per_s: Amount
    """Received per second of it."""
    round_trip: Distribution | None
    """From a message to its echo; null in the mode `subscribe`."""


class ScenarioStep(Record, frozen=True):
    """The requests of one step of a scenario."""

    name: str
    """Its name."""
    url: str
    """Where its requests go, with the placeholders in it."""
    ok: Count
    """Answered as expected."""
    failed: Count
    """And otherwise."""
    service: Statistics
    """Of the ok ones from the first byte sent to the end of the response, seconds."""


class Scenario(Record, frozen=True):
    """What virtual users did: `started` = `ok` + `failed` + `abandoned` iterations."""

    name: str
    """The name of the scenario."""
    users: Positive
    """Virtual users over all threads."""
    started: Count
    """Iterations begun in the measured window, or under way at its beginning."""
    ok: Count
    """Those in which every request was answered as expected."""
    failed: Count
    """Those that ended with a request that was not."""
    abandoned: Count
    """Those under way at the end."""
    iterations_per_s: Amount
    """`ok` in a second of the measured window."""
    duration: Distribution
    """From the intended start of those that were ok to their end, pauses included."""
    steps: list[ScenarioStep]
    """Each step, in the order of the scenario."""


class OriginCounts(Record, frozen=True):
    """The requests to one of several origins: `started` = `ok` + `failed` + `abandoned`."""

    origin: str
    """Scheme, host and, unless it is the scheme's default, port."""
    started: Count
    """Sent in the measured window, or in flight at its beginning."""
    ok: Count
    """Complete and as expected."""
    failed: Count
    """Not so."""
    abandoned: Count
    """In flight at the end."""
    connections: Count
    """Connections over the whole run that came to where requests may be sent."""
    connections_failed: Count
    """Attempts that did not."""
    service: Statistics
    """From the first byte sent to the end of those that have a latency, seconds."""


class Worker(Record, frozen=True):
    """What one machine did of a run on several."""

    name: str
    """Its name among the machines of the run."""
    host: str
    """Name or address of its host."""
    threads: Positive
    """Threads of the plan that it had: connections, rate and requests are dealt by thread."""
    cores: Positive | None
    """Processors that it had for the run."""
    clock_offset_s: float | None
    """What its clock showed more than that of the run's scheduler, seconds."""
    clock_error_s: Amount | None
    """How much that may be wrong, seconds."""
    start_late_s: Amount | None
    """How long after the start of the run its threads began, seconds of its own clock; null where
    it did not tell.
    """
    ok: Count
    """Requests that ended as expected."""
    failed: Count
    """And otherwise."""
    requests_per_s: Amount
    """Ok requests per second of its measured window."""
    p50: Amount | None
    """Median latency, seconds: response time where there is one, else service time."""
    p99: Amount | None
    """99th percentile of the same, seconds."""
    cpu_us_per_request: Amount | None
    """CPU time of its threads per ok request, microseconds."""
    busy: Share
    """Share of the window in which its busiest thread ran or was ready to run."""
    lost: Text | None
    """Why it did not bring home what it did; then the numbers are those that it had told by then.
    Null where it did.
    """


class Slow(Record, frozen=True):
    """One of the slowest requests."""

    latency_s: Amount
    """From when it was due, or from its first byte where nothing is due, to the end, seconds."""
    at_s: float
    """When that began, seconds since the measured part did; below 0 for one of the warm-up."""
    waited_s: Amount
    """Of that until its first byte was handed to the kernel, seconds."""
    first_byte_s: Amount | None
    """From there to the head of the response, seconds; null where none came."""
    body_s: Amount | None
    """From there to the end, seconds."""
    timed_out: bool
    """Whether it was given up then: it would have taken longer."""
    request: Count
    """Which of the URLs or listed requests it was for, from 0."""
    number: Count
    """Its number among all requests of the run, from 0: what `{seq}` says."""
    worker: Count
    """Which worker thread sent it, from 0."""
    connection: Count
    """On which of that worker's connections, from 0."""
    stream: Count
    """On which stream; over HTTP/1.1 how many requests the connection had carried before."""


class Run(Record, frozen=True):
    """The result of one run: one process that executed one plan.

    Every time is in seconds and every size in bytes unless its name says otherwise.
    """

    schema: Literal["trilane.run/1"]
    """Name and version of this format."""
    trilane: Program
    """The program that ran."""
    started_at: Time
    """Wall clock at the start, RFC 3339, UTC."""
    interrupted: bool
    """Whether Ctrl-C ended it: the report is then partial."""
    target: Target
    """What was aimed at, and what was obtained."""
    plan: Plan
    """What was to be done."""
    requests: Requests
    """Accounts: `started` = `ok` + `failed` + `abandoned`."""
    status: dict[StatusCode, Count]
    """Responses in the window by status code; codes that did not occur are left out."""
    rate: Rate
    """Speed over the window."""
    latency: Latency
    """Times of ok and censored requests; those of other failed ones apart."""
    connections: Connections | None
    """Connections over the whole run with its warm-up: established = lost + open_at_end; null for a
    client under test, which does not tell.
    """
    phases: Phases | None
    """Connection set-up, never part of a request's latency; null where a phase does not exist; null
    for a client under test, which does not tell.
    """
    bytes: Bytes | None
    """Traffic of the run on the level of TCP or UDP payload; null for a client under test, which
    does not tell.
    """
    cost: Cost
    """What the client's worker threads used over the window, and the server's processes where they
    are known.
    """
    windows: list[Window]
    """One row per tenth of a second of the measured part."""
    validity: RunValidity
    """Whether the numbers may be believed."""
    bodies: Bodies | None = None
    """What ok responses brought; null where there were none, or where calls, sessions and scenarios
    judge them; absent in runs of other clients.
    """
    grpc: Grpc | None = None
    """What is known of gRPC calls; null or absent where the requests were none."""
    client: Client | None = None
    """The client under test; absent in runs of the engine alone."""
    process: Process | None = None
    """The client's process as seen from outside, start-up included, children included."""
    wire: Wire | None = None
    """Bytes through the network interface while the workload ran, everything on it included."""
    syscalls: Syscalls | None = None
    """System calls, from two runs of their own under strace, of which one sent twice as much."""
    repetitions: Repetitions | None = None
    """The whole workload, repeated."""
    benchmark: Benchmark | None = None
    """What `go test -bench` printed: client and server are one process."""
    content: Content | None = None
    """What the client under test read, and what it should have read."""
    elapsed_s: Amount | None = None
    """From the first connect to the last response; in runs of an experiment only."""
    backlog: Backlog | None = None
    """Open model: requests that were due and had not left; null in the closed model."""
    events: Events | None = None
    """What is known of events in the content of responses; null or absent where they were not asked
    about.
    """
    websocket: WebSocket | None = None
    """What is known of WebSocket sessions; null or absent where the requests were no such."""
    scenario: Scenario | None = None
    """What virtual users did; null or absent where the requests were not those of a scenario."""
    origins: list[OriginCounts] | None = None
    """The requests to each origin; null or absent where there was one."""
    workers: list[Worker] | None = None
    """What each machine did, where the run was on several; absent where it was on one."""
    slowest: list[Slow] = field(default_factory=list)
    """The slowest of the requests that are in the latency, the slowest first, as many as were asked
    for; absent in runs of other clients.
    """
    capacity: Capacity | None = None
    """What the search found that this run is of, at the highest rate that held; only in races with
    --search.
    """
    answer: Answer | None = None
    """What came of it, why, and how far to believe it; absent in runs of a version before, of other
    clients, and where the lab has judged it anew.
    """

    def doubted(self, *reasons: Reason) -> Run:
        """The run with further reasons not to believe it, of which its own answer knows nothing."""
        validity = RunValidity.of([*self.validity.reasons, *reasons], self.validity.bound)
        return replace(self, validity=validity, answer=None)
