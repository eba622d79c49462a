"""What the coordinator tells of its workers, and with which of them it begins no load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trilane.cluster import agent, load
from trilane.cluster.agent import Ready
from trilane.cluster.clock import Offset
from trilane.cluster.deal import Share
from trilane.cluster.load import Cluster, ClusterFailed, Place


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


PLACE = Place("other", "tcp://10.0.0.2:1", "10.0.0.2", 4, frozenset())
OURS = agent.identity()


@pytest.mark.parametrize(
    ("scheduler", "worker", "told"),
    [
        (OURS, replace(OURS, revision="fedcba987654"), r"worker other has trilane .*fedcba987654"),
        (OURS, replace(OURS, version="9.9.9"), r"worker other has trilane 9\.9\.9"),
        (OURS, ModuleNotFoundError("trilane"), r"worker other has no Trilane .*trilane\[cluster\]"),
        (OURS, OSError("timed out"), "worker other does not answer: timed out"),
        (replace(OURS, revision="fedcba987654"), OURS, r"the scheduler has trilane .*fedcba987654"),
    ],
)
def test_who_has_another_trilane_is_refused_by_name(
    scheduler: object, worker: object, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = Cluster("tcp://10.0.0.1:8786")
    monkeypatch.setattr(cluster, "_run_on_scheduler", lambda _function: scheduler)
    monkeypatch.setattr(cluster, "_run_on_workers", lambda _function, _: {PLACE.address: worker})
    with pytest.raises(ClusterFailed, match=told):
        cluster._check_identities([PLACE])


def test_a_scheduler_without_workers_says_how_to_start_them() -> None:
    assert Cluster("tcp://10.0.0.1:8786")._too_few([], []) == (
        "the cluster at tcp://10.0.0.1:8786 has no workers: start them by "
        "`trilane cluster worker tcp://10.0.0.1:8786`"
    )
