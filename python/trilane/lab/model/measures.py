"""What a comparison compares: each measure's name, unit, direction, and where a run keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from trilane.lab.model.comparison import Better, Finding, Shown, Unit
from trilane.lab.model.network import OnNetwork
from trilane.lab.model.run import Run
from trilane.lab.model.sample import ServerCost
from trilane.lab.model.traffic import Distribution


@dataclass(frozen=True, slots=True)
class Beside:
    """What was measured beside a run."""

    server: ServerCost | None = None
    """What our server spent on it."""
    network: OnNetwork | None = None
    """The emulated network that it was made on."""


Reader: TypeAlias = Callable[[Run, Beside], float | None]

# Counted for all programs of the machine: shown, and never ranked.
SHARED_MEASURES = frozenset({"wire_bytes_per_request"})


@dataclass(frozen=True, slots=True)
class Measure:
    """One number per run."""

    name: str
    label: str
    unit: Unit
    better: Better
    read: Reader
    """Value from a run and from what was measured beside it; None where unknown."""

    @property
    def shared(self) -> bool:
        """Whether it counts what other programs do, too."""
        return self.name in SHARED_MEASURES

    def ranked(self, finding: Finding) -> Finding:
        """What a comparison of runs found, as far as the measure is of their programs alone."""
        return "not_ranked" if self.shared and finding != "invalid" else finding

    @property
    def shown(self) -> Shown:
        """The measure as a result lists it."""
        return Shown(name=self.name, label=self.label, unit=self.unit, better=self.better)


def counted(run: Run) -> Distribution | None:
    """The latency that counts, with the wait before it.

    In the open model it runs from the intended start on, and for a connection of its own from the
    beginning of that.
    """
    return run.latency.response or run.latency.service


def _latency(value: Callable[[Distribution], float | None]) -> Reader:
    def read(run: Run, _beside: Beside) -> float | None:
        latency = counted(run)
        return None if latency is None else value(latency)

    return read


def _server_cpu(_run: Run, beside: Beside) -> float | None:
    return None if beside.server is None else beside.server.cpu_us_per_request


def _round_trips(run: Run, beside: Beside) -> float | None:
    latency = counted(run)
    if latency is None or latency.p50 is None or beside.network is None:
        return None
    return latency.p50 / beside.network.rtt_s if beside.network.rtt_s else None


def _answered(run: Run) -> int:
    return run.requests.ok + run.requests.failed


def _per_answer(total: Callable[[Run], int | None]) -> Reader:
    def read(run: Run, _beside: Beside) -> float | None:
        value, requests = total(run), _answered(run)
        return None if value is None or requests == 0 else value / requests

    return read


def _payload(run: Run) -> int | None:
    return None if run.bytes is None else run.bytes.sent + run.bytes.received


def _sent(run: Run) -> int | None:
    return None if run.bytes is None else run.bytes.sent


def _received(run: Run) -> int | None:
    return None if run.bytes is None else run.bytes.received


def _switches(run: Run) -> int | None:
    watched = run.cost.context_switches
    return watched.voluntary + watched.involuntary


def _cpu_per_gib(run: Run, _beside: Beside) -> float | None:
    received = _received(run) if run.content is None else run.content.bytes
    cost = run.cost.cpu_us_per_request
    if cost is None or received is None:
        return None
    gib = (received + _answered(run) * run.plan.request.body_bytes) / (1 << 30)
    return cost * run.requests.ok / 1e6 / gib if gib else None


def _wire(run: Run, _beside: Beside) -> float | None:
    return run.wire.bytes / run.wire.requests if run.wire and run.wire.requests else None


RATE = Measure(
    "requests_per_s", "requests/s", "1/s", "higher", lambda run, _: run.rate.requests_per_s
)
ELAPSED = Measure("elapsed_s", "elapsed time", "s", "lower", lambda run, _: run.elapsed_s)
TOTAL = Measure(
    "total_s",
    "time of the whole process",
    "s",
    "lower",
    lambda run, _: run.process.wall_s if run.process else None,
)
REPETITION = Measure(
    "repetition_s",
    "time of a repetition",
    "s",
    "lower",
    lambda run, _: run.repetitions.mean_s if run.repetitions else None,
)
MEAN = Measure("mean_s", "mean latency", "s", "lower", _latency(lambda latency: latency.mean))
P50 = Measure("p50", "p50 latency", "s", "lower", _latency(lambda latency: latency.p50))
P90 = Measure("p90", "p90 latency", "s", "lower", _latency(lambda latency: latency.p90))
P99 = Measure("p99", "p99 latency", "s", "lower", _latency(lambda latency: latency.p99))
P99_9 = Measure("p99_9", "p99.9 latency", "s", "lower", _latency(lambda latency: latency.p99_9))
TTFB = Measure(
    "ttfb_p50",
    "p50 time to first byte",
    "s",
    "lower",
    lambda run, _: run.latency.ttfb.p50 if run.latency.ttfb else None,
)
ROUND_TRIPS = Measure("round_trips", "p50 latency in round trips", "1", "lower", _round_trips)
# Those that need the latency of each request.
LATENCIES = frozenset(measure.name for measure in (MEAN, P50, P90, P99, P99_9, TTFB, ROUND_TRIPS))
USER = Measure(
    "user_s", "user CPU", "s", "lower", lambda run, _: run.process.user_s if run.process else None
)
SYSTEM = Measure(
    "system_s",
    "system CPU",
    "s",
    "lower",
    lambda run, _: run.process.system_s if run.process else None,
)
CPU_PERCENT = Measure(
    "cpu_percent",
    "CPU of the process",
    "%",
    "lower",
    lambda run, _: run.process.cpu_percent if run.process else None,
)
CLIENT_CPU = Measure(
    "client_cpu_us_per_request",
    "client CPU per request",
    "us",
    "lower",
    lambda run, _: run.cost.cpu_us_per_request,
)
CPU_PER_GIB = Measure(
    "client_cpu_s_per_gib", "client CPU per GiB of bodies", "s", "lower", _cpu_per_gib
)
SERVER_CPU = Measure(
    "server_cpu_us_per_request", "server CPU per request", "us", "lower", _server_cpu
)
BYTES = Measure(
    "bytes_per_request", "payload bytes per request", "B", "lower", _per_answer(_payload)
)
SENT = Measure("sent_bytes_per_request", "bytes sent per request", "B", "lower", _per_answer(_sent))
RECEIVED = Measure(
    "received_bytes_per_request", "bytes received per request", "B", "lower", _per_answer(_received)
)
WIRE = Measure(
    "wire_bytes_per_request",
    "bytes on the interface per request, of all programs",
    "B",
    "lower",
    _wire,
)
SWITCHES = Measure(
    "context_switches_per_request",
    "context switches per request",
    "1",
    "lower",
    _per_answer(_switches),
)
SYSCALLS = Measure(
    "syscalls_per_request",
    "system calls per request",
    "1",
    "lower",
    lambda run, _: run.syscalls.per_request if run.syscalls else None,
)
PEAK_RSS = Measure(
    "peak_rss_bytes",
    "peak memory",
    "B",
    "lower",
    lambda run, _: run.process.peak_rss_bytes if run.process else None,
)
NS_PER_OP = Measure(
    "ns_per_op",
    "time per operation",
    "ns",
    "lower",
    lambda run, _: run.benchmark.ns_per_op if run.benchmark else None,
)
ALLOC_BYTES = Measure(
    "alloc_bytes_per_op",
    "bytes allocated per operation",
    "B",
    "lower",
    lambda run, _: run.benchmark.alloc_bytes_per_op if run.benchmark else None,
)
ALLOCS = Measure(
    "allocs_per_op",
    "allocations per operation",
    "1",
    "lower",
    lambda run, _: run.benchmark.allocs_per_op if run.benchmark else None,
)
CPU_PER_OP = Measure(
    "cpu_us_per_op",
    "CPU of both ends per operation",
    "us",
    "lower",
    lambda run, _: run.benchmark.cpu_us_per_op if run.benchmark else None,
)

MEASURES = (
    RATE,
    ELAPSED,
    TOTAL,
    REPETITION,
    MEAN,
    P50,
    P90,
    P99,
    P99_9,
    TTFB,
    ROUND_TRIPS,
    USER,
    SYSTEM,
    CPU_PERCENT,
    CLIENT_CPU,
    CPU_PER_GIB,
    SERVER_CPU,
    BYTES,
    SENT,
    RECEIVED,
    WIRE,
    SWITCHES,
    SYSCALLS,
    PEAK_RSS,
    NS_PER_OP,
    ALLOC_BYTES,
    ALLOCS,
    CPU_PER_OP,
)
RACE = (RATE, P50, P99, CLIENT_CPU, SERVER_CPU, BYTES)
"""What a race shows."""
BY_NAME = {measure.name: measure for measure in MEASURES}
