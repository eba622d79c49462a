"""What a contender tells of itself and of its run (docs/contenders.md, `trilane.contender/1`)."""

from __future__ import annotations

from trilane.lab.model.record import Amount, Base64, Count, Record, StatusCode, Version
from trilane.lab.model.traffic import ErrorKind


class Ready(Record, frozen=True):
    """The contender has made its session and waits for `start`."""

    library: str
    library_version: str
    runtime: str
    """Language runtime and version."""


class Latencies(Record, frozen=True):
    """How long requests took: a histogram, or a few numbers in seconds."""

    hdr: Base64 | None = None
    """HdrHistogram V2, deflate, base64; nanoseconds."""
    quantiles: dict[str, Amount | None] | None = None
    """By name, such as `p50`."""
    count: Count = 0
    min: Amount | None = None
    mean: Amount | None = None
    stdev: Amount | None = None
    max: Amount | None = None


class Used(Record, frozen=True):
    """What the kernel charged to a program that the contender started, and measures."""

    user_s: Amount
    system_s: Amount
    voluntary: Count
    """Context switches by which the program gave up the processor, …"""
    involuntary: Count
    """… and by which the processor was taken away."""
    peak_rss_bytes: Count | None = None


class Result(Record, frozen=True):
    """What became of the requests: `started` = `ok` + all of `failed` + `abandoned`."""

    started: Count
    ok: Count
    body_bytes: Count
    """Of the decoded bodies of all responses."""
    elapsed_s: Amount
    """From `start` to `done`, seconds."""
    failed: dict[ErrorKind, Count] | None = None
    examples: dict[str, str] | None = None
    """One message for each kind of failure."""
    abandoned: Count = 0
    status: dict[StatusCode, Count] | None = None
    versions: dict[Version, Count] | None = None
    connections: Count | None = None
    """Connections opened; None where the library does not tell."""
    body_digest: Count | None = None
    """Sum of the CRC-32 of the bodies of ok responses, modulo 2^64; None where they are only
    counted.
    """
    repetitions_s: list[Amount] | None = None
    """Each repetition of the workload, seconds."""
    latency: Latencies | None = None
    late: Latencies | None = None
    """How much later requests were sent than they were due; None where the client does not tell."""
    program: Used | None = None
    """Of a load generator of others': what was charged to it alone, without the script that
    started it.
    """
