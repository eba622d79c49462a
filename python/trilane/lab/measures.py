"""What a comparison compares: each measure's name, unit, direction, and where a run keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measure:
    """One number per run."""

    name: str
    label: str
    unit: str
    better: Literal["higher", "lower"]
    read: Callable[[Json, Mapping[str, Any] | None], float | None]
    """Value from a `trilane.run/1` and from the server's cost in that run; None where unknown."""


def _quantile(name: str) -> Callable[[Json, Mapping[str, Any] | None], float | None]:
    def read(run: Json, _server: Mapping[str, Any] | None) -> float | None:
        latency = run["latency"]
        # Open model: response time, because it counts from the intended start.
        distribution = latency["response"] if run["plan"]["model"] == "open" else latency["service"]
        value: float | None = (distribution or {}).get(name)
        return value

    return read


def _rate(run: Json, _server: Mapping[str, Any] | None) -> float | None:
    return float(run["rate"]["requests_per_s"])


def _client_cpu(run: Json, _server: Mapping[str, Any] | None) -> float | None:
    value = run["cost"]["cpu_us_per_request"]
    return None if value is None else float(value)


def _server_cpu(_run: Json, server: Mapping[str, Any] | None) -> float | None:
    value = (server or {}).get("cpu_us_per_request")
    return None if value is None else float(value)


def _bytes(run: Json, _server: Mapping[str, Any] | None) -> float | None:
    requests = run["requests"]["ok"] + run["requests"]["failed"]
    if requests == 0:
        return None
    return float(run["bytes"]["sent"] + run["bytes"]["received"]) / float(requests)


RATE = Measure("requests_per_s", "requests/s", "1/s", "higher", _rate)
P50 = Measure("p50", "p50 latency", "s", "lower", _quantile("p50"))
P99 = Measure("p99", "p99 latency", "s", "lower", _quantile("p99"))
CLIENT_CPU = Measure(
    "client_cpu_us_per_request", "client CPU per request", "us", "lower", _client_cpu
)
SERVER_CPU = Measure(
    "server_cpu_us_per_request", "server CPU per request", "us", "lower", _server_cpu
)
BYTES = Measure("bytes_per_request", "bytes per request", "B", "lower", _bytes)

MEASURES = (RATE, P50, P99, CLIENT_CPU, SERVER_CPU, BYTES)
BY_NAME = {measure.name: measure for measure in MEASURES}
