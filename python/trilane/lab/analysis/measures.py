"""What a comparison compares: each measure's name, unit, direction, and where a run keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
Server: TypeAlias = Mapping[str, Any] | None
Reader: TypeAlias = Callable[[Json, Server], float | None]


@dataclass(frozen=True, slots=True)
class Measure:
    """One number per run."""

    name: str
    label: str
    unit: str
    """1/s, s, us, ns, B, % or 1 (a count)."""
    better: Literal["higher", "lower"]
    read: Reader
    """Value from a `trilane.run/1` and from the server's cost in that run; None where unknown."""

    def to_json(self) -> Json:
        """The measure as a `trilane.comparison/1` lists it."""
        return {"name": self.name, "label": self.label, "unit": self.unit, "better": self.better}


def _at(*path: str) -> Reader:
    def read(run: Json, _server: Server) -> float | None:
        value: Any = run
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return None if value is None else float(value)

    return read


def _latency(name: str, kind: str | None = None) -> Reader:
    def read(run: Json, _server: Server) -> float | None:
        latency = run["latency"]
        # Open model: response time, because it counts from the intended start.
        counted = kind or ("response" if run["plan"]["model"] == "open" else "service")
        value: float | None = (latency[counted] or {}).get(name)
        return value

    return read


def _server_cpu(_run: Json, server: Server) -> float | None:
    value = (server or {}).get("cpu_us_per_request")
    return None if value is None else float(value)


def _answered(run: Json) -> int:
    return int(run["requests"]["ok"]) + int(run["requests"]["failed"])


def _per_answer(total: Reader) -> Reader:
    def read(run: Json, server: Server) -> float | None:
        value, requests = total(run, server), _answered(run)
        return None if value is None or requests == 0 else value / requests

    return read


def _payload(run: Json, _server: Server) -> float | None:
    counted = run["bytes"]
    return None if counted is None else float(counted["sent"] + counted["received"])


def _sent(run: Json, _server: Server) -> float | None:
    return None if run["bytes"] is None else float(run["bytes"]["sent"])


def _received(run: Json, _server: Server) -> float | None:
    return None if run["bytes"] is None else float(run["bytes"]["received"])


def _switches(run: Json, _server: Server) -> float | None:
    watched = run["cost"]["context_switches"]
    return float(watched["voluntary"] + watched["involuntary"])


def _cpu_per_gib(run: Json, _server: Server) -> float | None:
    content, payload, cost = run.get("content"), run["bytes"], run["cost"]["cpu_us_per_request"]
    received = content["bytes"] if content else payload["received"] if payload else None
    if cost is None or received is None:
        return None
    gib = (int(received) + _answered(run) * int(run["plan"]["request"]["body_bytes"])) / (1 << 30)
    return float(cost) * int(run["requests"]["ok"]) / 1e6 / gib if gib else None


def _wire(run: Json, _server: Server) -> float | None:
    wire = run.get("wire")
    return float(wire["bytes"]) / wire["requests"] if wire and wire["requests"] else None


RATE = Measure("requests_per_s", "requests/s", "1/s", "higher", _at("rate", "requests_per_s"))
ELAPSED = Measure("elapsed_s", "elapsed time", "s", "lower", _at("elapsed_s"))
TOTAL = Measure("total_s", "time of the whole process", "s", "lower", _at("process", "wall_s"))
REPETITION = Measure(
    "repetition_s", "time of a repetition", "s", "lower", _at("repetitions", "mean_s")
)
MEAN = Measure("mean_s", "mean latency", "s", "lower", _latency("mean"))
P50 = Measure("p50", "p50 latency", "s", "lower", _latency("p50"))
P90 = Measure("p90", "p90 latency", "s", "lower", _latency("p90"))
P99 = Measure("p99", "p99 latency", "s", "lower", _latency("p99"))
P99_9 = Measure("p99_9", "p99.9 latency", "s", "lower", _latency("p99_9"))
TTFB = Measure("ttfb_p50", "p50 time to first byte", "s", "lower", _latency("p50", "ttfb"))
USER = Measure("user_s", "user CPU", "s", "lower", _at("process", "user_s"))
SYSTEM = Measure("system_s", "system CPU", "s", "lower", _at("process", "system_s"))
CPU_PERCENT = Measure(
    "cpu_percent", "CPU of the process", "%", "lower", _at("process", "cpu_percent")
)
CLIENT_CPU = Measure(
    "client_cpu_us_per_request",
    "client CPU per request",
    "us",
    "lower",
    _at("cost", "cpu_us_per_request"),
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
    "bytes on the wire per request",
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
    "syscalls_per_request", "system calls per request", "1", "lower", _at("syscalls", "per_request")
)
PEAK_RSS = Measure("peak_rss_bytes", "peak memory", "B", "lower", _at("process", "peak_rss_bytes"))
NS_PER_OP = Measure("ns_per_op", "time per operation", "ns", "lower", _at("benchmark", "ns_per_op"))
ALLOC_BYTES = Measure(
    "alloc_bytes_per_op",
    "bytes allocated per operation",
    "B",
    "lower",
    _at("benchmark", "alloc_bytes_per_op"),
)
ALLOCS = Measure(
    "allocs_per_op", "allocations per operation", "1", "lower", _at("benchmark", "allocs_per_op")
)
CPU_PER_OP = Measure(
    "cpu_us_per_op",
    "CPU of both ends per operation",
    "us",
    "lower",
    _at("benchmark", "cpu_us_per_op"),
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
