"""`trilane load --grpc`: every kind of method, against every server, over every version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .grpc_calls import (
    IMPORT,
    KIND_IDS,
    KINDS,
    LISTENERS,
    LOOK_UP,
    PAIR_IDS,
    PAIRS,
    UNARY,
    WATCH,
    Calling,
    check_good,
    command,
    example,
    failed,
    grpc,
    succeed,
)
from .loading import Watched

if TYPE_CHECKING:
    from peers.running import Peers

every_pair = pytest.mark.parametrize(("name", "listener"), PAIRS, ids=PAIR_IDS)
every_kind = pytest.mark.parametrize("calling", KINDS, ids=KIND_IDS)
# More than the 65,535 bytes that a server grants at first.
BIG = Calling(
    "CreateBook",
    "unary",
    ({"parent": "shelves/9", "book": {"title": "Big", "labels": ["x" * 1000] * 100}},),
    1,
)
BIG_BYTES = 100 * 1000


@every_pair
@every_kind
def test_every_kind_of_call_goes_well(
    peers: Peers, name: str, listener: str, calling: Calling
) -> None:
    report = succeed(peers, name, listener, calling, 60)
    assert report["grpc"]["mode"] == "wire"
    assert report["grpc"]["codec"] is None
    assert report["grpc"]["deadline_s"] is None
    assert report["grpc"]["compressed"] is False


@every_pair
def test_messages_of_streams_have_latencies(peers: Peers, name: str, listener: str) -> None:
    bidi = succeed(peers, name, listener, LOOK_UP, 20)["grpc"]["message_latency"]
    # One round trip for each message that was sent.
    assert bidi["count"] == 60
    assert 0 < bidi["min"] <= bidi["p50"] <= bidi["max"] < 10
    stream = succeed(peers, name, listener, WATCH, 20)["grpc"]["message_latency"]
    assert 0 < stream["count"] <= 140
    assert stream["max"] < 10


@every_pair
@every_kind
def test_messages_are_encoded_and_decoded_where_asked(
    peers: Peers, name: str, listener: str, calling: Calling
) -> None:
    report = succeed(peers, name, listener, calling, 20, "--grpc-mode", "codec")
    assert report["grpc"]["mode"] == "codec"
    assert report["grpc"]["codec"]["encode_us"] > 0
    assert report["grpc"]["codec"]["decode_us"] > 0


@every_pair
def test_large_messages_wait_for_the_windows(peers: Peers, name: str, listener: str) -> None:
    report = succeed(peers, name, listener, BIG, 12)
    assert report["bytes"]["body_sent"] > 12 * BIG_BYTES
    assert report["bytes"]["body_received"] > 12 * BIG_BYTES


@pytest.mark.parametrize("count", [1, 2, 3, 10])
@pytest.mark.parametrize("name", LISTENERS)
def test_messages_are_sent_in_turn(peers: Peers, name: str, count: int) -> None:
    run = grpc(peers[name], "h2c", LOOK_UP, "-n", "20", "-c", "2", "--messages", str(count))
    assert run.good["grpc"]["messages"] == {"sent": 20 * count, "received": 20 * count}
    assert run.good["grpc"]["status"] == {"OK": 20}
    run = grpc(peers[name], "h2c", IMPORT, "-n", "4", "-c", "2", "--messages", str(count))
    assert run.good["grpc"]["messages"] == {"sent": 4 * count, "received": 4}


@pytest.mark.parametrize("listener", LISTENERS["embedded"])
def test_many_messages_on_one_stream(peers: Peers, listener: str) -> None:
    body = json.dumps({"parent": "shelves/2", "count": 5000})
    run = grpc(peers["embedded"], listener, WATCH, "-n", "4", "-c", "1", "-m", "2", body=body)
    assert run.good["grpc"]["messages"] == {"sent": 4, "received": 20_000}


@every_pair
def test_a_status_is_a_failure_with_its_name(peers: Peers, name: str, listener: str) -> None:
    missing = json.dumps({"name": "shelves/3/books/99999"})
    run = grpc(peers[name], listener, UNARY, "-n", "20", "-c", "2", "-m", "2", body=missing)
    report = failed(run)
    assert report["status"] == {"200": 20}
    assert report["grpc"]["status"] == {"NOT_FOUND": 20}
    assert "NOT_FOUND" in example(report)
    wrong = grpc(peers[name], listener, UNARY, "-n", "20", "-c", "2", body='{"name":"nonsense"}')
    assert failed(wrong)["grpc"]["status"] == {"INVALID_ARGUMENT": 20}


@every_pair
def test_a_stream_that_ends_badly_is_a_failure(peers: Peers, name: str, listener: str) -> None:
    body = LOOK_UP.body + json.dumps({"name": "shelves/1/books/99999"})
    run = grpc(peers[name], listener, LOOK_UP, "-n", "20", "-c", "2", body=body)
    report = failed(run)
    assert report["grpc"]["status"] == {"NOT_FOUND": 20}
    assert report["grpc"]["messages"] == {"sent": 80, "received": 60}


@every_pair
def test_a_deadline_that_passes(peers: Peers, name: str, listener: str) -> None:
    slow = json.dumps({"parent": "shelves/3", "count": 3, "interval": "20s"})
    span = ["-n", "8", "-c", "2", "-m", "2", "--deadline", "300ms"]
    report = failed(grpc(peers[name], listener, WATCH, *span, body=slow))
    assert report["grpc"]["status"] == {"DEADLINE_EXCEEDED": 8}
    assert "DEADLINE_EXCEEDED" in example(report)
    assert report["grpc"]["deadline_s"] == pytest.approx(0.3)


@every_pair
def test_a_deadline_that_does_not_pass(peers: Peers, name: str, listener: str) -> None:
    report = succeed(peers, name, listener, UNARY, 20, "--deadline", "30s")
    assert report["grpc"]["deadline_s"] == pytest.approx(30)


@every_pair
@every_kind
def test_a_run_that_ends_amid_calls_accounts_for_every_one(
    peers: Peers, name: str, listener: str, calling: Calling
) -> None:
    # An import leaves books behind, and a server keeps no more than 10,000.
    rate = ["-R", "100"] if calling is IMPORT else []
    span = ["-d", "1h", "--warmup", "0s", "-c", "2", "-m", "4", *rate]
    running = Watched(*command(peers[name], listener, calling, *span))
    shown = running.until_ok()
    running.interrupt()
    report = running.wait().checked
    assert report["requests"]["ok"] >= shown.ok
    assert report["requests"]["failed"] == 0
    assert report["grpc"]["status"] == {"OK": report["requests"]["ok"]}


@pytest.mark.parametrize("listener", LISTENERS["embedded"])
def test_an_endless_stream_is_abandoned(peers: Peers, listener: str) -> None:
    body = json.dumps({"parent": "shelves/3", "count": 1_000_000, "interval": "0.005s"})
    span = ["-d", "2s", "--warmup", "0s", "-c", "2", "-m", "2"]
    run = grpc(peers["embedded"], listener, WATCH, *span, body=body)
    requests = run.checked["requests"]
    assert requests["abandoned"] == requests["started"] == 4
    # How many of the 1,600 due come is the machine's affair; that streams go on is not.
    assert run.checked["grpc"]["messages"]["received"] > 4


@pytest.mark.parametrize("listener", LISTENERS["embedded"])
def test_an_open_model(peers: Peers, listener: str) -> None:
    span = ["-R", "200", "-n", "60", "-c", "2", "-m", "4"]
    report = grpc(peers["embedded"], listener, UNARY, *span).checked
    requests = report["requests"]
    assert requests["started"] == requests["ok"] == 60
    # The last one is due 295 ms after the first.
    assert report["rate"]["window_s"] >= 0.294
    assert report["latency"]["response"]["count"] == requests["ok"]


@pytest.mark.parametrize("name", LISTENERS)
def test_gates_are_judged(peers: Peers, name: str) -> None:
    passed = grpc(peers[name], "h2c", UNARY, "-n", "50", "-c", "1", "--fail-if", "p50>30s")
    check_good(passed.good, "h2c", UNARY, 50)
    breached = grpc(peers[name], "h2c", UNARY, "-n", "50", "-c", "1", "--fail-if", "p50>1us")
    assert breached.code == 3, breached
