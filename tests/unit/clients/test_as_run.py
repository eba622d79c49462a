"""What a contender delivered: the statistics of its latencies."""

from __future__ import annotations

import pytest
from hdrh.histogram import HdrHistogram

from trilane.lab.clients.as_run import distribution


def kept(count: int) -> str:
    """A histogram of 1 ms, 2 ms and so on."""
    histogram = HdrHistogram(1_000, 3_600_000_000_000, 3)
    for number in range(1, count + 1):
        histogram.record_value(number * 1_000_000)
    blob: bytes = histogram.encode()
    return blob.decode()


@pytest.mark.parametrize(
    ("count", "known"),
    [(0, set()), (1, {"p50"}), (40, {"p50", "p75"}), (100, {"p50", "p75", "p90"})],
)
def test_quantiles_need_samples_as_in_runs_of_our_own(count: int, known: set[str]) -> None:
    """The median needs one, any other ten beyond it: the engine's `latency.rs` says the same."""
    found = distribution(kept(count))
    names = ("p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99")
    assert {name for name in names if getattr(found, name) is not None} == known
