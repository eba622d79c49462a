"""Load generators of others: what they cannot, and what becomes of their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from lab.contenders.conftest import OldServer
from lab.contenders.conversation import Said, body
from lab.contenders.loads import CONNECTIONS, STREAMS, Load, added_up, refused

EVERY = [("wrk", "h1"), ("h2load", "h2"), ("h2load", "h2c")]
# One of each is enough where a load goes on for a second; `h2load_counts` has all.
SECURE = [each for each in EVERY if each[1] != "h2c"]
H2LOAD = [each for each in EVERY if each[0] == "h2load"]


def accounted(said: Said) -> dict[str, Any]:
    """The result, which adds up, and whose histogram holds what was answered in time."""
    result = added_up(said)
    histogram = HdrHistogram.decode(result["latency"]["hdr"])
    assert histogram.get_total_count() == result["ok"] + result["failed"].get("status", 0)
    return result


@pytest.mark.parametrize(("name", "version"), SECURE)
def test_a_second_of_load(load: Load, name: str, version: str) -> None:
    said = load(name, version, ["/hello"])
    result = accounted(said)
    assert said["ready"]["library"] == name
    assert said["ready"]["library_version"] != "unknown"
    assert result["failed"] == {}
    assert result["ok"] > 0
    assert result["versions"] == {version: result["ok"]}
    assert result["connections"] == CONNECTIONS
    assert 0 <= result["abandoned"] <= CONNECTIONS * STREAMS[version]
    # What is under way at the end may have sent a part of its content.
    assert (
        0
        <= result["body_bytes"] - result["ok"] * len("hello world")
        <= (CONNECTIONS * STREAMS[version] * len("hello world"))
    )
    assert result["elapsed_s"] >= 0.9
    used = result["program"]
    assert used["voluntary"] > 0
    assert used["peak_rss_bytes"] > 100_000


def test_wrk_sends_several_paths_in_turn(load: Load) -> None:
    result = accounted(load("wrk", "h1", ["/hello", "/nowhere"]))
    answered = result["ok"] + result["failed"]["status"]
    # Each thread takes them in turn; what is under way at the end makes the difference.
    assert abs(answered - 2 * result["ok"]) <= CONNECTIONS


@pytest.mark.parametrize(("name", "version"), SECURE)
def test_a_body_is_sent(load: Load, name: str, version: str) -> None:
    sent = body(b"abc" * 1000)
    said = load(name, version, ["/echo"], method="POST", body=sent, warmup_s=0.5, threads=2)
    result = accounted(said)
    assert result["failed"] == {}
    assert result["body_bytes"] >= result["ok"] * 3000


@pytest.mark.parametrize(("name", "version"), SECURE)
def test_a_stranger_s_certificate_is_refused(
    load: Load, name: str, version: str, stranger: str
) -> None:
    said = load(name, version, ["/hello"], cacert=stranger)
    assert said.names == []
    assert said.code == 1
    assert "CERTIFICATE_VERIFY_FAILED" in said.errors


@pytest.mark.parametrize(("name", "version"), EVERY)
def test_a_closed_port_ends_it(load: Load, name: str, version: str, closed_port: int) -> None:
    origin = f"{'http' if version == 'h2c' else 'https'}://127.0.0.1:{closed_port}"
    said = load(name, version, ["/hello"], origin=origin)
    assert (said.names, said.code) == ([], 1)
    assert origin in said.errors
    assert "refused" in said.errors


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workload": {"count": 5, "duration_s": None}}, "cannot count requests"),
        ({"workload": {"duration_s": 1.5}}, "whole seconds, not in 1.5 s"),
        ({"discard": True}, "holds whole bodies in memory"),
    ],
)
def test_what_wrk_cannot(load: Load, changes: dict[str, Any], reason: str) -> None:
    refused(load("wrk", "h1", ["/hello"], **changes), reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"method": "PUT"}, "sends GET where there is no body, not PUT"),
        ({"body": body(b"abc")}, "sends POST where there is a body, not GET"),
        ({"workload": {"count": 5, "duration_s": None}}, "5 on 6"),
    ],
)
def test_what_h2load_cannot(load: Load, changes: dict[str, Any], reason: str) -> None:
    refused(load("h2load", "h2", ["/hello"], **changes), reason)


def test_wrk_s_answers_later_than_the_timeout_are_failures(load: Load) -> None:
    said = load(
        "wrk", "h1", ["/hello", "/delay/1500ms"], timeout_s=1.0, workload={"duration_s": 3.0}
    )
    assert accounted(said)["failed"].keys() == {"timeout"}


@pytest.mark.parametrize(("name", "version"), H2LOAD)
def test_h2load_counts(load: Load, name: str, version: str) -> None:
    """And bodies that it is told to throw away are what it throws away anyhow."""
    count = {"workload": {"count": 100, "duration_s": None}}
    result = accounted(load(name, version, ["/hello", "/nowhere"], discard=True, **count))
    assert (result["started"], result["abandoned"]) == (100, 0)
    missing = result["failed"]["status"]
    # Each connection begins with the first path; how it shares them out is h2load's.
    assert 100 / 3 < missing <= 50
    assert result["ok"] == 100 - missing
    assert result["status"] == {"200": 100 - missing, "404": missing}
    assert result["versions"] == {version: 100}


@pytest.mark.parametrize(("name", "version"), H2LOAD)
def test_h2load_keeps_no_log_where_no_latency_is_asked_for(
    load: Load, name: str, version: str
) -> None:
    count = {"workload": {"count": 100, "duration_s": None}}
    result = added_up(load(name, version, ["/hello"], latency=False, **count))
    assert (result["ok"], result["latency"]) == (100, None)
    assert result["versions"] == {version: 100}


@pytest.mark.parametrize(("name", "version"), H2LOAD)
def test_h2load_sends_a_file(load: Load, name: str, version: str, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(bytes(100_000))
    said = load(
        name,
        version,
        ["/echo"],
        method="POST",
        body_file=str(sent),
        workload={"count": 12, "duration_s": None},
    )
    result = accounted(said)
    assert (result["ok"], result["body_bytes"]) == (12, 1_200_000)


@pytest.mark.parametrize(("name", "version"), H2LOAD)
def test_what_h2load_waits_for_in_vain_is_a_failure(load: Load, name: str, version: str) -> None:
    count = {"workload": {"count": 24, "duration_s": None}}
    said = load(name, version, ["/delay/60s"], timeout_s=1.0, **count)
    assert said.names == ["ready", "done", "result"], said.errors
    result = said["result"]
    assert (result["started"], result["ok"], result["abandoned"]) == (24, 0, 0)
    assert sum(result["failed"].values()) == 24
    assert result["failed"]["timeout"] >= CONNECTIONS
    assert result["latency"] is None


def test_h2load_is_not_believed_about_the_version(load: Load, h1_only: OldServer) -> None:
    said = load("h2load", "h2", ["/hello"], origin=h1_only.origin)
    assert (said.names, said.code) == ([], 1)
    assert "nothing was negotiated, not h2" in said.errors
