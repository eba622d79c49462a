"""What was measured in a run: times, connections, bytes, cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import field

from trilane.lab.model.contender import ContextSwitches
from trilane.lab.model.record import Amount, Base64, Count, Positive, Record, Share

ErrorKind: TypeAlias = Literal[
    "dns",
    "connect",
    "refused",
    "tls",
    "handshake_timeout",
    "timeout",
    "closed",
    "reset",
    "goaway",
    "protocol",
    "status",
    "body",
    "check",
    "limit",
]


QUANTILES: Mapping[str, float] = {
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p99_9": 0.999,
    "p99_99": 0.9999,
}
"""Which quantile each of the names of `Statistics` is."""


def enough(count: int, q: float) -> bool:
    """Whether so many samples tell a quantile (METHOD §2): 10 ÷ (1 − q) do, for the median one."""
    # 0.9 and its like are no binary fractions.
    return count >= 1 if q <= 0.5 else count * (1 - q) >= 10 - 1e-6


class Statistics(Record, frozen=True):
    """Statistics of durations, in seconds."""

    count: Count
    """Samples."""
    min: Amount | None
    """Smallest sample, seconds; null without samples."""
    mean: Amount | None
    """Arithmetic mean, seconds; null without samples."""
    stdev: Amount | None
    """Standard deviation, seconds; null without samples."""
    p50: Amount | None
    """Median, seconds; null without samples."""
    p75: Amount | None
    """75th percentile, seconds; null when there are fewer samples than 10 ÷ (1 − q)."""
    p90: Amount | None
    """90th percentile, seconds; null when there are fewer samples than 10 ÷ (1 − q)."""
    p95: Amount | None
    """95th percentile, seconds; null when there are fewer samples than 10 ÷ (1 − q)."""
    p99: Amount | None
    """99th percentile, seconds; null when there are fewer samples than 10 ÷ (1 − q)."""
    p99_9: Amount | None
    """99.9th percentile, seconds; null when there are fewer samples than 10 ÷ (1 − q)."""
    p99_99: Amount | None
    """99.99th percentile, seconds; null when there are fewer samples than 10 ÷ (1 − q)."""
    max: Amount | None
    """Largest sample, seconds; null without samples."""


class Distribution(Statistics, frozen=True):
    """A distribution of durations: its statistics in seconds, and all of it."""

    hdr: Base64 | None = None
    """HdrHistogram V2, deflate, base64; values in nanoseconds, 3 significant digits; absent where
    only the statistics were kept.
    """


class Rate(Record, frozen=True):
    """Speed over the measured window."""

    requests_per_s: Amount
    """Ok requests per second."""
    goodput_bytes_per_s: Amount
    """Body bytes of ok responses per second."""
    window_s: Amount
    """Length of the window as it came to be, seconds."""
    sent_per_s: Amount | None = None
    """Open model: requests per second that left, or iterations of a scenario that began; null in
    the closed model, and where the client does not tell.
    """
    connections_per_s: Amount | None = None
    """Connections that came to where requests may be sent, per second; null where the client does
    not tell.
    """


class Backlog(Record, frozen=True):
    """Open model: requests that were due and had not left, at the end of each tenth of a second.

    Of arrivals at random it is as many as are expected.
    """

    at_most: Count
    """How many they were at most."""
    at_most_s: Amount | None
    """When that was, seconds since the measured part began; null where there never were any."""
    since_s: Amount | None
    """Since when there had been some, seconds since the measured part began."""
    at_end: Count
    """How many they were at the end of the run."""


class Latency(Record, frozen=True):
    """Times of ok and censored requests; those of other failed ones apart."""

    service: Distribution | None
    """First byte sent to last byte of the response parsed; null where the client does not tell."""
    response: Distribution | None
    """From the intended start; null in the closed model, unless connections are replaced after so
    many requests: then from the end of the connection before, where the request waited for the
    next one.
    """
    late: Distribution | None
    """Of actual − intended start, what the client caused: there was room for the request;
    null in the closed model.
    """
    queued: Distribution | None
    """The rest of actual − intended start: no stream, window or connection was free; null where
    `response` is.
    """
    ttfb: Distribution | None
    """First byte sent to the head of the response; null where the client does not tell."""
    failed: Distribution | None
    """First byte sent to the end of requests that failed otherwise than by a timeout; null where
    none did, or the client does not tell.
    """

    @classmethod
    def of_client(cls, service: Distribution | None, late: Distribution | None = None) -> Latency:
        """What a client under test tells."""
        return cls(service=service, response=None, late=late, queued=None, ttfb=None, failed=None)


class Connections(Record, frozen=True):
    """Connections over the whole run with its warm-up: established = lost + spent + open_at_end."""

    attempted: Count
    """Attempts."""
    established: Count
    """Attempts that came to where requests may be sent."""
    established_measured: Count
    """Those of them that came to there in the measured window."""
    failed: dict[ErrorKind, Positive]
    """Attempts that did not, by kind."""
    lost: dict[ErrorKind, Positive]
    """Established ones that ended before the run did, by what ended them."""
    spent: Count
    """Established ones that were closed in order before the run ended, as each had carried the
    requests that a connection was to carry.
    """
    exhausted: Count
    """Of `failed`, those for which the client's machine had no file descriptor or local port
    left.
    """
    open_at_start: Count
    """Open when the measured part began."""
    open_at_end: Count
    """Open when it ended."""
    open_at_most: Count
    """Open at one time at most: the sum over the threads, which need not have met."""
    handshakes_at_most: Count
    """Attempts under way at one time at most: the sum over the threads."""
    in_flight_at_most: Count
    """Requests in flight at one time at most: the sum over the threads."""
    streams_allowed: Count | None
    """Fewest streams at one time that the server allowed on a connection:
    SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113 §6.5.2); over HTTP/3, whose credit is for all
    streams of a connection together (RFC 9000 §4.6), initial_max_streams_bidi or, where it was
    more, the most that were open; null where no server set a limit.
    """


class Handshakes(Record, frozen=True):
    """TLS handshakes, in TCP or QUIC."""

    full: Count
    """Full ones."""
    resumed: Count
    """Resumed ones."""
    early_data: Count
    """With 0-RTT data accepted."""


class EarlyData(Record, frozen=True):
    """What became of early data (0-RTT)."""

    offered: Count
    """Connections made that had offered it: `accepted` + `rejected`."""
    accepted: Count
    """Those of them whose server took it."""
    rejected: Count
    """Those of them whose server did not."""
    requests: Count
    """Requests sent in it."""
    requests_rejected: Count
    """Those of them that the server rejected with it, and that were sent again behind the
    handshake.
    """
    too_early: Count
    """Those of them that were answered with 425 (RFC 8470), and sent once more behind a
    handshake.
    """


class MeasuredPhases(Record, frozen=True):
    """How connections begun in the measured window were set up."""

    connect: Distribution | None
    """TCP handshake."""
    tls: Distribution | None
    """TLS handshake over TCP."""
    quic: Distribution | None
    """QUIC handshake, TLS included."""
    first_byte: Distribution | None
    """Beginning of the connection to the head of the first response on it."""
    handshakes: Handshakes
    """TLS handshakes, in TCP or QUIC."""
    early_data: EarlyData | None
    """What became of early data; null where it was not asked for."""


class RequestPhases(Record, frozen=True):
    """What the time of requests consists of; of those that are in `latency`."""

    wait: Distribution | None
    """From the intended start, while no stream, window or connection was free; null where
    `latency.response` is.
    """
    ttfb: Distribution
    """First byte sent to the head of the response."""
    body: Distribution
    """Head of the response to its end."""


class Phases(Record, frozen=True):
    """Connection set-up, never part of a request's service time, and what that consists of."""

    dns: Distribution
    """Name resolution, once per run."""
    connect: Distribution | None
    """TCP handshake."""
    tls: Distribution | None
    """TLS handshake over TCP."""
    quic: Distribution | None
    """QUIC handshake, TLS included."""
    handshakes: Handshakes
    """TLS handshakes, in TCP or QUIC."""
    early_data: EarlyData | None
    """What became of early data; null where it was not asked for."""
    measured: MeasuredPhases | None
    """Of connections begun in the measured window; null where there were none."""
    cold: RequestPhases | None = None
    """Of the requests that were the first on their connections; absent in older results."""
    warm: RequestPhases | None = None
    """Of all other requests; absent in older results."""


