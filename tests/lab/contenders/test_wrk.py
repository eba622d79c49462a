"""wrk: what it cannot, and what becomes of its report."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from lab.contenders.conftest import CONTENDERS
from lab.contenders.conversation import Said, body, converse, plan
from trilane.lab.clients.contenders import Contender
from trilane.lab.serving.servers import Server

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


@pytest.fixture
def load(command: Callable[[Contender], list[str]], server: Server) -> Callable[..., Said]:
    """A second of wrk; `changes` replace parts of the plan."""

    def run(paths: list[str], **changes: Any) -> Said:
        workload = {"paths": paths, "count": None, "duration_s": 1.0, **changes.pop("workload", {})}
        changes = {"cacert": server.cacert, "connections": 6, **changes}
        wanted = plan(changes.pop("origin", server.https), "h1", "load", **changes)
        return converse(command(WRK), {**wanted, "workload": {**wanted["workload"], **workload}})

    return run


def accounted(said: Said) -> dict[str, Any]:
    """The result, which adds up, and whose histogram holds what was answered in time."""
    assert said.names == ["ready", "done", "result"], said.errors
    assert said.code == 0, said.errors
    result = said["result"]
    failed = sum(result["failed"].values())
    assert result["started"] == result["ok"] + failed + result["abandoned"]
    assert result["examples"].keys() == result["failed"].keys()
    histogram = HdrHistogram.decode(result["latency"]["hdr"])
    assert histogram.get_total_count() == result["ok"] + result["failed"].get("status", 0)
    return result


def test_a_second_of_load(load: Callable[..., Said]) -> None:
    result = accounted(load(["/hello"]))
    assert result["failed"] == {}
    assert result["ok"] > 0
    assert result["versions"] == {"h1": result["ok"]}
    assert result["abandoned"] == result["connections"] == 6
    assert result["body_bytes"] == result["ok"] * len("hello world")


def test_several_paths_are_sent_in_turn(load: Callable[..., Said]) -> None:
    result = accounted(load(["/hello", "/nowhere"]))
    answered = result["ok"] + result["failed"]["status"]
    # Each thread takes them in turn; what is under way at the end makes the difference.
    assert abs(answered - 2 * result["ok"]) <= result["connections"]


def test_a_body_is_sent(load: Callable[..., Said]) -> None:
    said = load(["/echo"], method="POST", body=body(b"abc" * 1000), warmup_s=0.5, threads=2)
    assert accounted(said)["failed"] == {}


def test_answers_later_than_the_timeout_are_failures(load: Callable[..., Said]) -> None:
    workload = {"duration_s": 3.0}
    said = load(["/hello", "/delay/1500ms"], timeout_s=1.0, workload=workload)
    assert accounted(said)["failed"].keys() == {"timeout"}


def test_a_stranger_s_certificate_is_refused(load: Callable[..., Said], stranger: str) -> None:
    said = load(["/hello"], cacert=stranger)
    assert said.names == []
    assert said.code == 1
    assert "CERTIFICATE_VERIFY_FAILED" in said.errors


def test_a_closed_port_ends_it(load: Callable[..., Said], closed_port: int) -> None:
    origin = f"https://127.0.0.1:{closed_port}"
    said = load(["/hello"], origin=origin)
    assert (said.names, said.code) == ([], 1)
    assert origin in said.errors
    assert "refused" in said.errors


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workload": {"count": 5, "duration_s": None}}, "cannot count requests"),
        ({"workload": {"duration_s": 1.5}}, "whole seconds, not in 1.5 s"),
        ({"session": False}, "session = true"),
        ({"gzip": True}, "gzip"),
        ({"warmup": 10}, "warms up by time"),
    ],
)
def test_what_wrk_cannot(load: Callable[..., Said], changes: dict[str, Any], reason: str) -> None:
    said = load(["/hello"], **changes)
    assert (said.names, said.code) == (["cannot"], 0)
    assert reason in said["cannot"]["reason"]
