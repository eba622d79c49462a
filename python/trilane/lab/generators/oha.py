"""What `oha --output-format json` writes (`-j` before 1.9): times in seconds, sizes in bytes.

The shape is that of `schema.json` in oha's repository; what its members count, that of
`src/printer.rs` and `src/result_data.rs`. A number that would be NaN is null there.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, convert, field

from trilane.lab.generators import samples
from trilane.lab.model.beside import Answers, OwnRate, Told
from trilane.lab.model.documents import Json
from trilane.lab.model.traffic import QUANTILES

# The error of requests that were in flight when the time was over.
_CUT_OFF = "aborted due to deadline"


class Summary(Struct, frozen=True, rename="camel"):
    """Its member `summary`, as far as it is read."""

    total: float
    """Length of the run, seconds."""
    requests_per_sec: float
    """All that ended in it, divided by it."""
    total_data: int
    """Bodies, bytes."""
    slowest: float | None = None
    """Seconds."""
    fastest: float | None = None
    """Seconds."""
    average: float | None = None
    """Seconds."""


class Percentiles(Struct, frozen=True):
    """Its member `latencyPercentiles`, seconds."""

    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p99_9: float | None = field(name="p99.9", default=None)
    p99_99: float | None = field(name="p99.99", default=None)


class Result(Struct, frozen=True, rename="camel"):
    """The whole document, as far as it is read."""

    summary: Summary
    latency_percentiles: Percentiles
    status_code_distribution: dict[str, int]
    """Responses by status code."""
    error_distribution: dict[str, int]
    """Requests without a response, by message."""


def is_one(document: Mapping[str, object]) -> bool:
    """Whether a document has oha's shape."""
    return {"summary", "latencyPercentiles", "statusCodeDistribution"} <= document.keys()


def read(document: Json, file: str) -> Told:
    """What oha tells; raises `msgspec.ValidationError`."""
    result = convert(document, Result)
    summary, status = result.summary, result.status_code_distribution
    responses = sum(status.values())
    ok = sum(count for code, count in status.items() if code[:1] in {"2", "3"})
    errors = {what: count for what, count in result.error_distribution.items() if what != _CUT_OFF}
    percentiles = result.latency_percentiles
    return Told(
        file=file,
        tool="oha",
        tool_version=None,
        format="oha --output-format json",
        target=None,
        duration_s=summary.total,
        requests=Answers(
            ok=ok,
            failed=responses - ok + sum(errors.values()),
            unfinished=result.error_distribution.get(_CUT_OFF, 0),
            status=status,
            errors=dict(errors),
        ),
        requests_per_s=ok / summary.total if summary.total else 0.0,
        own_rate=OwnRate(
            per_s=summary.requests_per_sec,
            counts="all that ended, failed ones and those that the end cut off included",
        ),
        latency=samples.told(
            responses,
            {
                "min": summary.fastest,
                "mean": summary.average,
                "max": summary.slowest,
                **{name: getattr(percentiles, name) for name in QUANTILES},
            },
        )
        if responses
        else None,
        latency_runs=(
            "from the sending to the last byte of responses with any status; over HTTP/1.1 a new "
            "connection is in it; with --latency-correction from when the request was due"
        ),
        bytes_received=summary.total_data,
        bytes_are="bodies",
        unsaid=[
            "its version, the URL, the version of HTTP, connections and requests in flight",
            "whether the latency runs from when requests were due (--latency-correction)",
            "CPU of client and server, bytes on the wire, handshakes",
        ],
    )
