"""The latencies that wrk measured, without those that it invents."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from lab.contenders.conftest import CONTENDERS

WRK = CONTENDERS["wrk"]
SCRIPT = WRK.folder / "contender.py"


@pytest.fixture(scope="module")
def wrk() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("wrk_contender", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = path
    return module


def corrected(counts: dict[int, int], interval: int) -> dict[int, int]:
    """`stats_correct` of wrk 4.1 (stats.c), whose histogram is an array by microsecond."""
    data = dict(counts)
    for value in range(interval * 2, max(counts) + 1):
        count, invented = data.get(value, 0), value - interval
        while count and invented > interval:
            data[invented] = data.get(invented, 0) + count
            invented -= interval
    return data


def test_the_samples_that_wrk_invents_are_taken_out_again(wrk: ModuleType) -> None:
    measured = {100: 50, 150: 30, 420: 4, 777: 2, 1500: 1, 5000: 1}
    requests = sum(measured.values())
    connections = 8
    interval = 1100 // (requests // connections)
    told = corrected(measured, interval)
    assert sum(told.values()) > requests
    pairs = [[value, count] for value, count in sorted(told.items())]
    report = {"requests": requests, "duration_us": 1100, "latency": pairs}
    assert wrk.observed(report, connections) == measured


def test_nothing_is_taken_out_where_wrk_invented_nothing(wrk: ModuleType) -> None:
    report = {"requests": 3, "duration_us": 2_000_000, "latency": [[1000, 2], [90_000, 1]]}
    assert wrk.observed(report, 8) == {1000: 2, 90_000: 1}
