"""What the coordinator tells of its workers."""

from __future__ import annotations

from trilane.cluster import load
from trilane.cluster.agent import Ready
from trilane.cluster.clock import Offset
from trilane.cluster.deal import Share
from trilane.cluster.load import Place


def test_a_clock_that_is_ahead_has_an_offset_above_zero_in_the_result() -> None:
    place = Place("fast", "tcp://10.0.0.2:1", "10.0.0.2", 4, frozenset())
    # The scheduler's clock is two seconds behind that of the worker.
    ready = Ready(Offset(-2_000_000_000, 500_000))
    assert load._told([place], [Share(0, 4)], [ready]) == [
        {
            "name": "fast",
            "host": "10.0.0.2",
            "cores": 4,
            "first": 0,
            "count": 4,
            "clock_offset_s": 2.0,
            "clock_error_s": 0.0005,
        }
    ]
