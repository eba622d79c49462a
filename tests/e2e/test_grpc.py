"""`trilane load --grpc`: every kind of method, against every server, over every version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from peers.grpc_schema import SERVICE

from .grpc_calls import (
    IMPORT,
    KINDS,
    LISTENERS,
    LOOK_UP,
    PAIR_IDS,
    PAIRS,
    PROTO_FLAGS,
    UNARY,
    WATCH,
    Calling,
    each_version,
    example,
    failed,
    grpc,
)
from .loading import Report, flag, load

if TYPE_CHECKING:
    from pathlib import Path

    from peers.running import Peers

# More than the 65,535 bytes that a server grants at first.
BIG = Calling(
    "CreateBook",
    "unary",
    ({"parent": "shelves/9", "book": {"title": "Big", "labels": ["x" * 1000] * 100}},),
    1,
)
BIG_BYTES = 100 * 1000
MISSING = {"name": "shelves/3/books/99999"}


def every_kind(peers: Peers, name: str, listener: str, file: Path, *arguments: str) -> Report:
    """Each kind of method four times, in turn, and as often a large message and a status."""
    lines = [
        *({"grpc": each.name, "body": list(each.messages)} for each in (WATCH, IMPORT, LOOK_UP)),
        {"grpc": UNARY.name, "body": UNARY.messages[0], "weight": 2},
        {"grpc": BIG.name, "body": BIG.messages[0]},
        {"grpc": UNARY.name, "body": MISSING, "expect": {"status": "NOT_FOUND"}},
    ]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    peer = peers[name]
    trust = [] if peer.ca is None or listener == "h2c" else ["--cacert", str(peer.ca)]
    return load(
        *("--requests", str(file), *PROTO_FLAGS, flag(listener), *trust, *arguments),
        *("-n", "28", "-c", "2", "-m", "2", "--deadline", "30s", peer.bases[listener]),
    ).good


def check_every_kind(report: Report, listener: str) -> None:
    """All went well, with as many messages as belong to them."""
    assert report["target"]["version"] == listener
    assert report["requests"]["ok"] == report["requests"]["started"] == 28
    calls = report["grpc"]
    assert calls["schema"] == "--proto"
    assert calls["deadline_s"] == pytest.approx(30)
    assert calls["compressed"] is False
    assert calls["status"] == {"OK": 24, "NOT_FOUND": 4}
    methods = {each["method"]: each for each in calls["methods"]}
    assert {name: (each["ok"], each["failed"]) for name, each in methods.items()} == {
        UNARY.name: (12, 0),
        **{each.name: (4, 0) for each in (WATCH, IMPORT, LOOK_UP, BIG)},
    }
    assert [methods[each.name]["kind"] for each in KINDS] == [each.kind for each in KINDS]
    assert methods[WATCH.name]["latency"]["count"] == 4
    sent, received = 12 + 4 + 4 * (1 + 3 + 3), 8 + 4 + 4 * (7 + 1 + 3)
    assert calls["messages"] == {"sent": sent, "received": received}
    assert report["bytes"]["body_sent"] > 4 * BIG_BYTES
    assert report["bytes"]["body_received"] > 4 * BIG_BYTES


@pytest.mark.parametrize(("name", "listener"), PAIRS, ids=PAIR_IDS)
def test_every_kind_of_call_goes_well(
    peers: Peers, name: str, listener: str, tmp_path: Path
) -> None:
    report = every_kind(peers, name, listener, tmp_path / "calls.jsonl")
    check_every_kind(report, listener)
    assert report["grpc"]["mode"] == "wire"
    assert report["grpc"]["codec"] is None


@pytest.mark.parametrize("name", LISTENERS)
def test_messages_are_encoded_and_decoded_where_asked(
    peers: Peers, name: str, tmp_path: Path
) -> None:
    codec = ["--grpc-mode", "codec"]
    report = every_kind(peers, name, "h2c", tmp_path / "calls.jsonl", *codec)
    check_every_kind(report, "h2c")
    assert report["grpc"]["mode"] == "codec"
    assert report["grpc"]["codec"]["encode_us"] > 0
    assert report["grpc"]["codec"]["decode_us"] > 0


@each_version
def test_many_messages_on_one_stream(peers: Peers, name: str, listener: str) -> None:
    """More than the windows that we grant at first."""
    body = json.dumps({"parent": "shelves/2", "count": 5000})
    run = grpc(peers[name], listener, WATCH, "-n", "1", "-c", "1", body=body)
    assert run.good["grpc"]["messages"] == {"sent": 1, "received": 5000}


@pytest.mark.parametrize("name", LISTENERS)
def test_a_stream_that_ends_badly_is_a_failure_with_its_name(peers: Peers, name: str) -> None:
    body = LOOK_UP.body + json.dumps(MISSING)
    run = grpc(peers[name], "h2c", LOOK_UP, "-n", "4", "-c", "2", body=body)
    report = failed(run)
    assert report["status"] == {"200": 4}
    assert report["grpc"]["status"] == {"NOT_FOUND": 4}
    assert report["grpc"]["messages"] == {"sent": 16, "received": 12}
    assert "NOT_FOUND" in example(report)


@each_version
def test_a_deadline_that_passes(peers: Peers, name: str, listener: str) -> None:
    slow = json.dumps({"parent": "shelves/3", "count": 3, "interval": "20s"})
    span = ["-n", "4", "-c", "2", "-m", "2", "--deadline", "300ms"]
    report = failed(grpc(peers[name], listener, WATCH, *span, body=slow))
    assert report["grpc"]["status"] == {"DEADLINE_EXCEEDED": 4}
    assert "DEADLINE_EXCEEDED" in example(report)
    assert report["grpc"]["deadline_s"] == pytest.approx(0.3)


def test_methods_are_described_by_the_server_too(peers: Peers, tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    health = {"grpc": "grpc.health.v1.Health/Check", "body": {}}
    file.write_text(json.dumps({"body": UNARY.messages[0]}) + "\n" + json.dumps(health))
    url = peers["embedded"].bases["h2c"]
    run = load("--grpc", UNARY.name, "--requests", str(file), "--h2c", "-n", "4", "-c", "1", url)
    counted = {each["method"]: each["ok"] for each in run.good["grpc"]["methods"]}
    assert counted == {f"{SERVICE}/GetBook": 2, "grpc.health.v1.Health/Check": 2}
