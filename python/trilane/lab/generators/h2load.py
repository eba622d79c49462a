"""What h2load writes: the report that it prints, and its `--log-file`.

h2load has no JSON. Its report (`src/h2load.cc` of nghttp2) has a table of times whose columns are
named in a line above it; the log has a line for each request: microseconds since 1970, status
code (-1 without a response), and microseconds to the end of the response.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from pathlib import Path

from msgspec import Struct, ValidationError

from trilane.lab.generators import samples
from trilane.lab.model.beside import Answers, OwnRate, Told
from trilane.lab.model.traffic import Statistics
from trilane.quantity import SECONDS

_FINISHED = re.compile(r"^finished in ([\d.]+)(us|ms|s|m|h), ([\d.]+) req/s", re.MULTILINE)
_REQUESTS = re.compile(
    r"^requests: (\d+) total, (\d+) started, (\d+) done, (\d+) succeeded, (\d+) failed, "
    r"(\d+) errored, (\d+) timeout",
    re.MULTILINE,
)
_STATUS = re.compile(r"^status codes: (.+)$", re.MULTILINE)
_TRAFFIC = re.compile(r"^traffic: \S+ \((\d+)\) total", re.MULTILINE)
_COLUMNS = re.compile(r"^\s+(min\s+max\s.*)$", re.MULTILINE)
_TIMES = re.compile(r"^(?:time for request|request)\s*:\s+(.+)$", re.MULTILINE)
_TIME = re.compile(r"([\d.]+)(us|ms|s|m|h)")
_LOG_LINE = re.compile(rb"(\d+)\t(-?\d+)\t(\d+)(?:\t.*)?\s*")
# What its columns are called here.
_NAMES = {"median": "p50", "p95": "p95", "p99": "p99", "sd": "stdev"}
_US = 1e-6
_UNSAID = [
    "its version, the URL, connections and streams",
    "latency from when requests were due",
    "CPU of client and server, handshakes",
]
_RUNS = "from the handing to the codec to the end of the response; of "


class Accounts(Struct, frozen=True):
    """Its line `requests:`."""

    total: int
    """That it was to make."""
    started: int
    done: int
    succeeded: int
    """With a status of 2xx or 3xx."""
    failed: int
    """All others that are done."""
    errored: int
    """Those of them without a response."""
    timeout: int
    """Those of these whose connection timed out."""


def is_report(text: str) -> bool:
    """Whether a text is h2load's report."""
    return bool(_FINISHED.search(text) and _REQUESTS.search(text))


def is_log(head: bytes) -> bool:
    """Whether the first line of a file is one of h2load's log."""
    return bool(_LOG_LINE.fullmatch(head.partition(b"\n")[0]))


def read_report(text: str, file: str) -> Told:
    """What a report tells; raises `ValidationError`."""
    finished, line = _FINISHED.search(text), _REQUESTS.search(text)
    if finished is None or line is None:
        raise ValidationError("the report of h2load is not whole")
    accounts = Accounts(*map(int, line.groups()))
    duration_s = float(finished[1]) * SECONDS[finished[2]]
    status, traffic = _STATUS.search(text), _TRAFFIC.search(text)
    errored = accounts.errored - accounts.timeout
    errors = {"timeout": accounts.timeout, "errored": errored}
    return Told(
        file=file,
        tool="h2load",
        tool_version=None,
        format="the report that h2load prints",
        target=None,
        duration_s=duration_s,
        requests=Answers(
            ok=accounts.succeeded,
            failed=accounts.failed,
            unfinished=max(0, accounts.started - accounts.done),
            status={} if status is None else _classes(status[1]),
            errors={what: count for what, count in errors.items() if count},
        ),
        requests_per_s=accounts.succeeded / duration_s if duration_s else 0.0,
        own_rate=OwnRate(
            per_s=float(finished[3]), counts="requests that were done, whatever their status"
        ),
        latency=_times(text, accounts.done),
        latency_runs=f"{_RUNS}requests with a response",
        bytes_received=None if traffic is None else int(traffic[1]),
        bytes_are="all payload, without TLS",
        unsaid=_UNSAID,
    )


def _classes(told: str) -> dict[str, int]:
    """`100 2xx, 0 3xx` as counts by class, those of none left out."""
    pairs = (entry.split() for entry in told.split(","))
    return {name: int(count) for count, name in pairs if int(count)}


def _times(text: str, count: int) -> Statistics | None:
    columns, row = _COLUMNS.search(text), _TIMES.search(text)
    if columns is None or row is None or count == 0:
        return None
    values = [float(number) * SECONDS[unit] for number, unit in _TIME.findall(row[1])]
    # The last column, `+/- sd`, is a share.
    names = [_NAMES.get(name, name) for name in columns[1].split()]
    return samples.told(count, dict(zip(names, values, strict=False)))


def read_log(path: Path, file: str) -> Told:
    """What a log tells; raises `ValidationError` for a line that is none."""
    latencies, status = array("d"), Counter[int]()
    first, end = float("inf"), 0.0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            match = _LOG_LINE.fullmatch(line)
            if match is None:
                raise ValidationError(f"line {number} is none of h2load's log")
            start, code, took = (int(part) for part in match.groups())
            first, end = min(first, start), max(end, start + took)
            status[code] += 1
            if 200 <= code < 400:
                latencies.append(took)
    ok = len(latencies)
    lost = status.pop(-1, 0)
    duration_s = max(0.0, end - first) * _US
    return Told(
        file=file,
        tool="h2load",
        tool_version=None,
        format="h2load --log-file",
        target=None,
        duration_s=duration_s,
        requests=Answers(
            ok=ok,
            failed=status.total() - ok + lost,
            unfinished=None,
            status={str(code): count for code, count in sorted(status.items())},
            errors={"failed streams": lost} if lost else {},
        ),
        requests_per_s=ok / duration_s if duration_s else 0.0,
        own_rate=None,
        latency=samples.measured(latencies, _US) if ok else None,
        latency_runs=f"{_RUNS}requests that were ok",
        bytes_received=None,
        bytes_are=None,
        unsaid=[*_UNSAID, "bytes"],
    )
