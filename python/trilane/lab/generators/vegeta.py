"""What vegeta writes: times in nanoseconds, sizes in bytes.

`vegeta report -type json` is its `Metrics` (`lib/metrics.go`), `vegeta encode -to json` a `Result`
a line (`lib/results.go`).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct, convert, field, json

from trilane.lab.generators import samples
from trilane.lab.model.beside import Answers, OwnRate, Told
from trilane.lab.model.documents import Json
from trilane.lab.model.traffic import Statistics

_NS = 1e-9
# Of requests without a response.
_NO_STATUS = "0"
_UNSAID = [
    "its version, the version of HTTP, connections and workers",
    "latency from when requests were due: it runs from when a worker had taken them",
    "CPU of client and server, bytes on the wire, handshakes",
]
_RUNS = "from the taking by a worker to the last byte; a new connection is in it; "


class Latencies(Struct, frozen=True):
    """Its member `latencies`, nanoseconds."""

    mean: float
    max: float
    p50: float = field(name="50th")
    p95: float = field(name="95th")
    p99: float = field(name="99th")
    p90: float | None = field(name="90th", default=None)
    min: float | None = None


class Amounts(Struct, frozen=True):
    """Its members `bytes_in` and `bytes_out`."""

    total: int


class Report(Struct, frozen=True):
    """A report, as far as it is read."""

    latencies: Latencies
    bytes_in: Amounts
    duration: int
    """From the first request to the last one, nanoseconds."""
    wait: int
    """From there to the last response, nanoseconds."""
    requests: int
    rate: float
    """Requests divided by the duration."""
    status_codes: dict[str, int]
    errors: list[str] | None = None
    """Messages, each once."""


class Hit(Struct, frozen=True):
    """One line of results, as far as it is read."""

    code: int
    """Status code; 0 without a response."""
    timestamp: datetime
    """When a worker had taken it."""
    latency: int
    """Nanoseconds."""
    bytes_in: int
    error: str = ""
    url: str = ""


def is_report(document: Mapping[str, object]) -> bool:
    """Whether a document has the shape of a report."""
    return {"latencies", "bytes_in", "status_codes", "wait"} <= document.keys()


def is_hit(document: Mapping[str, object]) -> bool:
    """Whether a line has the shape of a result."""
    return {"code", "timestamp", "latency", "bytes_in"} <= document.keys()


def read_report(document: Json, file: str) -> Told:
    """What a report tells; raises `msgspec.ValidationError`."""
    report = convert(document, Report)
    latencies = report.latencies
    told: dict[str, float | None] = {
        name: getattr(latencies, name)
        for name in ("min", "mean", "max", "p50", "p90", "p95", "p99")
    }
    return _told(
        file,
        "vegeta report -type json",
        # Its throughput is over both, too.
        (report.duration + report.wait) * _NS,
        report.status_codes,
        dict.fromkeys(report.errors or []),
        OwnRate(per_s=report.rate, counts="requests sent, whatever came of them"),
        samples.told(report.requests, told, _NS) if report.requests else None,
        f"{_RUNS}of all requests, failed ones included",
        report.bytes_in.total,
        None,
    )


def read_results(path: Path, file: str) -> Told:
    """What the results of `vegeta encode -to json` tell; raises `msgspec.ValidationError`."""
    decoder = json.Decoder(Hit)
    latencies, status, errors = array("d"), Counter[str](), Counter[str]()
    urls, received, sent = set[str](), 0, 0
    first, last, end = float("inf"), 0.0, 0.0
    with path.open("rb") as lines:
        for line in lines:
            if not line.strip():
                continue
            hit = decoder.decode(line)
            at = hit.timestamp.timestamp()
            first, last = min(first, at), max(last, at)
            end = max(end, at + hit.latency * _NS)
            sent, received = sent + 1, received + hit.bytes_in
            status[str(hit.code)] += 1
            if 200 <= hit.code < 400:
                latencies.append(hit.latency)
            elif hit.code == 0:
                errors[hit.error or "no response"] += 1
            if len(urls) < 2:
                urls.add(hit.url)
    return _told(
        file,
        "vegeta encode -to json",
        max(0.0, end - first),
        status,
        dict(errors),
        OwnRate(
            per_s=sent / (last - first) if last > first else 0.0,
            counts="requests sent, whatever came of them",
        ),
        samples.measured(latencies, _NS) if latencies else None,
        f"{_RUNS}of requests that were ok",
        received,
        urls.pop() or None if len(urls) == 1 else None,
    )


def _told(  # noqa: PLR0913, PLR0917 - what the two outputs have in common
    file: str,
    form: str,
    duration_s: float,
    status: Mapping[str, int],
    errors: dict[str, int | None],
    own_rate: OwnRate,
    latency: Statistics | None,
    latency_runs: str,
    received: int,
    target: str | None,
) -> Told:
    ok = sum(count for code, count in status.items() if code[:1] in {"2", "3"})
    return Told(
        file=file,
        tool="vegeta",
        tool_version=None,
        format=form,
        target=target,
        duration_s=duration_s,
        requests=Answers(
            ok=ok,
            failed=sum(status.values()) - ok,
            # An attack waits for all of its requests.
            unfinished=0,
            status={code: count for code, count in status.items() if code != _NO_STATUS},
            errors=errors,
        ),
        requests_per_s=ok / duration_s if duration_s else 0.0,
        own_rate=own_rate,
        latency=latency,
        latency_runs=latency_runs,
        bytes_received=received,
        bytes_are="bodies",
        unsaid=[*([] if target else ["the URL"]), *_UNSAID],
    )
