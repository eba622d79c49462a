"""`trilane load --grpc`: which statuses count as ok, and how each end of a call is counted."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from peers import chaos, grpc_chaos, h2_chaos
from peers.grpc_chaos import message
from peers.h2_chaos import GOAWAY, frame

from .grpc_calls import PROTO_FLAGS, UNARY, each_version, example, failed, grpc
from .loading import Run, load

if TYPE_CHECKING:
    from peers.running import Peers

_MISSING = '{"name": "shelves/3/books/99999"}'


def call(script: chaos.Script, *arguments: str) -> Run:
    """Sixteen unary calls to a bad server."""
    with chaos.serve(script) as server:
        return load(
            *("--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h2c"),
            *("-c", "2", "-m", "4", "-n", "16", *arguments, server.base + "/"),
        )


@each_version
def test_a_status_that_is_expected_is_ok(peers: Peers, name: str, listener: str) -> None:
    span = ["-n", "4", "-c", "2", "--expect-status", "NOT_FOUND"]
    run = grpc(peers[name], listener, UNARY, *span, body=_MISSING)
    report = run.good
    assert (report["requests"]["ok"], report["requests"]["failed"]) == (4, 0)
    assert report["grpc"]["status"] == {"NOT_FOUND": 4}
    assert report["grpc"]["expected"] == ["NOT_FOUND"]
    assert report["grpc"]["status_latency"]["NOT_FOUND"]["count"] == 4
    assert report["latency"]["service"]["count"] == 4
    # And OK is not.
    found = failed(grpc(peers[name], listener, UNARY, *span))
    assert found["grpc"]["status"] == {"OK": 4}
    assert "NOT_FOUND was expected" in example(found)


def test_statuses_are_told_apart(peers: Peers) -> None:
    body = UNARY.body + _MISSING
    span = ["-n", "8", "-c", "2", "--expect-status", "ok,5"]
    report = grpc(peers["embedded"], "h2c", UNARY, *span, body=body).good
    assert report["grpc"]["status"] == {"OK": 4, "NOT_FOUND": 4}
    latency = report["grpc"]["status_latency"]
    assert {name: each["count"] for name, each in latency.items()} == report["grpc"]["status"]


def test_a_message_may_be_so_large_and_no_larger() -> None:
    payload = b"\x0a\x62" + b"x" * 98
    script = grpc_chaos.Answer(message(payload), [("grpc-status", "0")]).script
    good = call(script, "--max-message", "100").good
    assert good["requests"]["ok"] == 16
    assert good["grpc"]["max_message_bytes"] == 100
    report = call(script, "--max-message", "99").checked
    assert set(report["requests"]["failures"]) == {"limit"}
    assert report["grpc"]["status"] == {"RESOURCE_EXHAUSTED": 16}
    assert "--max-message" in example(report, "limit")


def test_a_server_that_sends_its_clients_away_is_left_in_time_and_quoted() -> None:
    async def script(reader: object, writer: object) -> None:
        def on_request(_stream: int, out: object) -> None:
            told = struct.pack(">II", 0, 11) + b"too_many_pings"
            out.write(frame(GOAWAY, 0, 0, told))  # type: ignore[attr-defined]

        await h2_chaos.server(on_request)(reader, writer)  # type: ignore[arg-type]

    report = call(script, "--timeout", "1s").checked
    requests = report["requests"]
    assert requests["failed"] == requests["started"] == 16
    texts = [example(report, kind) for kind in requests["failures"]]
    assert any("ENHANCE_YOUR_CALM: too_many_pings" in text for text in texts), texts
    assert "no connection could be made" not in str(report["validity"])
    assert sum(report["grpc"]["status"].values()) == 16
