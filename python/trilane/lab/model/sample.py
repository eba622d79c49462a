"""One run in its place in the order of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

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
    """The run; null when the process left none."""
    problem: str | None = None
    """Why there is no run."""
    file: str | None = None
    """Where the run lies, from the folder of the comparison."""
    server: ServerCost | None = None
    """What our server spent on it."""


def of_arm(arm: Mapping[str, Any]) -> list[Sample]:
    """The samples of an arm of a `trilane.comparison/1`, each with its run."""
    made = iter(arm["runs"])
    return [
        msgspec.convert(
            # `runs` holds the runs of the samples that left one, in the same order.
            {**kept, "arm": arm["name"], "run": next(made) if kept["problem"] is None else None},
            Sample,
        )
        for kept in arm["samples"]
    ]
