"""`trilane load --grpc-protocol`: gRPC-Web and Connect, with connect-go and the embedded server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from peers import chaos, grpc_chaos

from .grpc_calls import (
    IMPORT,
    LOOK_UP,
    PROTO_FLAGS,
    UNARY,
    WATCH,
    Calling,
    example,
    failed,
    grpc,
)
from .loading import Run, flag, load

if TYPE_CHECKING:
    from pathlib import Path

    from peers.running import Peers

PROTOCOLS = ["grpc-web", "connect"]
# Protocol, server and version.
WAYS = [
    *[("grpc-web", "embedded", listener) for listener in ("h1", "h2c", "h3")],
    *[
        (protocol, "connect-go", listener)
        for protocol in PROTOCOLS
        for listener in ("h1", "h1s", "h2c", "h2", "h3")
    ],
]
# Each protocol once with content in chunks, and once on streams.
FEW = [("grpc-web", "connect-go", "h1"), ("connect", "connect-go", "h2c")]
few_ways = pytest.mark.parametrize("way", FEW, ids="-".join)
_MISSING = {"name": "shelves/3/books/99999"}
_ENDLESS = json.dumps({"parent": "shelves/3", "count": 1_000_000, "interval": "0.005s"})


def call(peers: Peers, way: tuple[str, str, str], calling: Calling, *arguments: str) -> Run:
    """Some calls in that protocol."""
    protocol, name, listener = way
    streams = [] if listener.startswith("h1") else ["-m", "2"]
    span = ["--grpc-protocol", protocol, "-c", "2", *streams, *arguments]
    return grpc(peers[name], listener, calling, *span)


def every_kind(peers: Peers, way: tuple[str, str, str], file: Path, *arguments: str) -> None:
    """Calls of each kind that the version has go well, and a status that is expected is found."""
    protocol, name, listener = way
    # A stream to the server needs both directions at once.
    kinds = [WATCH] if listener.startswith("h1") else [WATCH, IMPORT, LOOK_UP]
    lines = [
        *({"grpc": each.name, "body": list(each.messages)} for each in kinds),
        {"grpc": UNARY.name, "body": UNARY.messages[0]},
        {"grpc": UNARY.name, "body": _MISSING, "expect": {"status": "NOT_FOUND"}},
    ]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    peer = peers[name]
    trust = ["--cacert", str(peer.ca)] if listener in {"h1s", "h2", "h3"} else []
    count = 2 * len(lines)
    report = load(
        *("--requests", str(file), *PROTO_FLAGS, "--grpc-protocol", protocol, flag(listener)),
        *(*trust, "-c", "2", "-n", str(count), *arguments, peer.bases[listener]),
    ).good
    found = report["grpc"]
    assert report["requests"]["ok"] == count
    assert found["protocol"] == protocol
    assert found["status"] == {"OK": count - 2, "NOT_FOUND": 2}
    assert found["messages"] == {
        "sent": 2 * (sum(len(each.messages) for each in kinds) + 2),
        "received": 2 * (sum(each.received for each in kinds) + 1),
    }


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_calls_go_well(peers: Peers, way: tuple[str, str, str], tmp_path: Path) -> None:
    every_kind(peers, way, tmp_path / "calls.jsonl")


@few_ways
def test_messages_are_encoded_and_decoded_where_asked(
    peers: Peers, way: tuple[str, str, str], tmp_path: Path
) -> None:
    every_kind(peers, way, tmp_path / "calls.jsonl", "--grpc-mode", "codec")


@few_ways
def test_a_status_that_is_not_expected_is_a_failure(
    peers: Peers, way: tuple[str, str, str]
) -> None:
    report = failed(call(peers, way, Calling("GetBook", "unary", (_MISSING,), 1), "-n", "4"))
    assert report["grpc"]["status"] == {"NOT_FOUND": 4}
    assert "NOT_FOUND" in example(report)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_may_end_badly(peers: Peers, protocol: str) -> None:
    stream = Calling("LookUpBooks", "bidi_streaming", (*LOOK_UP.messages, _MISSING), 3)
    report = failed(call(peers, (protocol, "connect-go", "h2c"), stream, "-n", "4"))
    assert report["grpc"]["status"] == {"NOT_FOUND": 4}
    assert report["grpc"]["messages"] == {"sent": 16, "received": 12}


@few_ways
def test_a_deadline_passes(peers: Peers, way: tuple[str, str, str]) -> None:
    slow = {"parent": "shelves/3", "count": 3, "interval": "20s"}
    calling = Calling("WatchBooks", "server_streaming", (slow,), 3)
    run = call(peers, way, calling, "-n", "2", "--deadline", "300ms")
    assert failed(run)["grpc"]["status"] == {"DEADLINE_EXCEEDED": 2}


@few_ways
def test_messages_are_compressed(peers: Peers, way: tuple[str, str, str]) -> None:
    fields = {"parent": "shelves/9", "book": {"title": "x", "labels": ["x" * 1000] * 5}}
    calling = Calling("CreateBook", "unary", (fields,), 1)
    for mode in ("wire", "codec"):
        run = call(peers, way, calling, "-n", "4", "--gzip", "--grpc-mode", mode)
        assert run.good["grpc"]["status"] == {"OK": 4}
        assert run.good["bytes"]["body_sent"] < 4 * 2500


@few_ways
def test_a_stream_that_goes_on_is_a_result(peers: Peers, way: tuple[str, str, str]) -> None:
    calling = Calling("WatchBooks", "server_streaming", (json.loads(_ENDLESS),), 1)
    run = call(peers, way, calling, "-d", "500ms", "--warmup", "0s")
    assert run.good["requests"]["ok"] == run.good["requests"]["failed"] == 0
    assert run.good["grpc"]["messages"]["received"] > 4


def test_what_breaks_the_protocol_is_named() -> None:
    head = [(":status", "200"), ("content-type", "application/grpc-web+proto")]
    with chaos.serve(grpc_chaos.Answer(grpc_chaos.message(), None, head).script) as server:
        run = load(
            *("--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h2c"),
            *("--grpc-protocol", "grpc-web", "-c", "1", "-n", "4", server.base + "/"),
        )
    report = failed(run, "protocol")
    assert "message of trailers" in example(report, "protocol")
    assert sum(report["grpc"]["status"].values()) == 4
