"""The loops that do nothing with what they get, as a contender."""

from __future__ import annotations

from typing import Any

import pytest

from lab.contenders.loads import CONNECTIONS, STREAMS, Load, added_up, refused
from others import others
from trilane.lab.targets.servers import Server

pytestmark = others


@pytest.mark.parametrize(("path", "length"), [("/hello", 11), ("/bytes/1024", 1024)])
def test_a_second_of_load(load: Load, server: Server, path: str, length: int) -> None:
    result = added_up(load("floor", "h1", [path], origin=server.http))
    assert result["ok"] > 0
    assert result["abandoned"] == CONNECTIONS
    assert result["body_bytes"] == result["ok"] * length
    assert result["latency"] is None


@pytest.mark.parametrize(("path", "length"), [("/hello", 11), ("/bytes/20000", 20_000)])
def test_a_second_of_load_over_http_3(load: Load, path: str, length: int) -> None:
    """Long enough for the server to change its keys, and to leave out packet numbers."""
    result = added_up(load("floor", "h3", [path]))
    assert result["ok"] > 100
    assert result["abandoned"] == CONNECTIONS * STREAMS["h3"]
    assert result["body_bytes"] == result["ok"] * length
    assert result["versions"] == {"h3": result["ok"]}


def test_fields_are_sent(load: Load, server: Server) -> None:
    """The answer holds them, and so has another length with each."""

    def length(headers: list[list[str]]) -> float:
        said = load("floor", "h1", ["/headers"], origin=server.http, headers=headers)
        result = added_up(said)
        return float(result["body_bytes"] / result["ok"])

    assert length([["x-one", "1"], ["x-two", "2" * 100]]) > length([["x-one", "1"]]) + 100


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "over HTTP/1.1 knows no TLS"),
        ({"workload": {"count": 5, "duration_s": None}}, "works for a duration"),
        ({"workload": {"paths": ["/hello", "/echo"]}}, "one request over and over"),
        ({"method": "PUT"}, "sends GET without a body, not PUT"),
    ],
)
def test_what_the_loop_cannot(
    load: Load, server: Server, changes: dict[str, Any], reason: str
) -> None:
    origin = server.http if changes else server.https
    refused(load("floor", "h1", ["/hello"], origin=origin, **changes), reason)
