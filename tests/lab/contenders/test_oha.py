"""oha: every version, with its latencies as it tells them."""

from __future__ import annotations

from typing import Any

import pytest

from lab.contenders.conversation import body
from lab.contenders.loads import CONNECTIONS, STREAMS, Load, added_up, refused
from others import others

pytestmark = others

VERSIONS = ("h1", "h2", "h2c", "h3")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_of_load(load: Load, version: str) -> None:
    said = load("oha", version, ["/hello"])
    result = added_up(said)
    assert said["ready"]["library_version"] != "unknown"
    assert result["ok"] > 0
    assert result["failed"] == {}
    assert result["abandoned"] <= CONNECTIONS * STREAMS[version]
    assert result["versions"] == {version: result["ok"]}
    assert result["body_bytes"] == result["ok"] * len("hello world")
    latency = result["latency"]
    assert latency["count"] == result["ok"]
    assert latency["min"] <= latency["quantiles"]["p50"] <= latency["quantiles"]["p99"]


def test_a_rate_is_kept(load: Load) -> None:
    result = added_up(load("oha", "h1", ["/hello"], rate_per_s=200.0))
    # No machine is too slow to be too fast.
    assert 0 < result["ok"] <= 220


@pytest.mark.parametrize("version", VERSIONS)
def test_a_status_of_400_and_above_is_a_failure(load: Load, version: str) -> None:
    count = {"count": 50, "duration_s": None}
    result = added_up(load("oha", version, ["/nowhere"], workload=count))
    assert (result["ok"], result["failed"], result["status"]) == (0, {"status": 50}, {"404": 50})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_body_is_sent(load: Load, version: str) -> None:
    sent = body(b"abc" * 1000)
    count = {"count": 50, "duration_s": None}
    result = added_up(load("oha", version, ["/echo"], method="POST", body=sent, workload=count))
    assert (result["ok"], result["body_bytes"]) == (50, 50 * 3000)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version != "h2c"])
def test_a_stranger_s_certificate_is_refused(load: Load, version: str, stranger: str) -> None:
    said = load("oha", version, ["/hello"], cacert=stranger)
    assert (said.names, said.code) == ([], 1)


def test_a_closed_port_ends_it(load: Load, closed_port: int) -> None:
    origin = f"http://127.0.0.1:{closed_port}"
    said = load("oha", "h2c", ["/hello"], origin=origin)
    assert (said.names, said.code) == ([], 1)
    assert origin in said.errors
    assert "refused" in said.errors


@pytest.mark.parametrize(
    ("paths", "changes", "reason"),
    [
        (["/hello", "/echo"], {}, "oha asks for one path"),
        (["/hello"], {"discard": True}, "oha holds whole bodies"),
        (["/hello"], {"workload": {"kind": "crawl", "start": "/site/"}}, "cannot follow links"),
    ],
)
def test_what_oha_cannot(
    load: Load, paths: list[str], changes: dict[str, Any], reason: str
) -> None:
    refused(load("oha", "h1", paths, **changes), reason)