class Bytes(Record, frozen=True):
    """Traffic of the run on the level of TCP or UDP payload."""

    sent: Count
    """Payload sent, bytes."""
    received: Count
    """Payload received, bytes."""
    header_sent_encoded: Count
    """Field sections sent as on the wire, of HTTP/1.1 the whole head, bytes."""
    header_sent_decoded: Count
    """Field sections sent before compression, in every version alike: names and values with the
    pseudo-fields of HTTP/2 (RFC 7541 §4.1, without its 32 for each field), bytes.
    """
    header_received_encoded: Count
    """Field sections received as on the wire, of HTTP/1.1 the whole head, bytes."""
    header_received_decoded: Count
    """Field sections received after decompression, counted as those sent, bytes."""
    body_sent: Count
    """Content of requests, bytes: over HTTP/1.1 what the peer's TCP acknowledged, over HTTP/2 and
    Unix sockets what the kernel had taken, over HTTP/3 what QUIC had taken, within the server's
    windows, as far as the datagrams sent can carry it: some of it may have waited for the
    congestion control.
    """
    body_received: Count
    """Response bodies, bytes."""
    datagrams_sent: Count | None
    """UDP datagrams; null for TCP."""
    datagrams_received: Count | None
    """UDP datagrams; null for TCP."""
    segments_sent: Count | None
    """TCP segments (TCP_INFO); null for QUIC."""
    segments_received: Count | None
    """TCP segments (TCP_INFO); null for QUIC."""
    retransmits: Count
    """TCP segments sent again, or QUIC packets declared lost."""
    rtt_s: Amount | None
    """Smoothed round-trip time of one connection at the end, seconds."""
    min_rtt_s: Amount | None = None
    """Smallest round-trip time that any connection has seen, seconds."""
    handshake_sent: Count | None = None
    """Sent before requests could be, on all connections of the run, bytes; absent in older
    results.
    """
    handshake_received: Count | None = None
    """Received before requests could be sent, on all connections of the run, bytes; absent in older
    results.
    """


