"""Calls of gRPC: by ghz, which encodes them, and by h2load, which is given the bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from lab.contenders.loads import CONNECTIONS, Load, added_up, refused
from others import others
from trilane.lab.clients.executor import Setting
from trilane.lab.clients.plan import contender_plan
from trilane.lab.experiment.workload import Workload
from trilane.lab.targets import calls
from trilane.lab.targets.calls import Call

GRPC = calls.EMBEDDED["grpc"]
# No shelf has so many books.
MISSING = Call(calls.METHOD, message=json.dumps({"name": "shelves/1/books/999999"}))


def asked(call: Call, version: str, **workload: Any) -> dict[str, Any]:
    """What the lab tells a contender of a call, as changes of a plan."""
    work = Workload(kind="call", **(workload or {"duration_s": 1.0}))
    arm = work.arm("ghz", version, "load", message="grpc", connections=CONNECTIONS, streams=4)
    whole = contender_plan(arm, work, Setting("", call=call))
    return {key: whole[key] for key in ("workload", "method", "headers", "body", "call")}


@pytest.mark.parametrize("version", ["h2", "h2c"])
@pytest.mark.parametrize("name", [pytest.param("ghz", marks=others), "h2load"])
def test_a_second_of_calls(load: Load, name: str, version: str) -> None:
    said = load(name, version, [], **asked(GRPC, version))
    result = added_up(said)
    assert result["ok"] > 0
    assert result["failed"] == {}
    assert result["versions"] == {version: result["ok"]}
    assert said["ready"]["library_version"] != "unknown"
    histogram = HdrHistogram.decode(result["latency"]["hdr"])
    assert histogram.get_total_count() == result["ok"]


@others
def test_ghz_counts_by_the_status_of_grpc(load: Load) -> None:
    changes = asked(MISSING, "h2c", count=50)
    result = added_up(load("ghz", "h2c", [], **changes))
    assert (result["ok"], result["failed"]) == (0, {"status": 50})
    assert result["examples"] == {"status": "gRPC status NotFound"}


@others
def test_ghz_makes_nothing_but_calls_of_grpc(load: Load) -> None:
    refused(load("ghz", "h2", ["/hello"]), "calls of gRPC only")
    refused(load("ghz", "h2", [], **asked(calls.EMBEDDED["json"], "h2")), "calls of gRPC only")


@others
def test_ghz_verifies_the_certificate(load: Load, stranger: str) -> None:
    said = load("ghz", "h2", [], **asked(GRPC, "h2"), cacert=stranger)
    assert (said.names, said.code) == ([], 1)
    assert "CERTIFICATE_VERIFY_FAILED" in said.errors
