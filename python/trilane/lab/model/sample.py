"""One run in its place in the order of a comparison."""

from __future__ import annotations

from trilane.lab.model.network import OnNetwork
from trilane.lab.model.record import Amount, Count, Record, Share
from trilane.lab.model.run import Run


class ServerCost(Record, frozen=True):
    """What our server spent on one run, its handshakes and warm-up included."""

    cpu_s: Amount
    """CPU time, seconds."""
    requests: Count
    """Requests of the run, warm-up included."""
    cpu_us_per_request: Amount | None
    """CPU time per request, microseconds; null where it cannot be told from the client's."""
    busy: Share | None
    """How near the server was to its limit: its busiest thread, or all of them on its CPUs; null
    where the run was too short to tell.
    """
    others_busy: Share
    """Share of the machine's CPUs that other programs took."""
    peak_rss_bytes: Count | None = None
    """The most memory that its processes have had since they began, each at its own time; null
    where the kernel does not tell.
    """


class Sample(Record, frozen=True):
    """One run of one arm: where it stood in the order, and what came of it."""

    arm: str
    """Name of the arm."""
    block: Count
    """Number of the block, from 0."""
    slot: Count
    """0, or 1 for the second run of the arm in its block (A/A)."""
    position: Count
    """Place in the block, from 0."""
    run: Run | None = None
    """The run; absent when the process left none, and in results on disk, which refer to `file`."""
    problem: str | None = None
    """Why the process left no run."""
    file: str | None = None
    """Where the run lies, from the folder of the comparison."""
    server: ServerCost | None = None
    """What our server spent on it."""
    network: OnNetwork | None = None
    """The emulated network that it was made on; absent where there was none."""
    again: bool = False
    """Its block was made again, because other programs or machines disturbed a run of it; absent
    where it was not.
    """