class Cost(Record, frozen=True):
    """What the client used over the window, and the server where it is known."""

    user_s: Amount
    """CPU in user mode, seconds."""
    system_s: Amount
    """CPU in the kernel, seconds."""
    cpu_us_per_request: Amount | None
    """Both, per ok request, microseconds; null without one."""
    server_cpu_us_per_request: Amount | None
    """CPU of the server's processes per ok request, microseconds; null where --server-pid named
    none, one has ended, or no request was ok.
    """
    context_switches: ContextSwitches
    """Of the worker threads."""
    syscalls: Count | None
    """System calls of the workers; null where not known."""
    peak_rss_bytes: Count | None
    """Largest resident set of the process, bytes."""
    busy: list[Share]
    """One entry per worker."""
    stood_still_s: list[Amount] = field(default_factory=list)
    """For each worker the longest time in which its loop did not come round though it had not asked
    the kernel to wait (stopped, starved, or too much to do at once), seconds; empty in runs of
    other clients, and of builds that do not report it.
    """


class Window(Record, frozen=True):
    """A tenth of a second of the measured part."""

    start_s: Amount
    """Offset from the start of the measured part, seconds."""
    length_s: Amount
    """Its length, seconds: less than 0.1 in the last row."""
    ok: Count
    """Ok requests that ended in it."""
    failed: Count
    """Failed requests that ended in it."""
    p50: Amount | None
    """Median service time, seconds."""
    p99: Amount | None
    """99th percentile of service time, seconds."""
    open: Count
    """Connections open at its end."""
    cpu_s: Amount
    """Processor time of the workers in it, seconds."""
    server_cpu_s: Amount | None
    """Processor time of the server's processes in it, seconds; null where --server-pid named none,
    or one has ended.
    """
    latencies: list[tuple[Count, Positive]] = field(default_factory=list)
    """Service times by size, as pairs of a step and a count: step i has those from 10^(i/10)
    microseconds up to the next; absent where there are none.
    """
    in_flight: Count | None = None
    """Requests in flight at its end; absent where the client does not tell."""
    backlog: Count | None = None
    """Open model: requests that were due at its end and had not left; null in the closed model."""
