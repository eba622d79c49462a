"""One made-up `trilane.search/1`; imports little, because the fake load program starts often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from synthetic import runs

REPEATS = 6


def search(
    version: str = "h2",
    *,
    low: float | None = 10_000.0,
    high: float | None = 10_400.0,
    goals: Sequence[str] = ("p99<10ms",),
    client_bound: bool = False,
    histogram: bool = False,
) -> dict[str, Any]:
    """A search that held up to `low` and no more from `high` on; None where there is no such."""
    return {
        "schema": "trilane.search/1",
        "goals": list(goals),
        "low_per_s": low,
        "high_per_s": high,
        "repeats": REPEATS,
        "lowest_per_s": 600.0,
        "interrupted": False,
        "trials": [
            _trial(version, rate, held, goals[0], client_bound, histogram)
            for rate, held in _tried(low, high)
        ],
    }


def _tried(low: float | None, high: float | None) -> Iterator[tuple[float, bool]]:
    """The rates, and whether each run held: some to come near, then both ends again and again."""
    if low is not None:
        yield from ((low / 2, True), *[(low, True)] * REPEATS)
    if high is not None:
        yield from ((high * 2, False), *[(high, False)] * REPEATS)


def _trial(
    version: str, rate: float, held: bool, goal: str, client_bound: bool, histogram: bool
) -> dict[str, Any]:
    p50 = 0.001 if held else 0.02
    run = runs.run(version, rate=rate, p50=p50, histogram=histogram)
    run["plan"].update(model="open", rate_per_s=rate, arrivals="constant")
    run["latency"]["response"] = run["latency"]["service"]
    why = [] if held else [f"{goal} is not true: it is {p50 * 1.8e3:.1f} ms"]
    if client_bound and not held:
        why.append("the client itself was at its limit")
    return {
        "rate_per_s": rate,
        "held": held,
        "why": why,
        "client_bound": client_bound and not held,
        "run": run,
    }
