"""The books of a run: every request started ends here, as ok or failed."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

_DIGEST = 1 << 64
_LOWEST_NS = 1_000
_HIGHEST_NS = 3_600_000_000_000
_DIGITS = 3


class Sample(NamedTuple):
    """One request that ended."""

    latency_ns: int
    status: int
    version: str
    size: int
    digest: int
    failure: str | None = None
    example: str = ""
    found: tuple[str, ...] = ()
    """Paths that the body led to."""


class Tally:
    """Counts of one thread or process; they add up. One thread at a time writes to it."""

    __slots__ = ("digest", "examples", "failed", "latencies", "ok", "size", "status", "versions")

    ok: int
    failed: Counter[str]
    examples: dict[str, str]
    status: Counter[int]
    versions: Counter[str]
    size: int
    digest: int
    latencies: array[int]

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything, as after a warm-up."""
        self.ok = 0
        self.failed = Counter()
        self.examples = {}
        self.status = Counter()
        self.versions = Counter()
        self.size = 0
        self.digest = 0
        # Nanoseconds. The histogram is made after `done`, where its cost is nobody's.
        self.latencies = array("q")

    def note(self, sample: Sample) -> None:
        """Enter one request."""
        if sample.status:
            self.status[sample.status] += 1
            self.versions[sample.version] += 1
            self.size += sample.size
        # A failure took its time, too: it stays in the distribution.
        self.latencies.append(sample.latency_ns)
        if sample.failure is None:
            self.ok += 1
            self.digest = (self.digest + sample.digest) % _DIGEST
        else:
            self.failed[sample.failure] += 1
            self.examples.setdefault(sample.failure, sample.example)

    def add(self, other: Tally) -> None:
        """Take over another one's counts."""
        self.ok += other.ok
        self.failed += other.failed
        self.examples = {**other.examples, **self.examples}
        self.status += other.status
        self.versions += other.versions
        self.size += other.size
        self.digest = (self.digest + other.digest) % _DIGEST
        self.latencies.extend(other.latencies)

    def to_json(self) -> dict[str, Any]:
        """The counts as the protocol wants them."""
        return {
            "started": self.ok + self.failed.total(),
            "ok": self.ok,
            "failed": dict(self.failed),
            "examples": self.examples,
            "abandoned": 0,
            "status": {str(code): count for code, count in sorted(self.status.items())},
            "versions": dict(self.versions),
            "connections": None,
            "body_bytes": self.size,
            "body_digest": self.digest,
            "latency": histogram(Counter(self.latencies)),
        }


def crc(body: bytes) -> int:
    """The checksum of one body; a run's digest is their sum, so order does not matter."""
    return zlib.crc32(body)


def histogram(counts: Mapping[int, int]) -> dict[str, str] | None:
    """Counts by latency in nanoseconds, as the protocol has them; None where there are none."""
    if not counts:
        return None
    # Imported here: it costs time and memory that the start of the process need not pay.
    from hdrh.histogram import HdrHistogram  # noqa: PLC0415

    made = HdrHistogram(_LOWEST_NS, _HIGHEST_NS, _DIGITS)
    for value, count in counts.items():
        made.record_value(min(max(value, _LOWEST_NS), _HIGHEST_NS), count)
    encoded: bytes = made.encode()
    return {"hdr": encoded.decode("ascii")}
