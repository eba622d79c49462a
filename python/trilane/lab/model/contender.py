"""What is known of a client under test beside what the engine knows of itself."""

from __future__ import annotations

from trilane.lab.model.record import Amount, Count, Positive, PositiveAmount, Record


class Client(Record, frozen=True):
    """The client under test."""

    name: str
    """Contender."""
    library: str
    """Library."""
    library_version: str
    """Version of the library, as it says."""
    runtime: str
    """Language runtime and version."""


class ContextSwitches(Record, frozen=True):
    """How often the operating system put something else on the processor."""

    voluntary: Count
    """The program waited, and gave up the processor."""
    involuntary: Count
    """The processor was taken from it."""


class Process(Record, frozen=True):
    """The client's process as seen from outside, start-up included, children included."""

    wall_s: Amount
    """From its start to its end."""
    startup_s: Amount
    """From its start to the first request."""
    user_s: Amount
    """User CPU."""
    system_s: Amount
    """System CPU."""
    cpu_percent: Amount | None
    """User and system CPU as a share of wall_s, percent."""
    context_switches: ContextSwitches
    """While the workload ran."""
    peak_rss_bytes: Count | None
    """Peak resident memory; with children, the largest sum seen ten times a second."""


class Wire(Record, frozen=True):
    """Bytes through the network interface while the workload ran, everything on it included."""

    bytes: Count
    """Received and sent; on the loopback interface what both ends sent."""
    interface: str
    """The client's network interface."""
    requests: Count
    """Responses in that time, warm-up included."""


class Syscalls(Record, frozen=True):
    """System calls, from two runs of their own under strace, of which one sent twice as much."""

    per_request: Amount
    """Difference of the two counts per request."""
    requests: Count
    """Requests of the shorter run."""


class Repetitions(Record, frozen=True):
    """The whole workload, repeated."""

    count: Count
    """How many."""
    mean_s: Amount
    """Mean time of one."""
    seconds: list[Amount]
    """Each."""


class Benchmark(Record, frozen=True):
    """What `go test -bench` printed: client and server are one process."""

    name: str
    """Name of the benchmark."""
    iterations: Positive
    """Operations of the last round, which was timed."""
    gomaxprocs: Positive
    """CPUs that Go's scheduler used."""
    ns_per_op: PositiveAmount
    """Time per operation, nanoseconds."""
    alloc_bytes_per_op: Amount | None
    """Bytes allocated per operation; null where not told."""
    allocs_per_op: Amount | None
    """Allocations per operation; null where not told."""
    cpu_us_per_op: Amount
    """CPU per operation, microseconds: the share of the process's life that it computed, times
    ns_per_op.
    """
    lines: list[str]
    """As printed, in Go's benchmark format."""


class Content(Record, frozen=True):
    """What the client under test read, and what it should have read."""

    bytes: Count
    """Decoded bytes of all ok responses."""
    digest: Count | None
    """Sum of the CRC-32 of their bodies, modulo 2^64; null where they were only counted."""
    expected: Count | None
    """The digest computed from an independent client; null where the set of pages depends on
    timing.
    """
