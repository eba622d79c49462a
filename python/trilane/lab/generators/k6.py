"""What k6 writes at the end of a test: times in milliseconds, sizes in bytes.

Three shapes: that of `--summary-export`, whose values are members of a metric itself; that of the
argument of `handleSummary()`, with `values` in each; and since 1.5 that of
`--new-machine-readable-summary`, with metrics as a list (`internal/lib/summary` in its repository).
`http_req_failed` counts failures as what "passes".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert, field

from trilane.lab.generators import samples
from trilane.lab.model.beside import Answers, OwnRate, Told
from trilane.lab.model.documents import Json
from trilane.lab.model.traffic import QUANTILES, Statistics

_OK_ONES = "http_req_duration{expected_response:true}"


class Trend(Struct, frozen=True):
    """A metric of type trend, milliseconds; which there are is said by --summary-trend-stats."""

    avg: float | None = None
    min: float | None = None
    med: float | None = None
    max: float | None = None
    p75: float | None = field(name="p(75)", default=None)
    p90: float | None = field(name="p(90)", default=None)
    p95: float | None = field(name="p(95)", default=None)
    p99: float | None = field(name="p(99)", default=None)
    p99_9: float | None = field(name="p(99.9)", default=None)
    p99_99: float | None = field(name="p(99.99)", default=None)


class Counter(Struct, frozen=True):
    """A metric of type counter."""

    count: float
    rate: float | None = None
    """Per second of the test."""


class Failed(Struct, frozen=True):
    """The metric `http_req_failed`: how many requests it was true of."""

    passes: int | None = None
    """Requests that failed."""
    fails: int | None = None
    """Requests that did not."""
    matches: int | None = None
    """Requests that failed, in the newest shape."""
    total: int | None = None
    """All requests, there."""


class State(Struct, frozen=True, rename="camel"):
    """Its member `state`, for `handleSummary()`."""

    test_run_duration_ms: float | None = None


class Config(Struct, frozen=True):
    """Its member `config`, in the newest shape."""

    duration: float | None = None
    """Length of the test, seconds."""


class Metadata(Struct, frozen=True):
    """Its member `metadata`, likewise."""

    k6_version: str | None = None


def is_one(document: Mapping[str, object]) -> bool:
    """Whether a document has one of k6's shapes."""
    metrics, results = document.get("metrics"), document.get("results")
    if isinstance(metrics, dict):
        return bool(metrics.keys() & {"http_reqs", "iterations", "vus", "data_sent"})
    return isinstance(results, dict) and isinstance(results.get("metrics"), list)


def read(document: Json, file: str) -> Told:
    """What k6 tells; raises `msgspec.ValidationError`."""
    metrics, form = _metrics(document)
    if "http_reqs" not in metrics:
        raise ValidationError("it has no metric `http_reqs`: the test sent no HTTP requests")
    requests = convert(metrics["http_reqs"], Counter)
    count = round(requests.count)
    ok, failed = _accounts(metrics, count)
    duration_s = _duration_s(document, requests)
    of_ok = _OK_ONES in metrics
    trend = metrics.get(_OK_ONES if of_ok else "http_req_duration")
    received = metrics.get("data_received")
    return Told(
        file=file,
        tool="k6",
        tool_version=convert(document.get("metadata") or {}, Metadata).k6_version,
        format=form,
        target=None,
        duration_s=duration_s,
        requests=Answers(ok=ok, failed=failed, unfinished=None, status={}, errors={}),
        requests_per_s=ok / duration_s if duration_s else 0.0,
        own_rate=OwnRate(
            per_s=count / duration_s if duration_s else 0.0,
            counts="all requests, failed ones included, of the whole test",
        ),
        latency=None if trend is None else _latency(convert(trend, Trend), ok if of_ok else count),
        latency_runs=(
            "sending, waiting and receiving, without the wait for a connection and its making; "
            + ("of responses that were expected" if of_ok else "of all requests")
        ),
        bytes_received=None if received is None else round(convert(received, Counter).count),
        bytes_are="all payload, handshakes included",
        unsaid=[
            "the URL, the version of HTTP, connections",
            "status codes and kinds of errors",
            "latency from when requests were due (iterations wait for a free virtual user)",
            "CPU of client and server",
        ],
    )


def _metrics(document: Json) -> tuple[dict[str, Any], str]:
    """The values of each metric by its name, and what the shape is called."""
    results = document.get("results")
    if isinstance(results, dict):
        entries = convert(results.get("metrics"), list[_Entry])
        return {entry.name: entry.values for entry in entries}, "k6 --new-machine-readable-summary"
    metrics = convert(document["metrics"], dict[str, dict[str, Any]])
    nested = any(isinstance(metric.get("values"), dict) for metric in metrics.values())
    return (
        {name: metric.get("values", metric) for name, metric in metrics.items()},
        "k6 handleSummary()" if nested else "k6 --summary-export",
    )


class _Entry(Struct, frozen=True):
    name: str
    values: dict[str, Any]


def _accounts(metrics: Mapping[str, Any], count: int) -> tuple[int, int]:
    """Requests that were ok, and those that failed."""
    told = convert(metrics.get("http_req_failed") or {}, Failed)
    failed = told.matches if told.passes is None else told.passes
    if failed is None:
        raise ValidationError("it has no `http_req_failed`, so nobody knows how many were ok")
    return max(0, count - failed), failed


def _duration_s(document: Json, requests: Counter) -> float:
    state = convert(document.get("state") or {}, State)
    config = convert(document.get("config") or {}, Config)
    if state.test_run_duration_ms is not None:
        return state.test_run_duration_ms / 1e3
    if config.duration is not None:
        return config.duration
    if requests.rate:
        return requests.count / requests.rate
    raise ValidationError("it does not tell how long the test was, nor the rate of `http_reqs`")


def _latency(trend: Trend, count: int) -> Statistics:
    values = {"min": trend.min, "mean": trend.avg, "p50": trend.med, "max": trend.max}
    quantiles = {name: getattr(trend, name) for name in QUANTILES if name != "p50"}
    return samples.told(count, {**values, **quantiles}, 1e-3)
