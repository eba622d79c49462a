"""vegeta: a rate, as fast as it can, and what becomes of its log."""

from __future__ import annotations

from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from lab.contenders.conversation import Said, body
from lab.contenders.loads import Load, added_up, refused
from others import others

pytestmark = others

VERSIONS = ("h1", "h2", "h2c")
# Requests a second.
RATE = 200.0


def accounted(said: Said) -> dict[str, Any]:
    """The result, which adds up, and whose histogram holds every answer."""
    result = added_up(said)
    answered = sum(result["status"].values())
    histogram = HdrHistogram.decode(result["latency"]["hdr"])
    assert histogram.get_total_count() == answered
    assert said["ready"]["library_version"] != "unknown"
    return result


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rate_is_not_exceeded(load: Load, version: str) -> None:
    result = accounted(load("vegeta", version, ["/hello"], rate_per_s=RATE))
    assert result["failed"] == {}
    # On a busy machine fewer leave within the second.
    assert 0 < result["started"] <= RATE + 1
    assert result["body_bytes"] == result["ok"] * len("hello world")
    assert result["versions"] == {version: result["ok"]}
    # How late each left: none before it was due, and one was the most punctual.
    late = HdrHistogram.decode(result["late"]["hdr"])
    assert late.get_total_count() == result["started"]
    assert late.get_min_value() <= 2000


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_as_fast_as_it_can(load: Load, version: str) -> None:
    result = accounted(load("vegeta", version, ["/hello"]))
    assert result["failed"] == {}
    assert result["ok"] > RATE
    assert result["late"] is None


def test_what_fails_is_told_by_kind(load: Load) -> None:
    result = accounted(load("vegeta", "h1", ["/hello", "/nowhere"], rate_per_s=RATE))
    assert set(result["failed"]) == {"status"}
    assert abs(result["failed"]["status"] - result["ok"]) <= 1
    assert result["status"]["404"] == result["failed"]["status"]


def test_a_body_is_sent(load: Load) -> None:
    sent = body(b"abc" * 1000)
    said = load("vegeta", "h2", ["/echo"], method="POST", body=sent, rate_per_s=RATE)
    result = accounted(said)
    assert result["body_bytes"] == result["ok"] * 3000


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_a_stranger_s_certificate_is_refused(load: Load, version: str, stranger: str) -> None:
    said = load("vegeta", version, ["/hello"], cacert=stranger, rate_per_s=RATE)
    assert (said.names, said.code) == ([], 1)
    assert "CERTIFICATE_VERIFY_FAILED" in said.errors


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workload": {"count": 5, "duration_s": None}}, "counts not"),
        ({"discard": True}, "holds whole bodies"),
        ({"version": "h3"}, "not h3"),
    ],
)
def test_what_vegeta_cannot(load: Load, changes: dict[str, Any], reason: str) -> None:
    refused(load("vegeta", "h1", ["/hello"], **changes), reason)
