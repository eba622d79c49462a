"""What a comparison compares: each measure's name, unit, direction, and where a run keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from trilane.lab.model.comparison import Better, Finding, Shown
from trilane.lab.model.contender import Benchmark, Process
from trilane.lab.model.network import OnNetwork
from trilane.lab.model.record import Unit
from trilane.lab.model.run import Run
from trilane.lab.model.sample import ServerCost
from trilane.lab.model.traffic import Bytes, Distribution


@dataclass(frozen=True, slots=True)
class Beside:
    """What was measured beside a run."""

    server: ServerCost | None = None
    """What our server spent on it."""
    network: OnNetwork | None = None
    """The emulated network that it was made on."""


Reader: TypeAlias = Callable[[Run, Beside], float | None]


@dataclass(frozen=True, slots=True)
class Measure:
    """One number per run."""

    name: str
    label: str
    unit: Unit
    definition: str
    """What it is, as `docs/measures.md` says it."""
    read: Reader
    """Value from a run and from what was measured beside it; None where unknown."""
    better: Better = "lower"
    shared: bool = False
    """Whether it counts what other programs do, too: then it is shown, and not ranked, but for runs
    that had an interface to themselves.
    """

    def ranked(self, finding: Finding, *, alone: bool) -> Finding:
        """What a comparison of runs found, as far as the measure is of their programs alone.

        `alone`: their interface was that of an emulated network, which no other program has.
        """
        shared = self.shared and not alone
        return "not_ranked" if shared and finding != "invalid" else finding

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


def _process(value: Callable[[Process], float | None]) -> Reader:
    return lambda run, _: None if run.process is None else value(run.process)


def _benchmark(value: Callable[[Benchmark], float | None]) -> Reader:
    return lambda run, _: None if run.benchmark is None else value(run.benchmark)


def _server_cpu(_run: Run, beside: Beside) -> float | None:
    return None if beside.server is None else beside.server.cpu_us_per_request


def _round_trips(run: Run, beside: Beside) -> float | None:
    latency = counted(run)
    if latency is None or latency.p50 is None or beside.network is None:
        return None
    return latency.p50 / beside.network.rtt_s if beside.network.rtt_s else None


def _answered(run: Run) -> int:
    return run.requests.ok + run.requests.failed


def _bytes(total: Callable[[Bytes], int]) -> Reader:
    """Bytes per answer."""

    def read(run: Run, _beside: Beside) -> float | None:
        requests = _answered(run)
        return None if run.bytes is None or requests == 0 else total(run.bytes) / requests

    return read


def _switches(run: Run, _beside: Beside) -> float | None:
    watched, requests = run.cost.context_switches, _answered(run)
    return (watched.voluntary + watched.involuntary) / requests if requests else None


def _cpu_per_gib(run: Run, _beside: Beside) -> float | None:
    received = run.bytes.received if run.bytes is not None else None
    if run.content is not None:
        received = run.content.bytes
    cost = run.cost.cpu_us_per_request
    if cost is None or received is None:
        return None
    gib = (received + _answered(run) * run.plan.request.body_bytes) / (1 << 30)
    return cost * run.requests.ok / 1e6 / gib if gib else None


def _wire(run: Run, _beside: Beside) -> float | None:
    return run.wire.bytes / run.wire.requests if run.wire and run.wire.requests else None


MEASURES = (
    Measure(
        "requests_per_s",
        "requests/s",
        "1/s",
        "ok requests in the measured window ÷ its length",
        lambda run, _: run.rate.requests_per_s,
        better="higher",
    ),
    Measure(
        "capacity_per_s",
        "highest requests/s that hold",
        "1/s",
        "the highest rate of a search at which its goals hold: the middle of the interval "
        "in which it lies, on a scale of ratios",
        lambda run, _: None if run.capacity is None else run.capacity.per_s,
        better="higher",
    ),
    Measure(
        "elapsed_s",
        "elapsed time",
        "s",
        "from the first connection attempt to the last response",
        lambda run, _: run.elapsed_s,
    ),
    Measure(
        "total_s",
        "time of the whole process",
        "s",
        "from the start of the client's process to its end",
        _process(lambda told: told.wall_s),
    ),
    Measure(
        "repetition_s",
        "time of a repetition",
        "s",
        "mean time of the whole workload, where a run repeats it",
        lambda run, _: run.repetitions.mean_s if run.repetitions else None,
    ),
    Measure(
        "mean_s",
        "mean latency",
        "s",
        "mean of the latency of all ok requests and of those given up at their timeout",
        _latency(lambda latency: latency.mean),
    ),
    Measure("p50", "p50 latency", "s", "median of the same", _latency(lambda latency: latency.p50)),
    Measure(
        "p90",
        "p90 latency",
        "s",
        "90th percentile of the same",
        _latency(lambda latency: latency.p90),
    ),
    Measure(
        "p99",
        "p99 latency",
        "s",
        "99th percentile of the same",
        _latency(lambda latency: latency.p99),
    ),
    Measure(
        "p99_9",
        "p99.9 latency",
        "s",
        "99.9th percentile of the same",
        _latency(lambda latency: latency.p99_9),
    ),
    Measure(
        "ttfb_p50",
        "p50 time to first byte",
        "s",
        "median from the first byte sent to the head of the response",
        lambda run, _: run.latency.ttfb.p50 if run.latency.ttfb else None,
    ),
    Measure(
        "late_p99",
        "p99 of how late requests left",
        "s",
        "open model: 99th percentile of actual − intended start, as far as the client caused it",
        lambda run, _: run.latency.late.p99 if run.latency.late else None,
    ),
    Measure(
        "round_trips",
        "p50 latency in round trips",
        "1",
        "`p50` ÷ the round-trip time of the emulated network",
        _round_trips,
    ),
    Measure(
        "user_s",
        "user CPU",
        "s",
        "CPU of the client's process in user mode, start-up and children included",
        _process(lambda told: told.user_s),
    ),
    Measure(
        "system_s",
        "system CPU",
        "s",
        "the same in the kernel",
        _process(lambda told: told.system_s),
    ),
    Measure(
        "cpu_s",
        "CPU of the whole process",
        "s",
        "`user_s` + `system_s`",
        _process(lambda told: told.user_s + told.system_s),
    ),
    Measure(
        "cpu_percent",
        "CPU of the process",
        "%",
        "`cpu_s` ÷ `total_s`",
        _process(lambda told: told.cpu_percent),
    ),
    Measure(
        "client_cpu_us_per_request",
        "client CPU per request",
        "us",
        "CPU of the client in the measured window ÷ its ok requests",
        lambda run, _: run.cost.cpu_us_per_request,
    ),
    Measure(
        "client_cpu_s_per_gib",
        "client CPU per GiB of bodies",
        "s",
        "CPU of the client ÷ GiB (2³⁰ bytes) of bodies sent and received",
        _cpu_per_gib,
    ),
    Measure(
        "server_cpu_us_per_request",
        "server CPU per request",
        "us",
        "CPU of the server's processes ÷ requests of the run, warm-up included",
        _server_cpu,
    ),
    Measure(
        "bytes_per_request",
        "payload bytes per request",
        "B",
        "TCP or UDP payload sent and received ÷ answered requests",
        _bytes(lambda told: told.sent + told.received),
    ),
    Measure(
        "sent_bytes_per_request",
        "bytes sent per request",
        "B",
        "the same, sent",
        _bytes(lambda told: told.sent),
    ),
    Measure(
        "received_bytes_per_request",
        "bytes received per request",
        "B",
        "the same, received",
        _bytes(lambda told: told.received),
    ),
    Measure(
        "wire_bytes_per_request",
        "bytes on the interface per request, of all programs",
        "B",
        "bytes through the client's network interface ÷ responses; ranked only on an "
        "emulated network, whose interface no other program uses",
        _wire,
        shared=True,
    ),
    Measure(
        "context_switches_per_request",
        "context switches per request",
        "1",
        "voluntary and involuntary context switches of the client ÷ answered requests",
        _switches,
    ),
    Measure(
        "syscalls_per_request",
        "system calls per request",
        "1",
        "of two runs of their own under strace, one with twice the requests: difference of "
        "the system calls ÷ difference of the requests",
        lambda run, _: run.syscalls.per_request if run.syscalls else None,
    ),
    Measure(
        "server_peak_rss_bytes",
        "server peak memory",
        "B",
        "largest resident memory of the server's processes since they began, added up",
        lambda _, beside: None if beside.server is None else beside.server.peak_rss_bytes,
    ),
    Measure(
        "peak_rss_bytes",
        "peak memory",
        "B",
        "largest resident memory of the client's process; with children, the largest sum "
        "seen in samples of a tenth of a second",
        _process(lambda told: told.peak_rss_bytes),
    ),
    Measure(
        "ns_per_op",
        "time per operation",
        "ns",
        "as `go test -bench` reports it",
        _benchmark(lambda told: told.ns_per_op),
    ),
    Measure(
        "alloc_bytes_per_op",
        "bytes allocated per operation",
        "B",
        "as `go test -bench -benchmem` reports it",
        _benchmark(lambda told: told.alloc_bytes_per_op),
    ),
    Measure(
        "allocs_per_op",
        "allocations per operation",
        "1",
        "as `go test -bench -benchmem` reports it",
        _benchmark(lambda told: told.allocs_per_op),
    ),
    Measure(
        "cpu_us_per_op",
        "CPU of both ends per operation",
        "us",
        "share of the process's life that it computed × `ns_per_op`",
        _benchmark(lambda told: told.cpu_us_per_op),
    ),
)
BY_NAME = {measure.name: measure for measure in MEASURES}
RATE, ELAPSED = BY_NAME["requests_per_s"], BY_NAME["elapsed_s"]
CAPACITY = BY_NAME["capacity_per_s"]
P50, P99 = BY_NAME["p50"], BY_NAME["p99"]
WALL, CPU = BY_NAME["total_s"], BY_NAME["cpu_s"]
USER, SYSTEM, CPU_PERCENT = BY_NAME["user_s"], BY_NAME["system_s"], BY_NAME["cpu_percent"]
CLIENT_CPU = BY_NAME["client_cpu_us_per_request"]
CPU_PER_GIB = BY_NAME["client_cpu_s_per_gib"]
SERVER_CPU = BY_NAME["server_cpu_us_per_request"]
WIRE = BY_NAME["wire_bytes_per_request"]
SYSCALLS = BY_NAME["syscalls_per_request"]
PEAK_RSS = BY_NAME["peak_rss_bytes"]
SERVER_PEAK_RSS = BY_NAME["server_peak_rss_bytes"]
LATENCIES = frozenset(
    {"mean_s", "p50", "p90", "p99", "p99_9", "ttfb_p50", "late_p99", "round_trips"}
)
"""Names of those that need the latency of each request."""
TAILS = frozenset({"p99", "p99_9"})
"""Names of those that need thousands of responses."""
TIMES = LATENCIES | {"requests_per_s", "capacity_per_s", "elapsed_s", "total_s", "repetition_s"}
"""Names of those that say how long something took, or how often it happened meanwhile."""
RACE = (RATE, P50, P99, CLIENT_CPU, SERVER_CPU, BY_NAME["bytes_per_request"])
"""What a race shows."""
