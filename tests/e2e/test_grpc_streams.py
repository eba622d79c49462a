"""`trilane load --grpc`: streams that go on, that are paced, or are answered in other ways."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from peers import grpc_streams
from peers.grpc_recorder import recorder

from .grpc_calls import (
    IMPORT,
    LOOK_UP,
    PROTO_FLAGS,
    UNARY,
    WATCH,
    Calling,
    each_version,
    example,
    failed,
    grpc,
)
from .loading import Run, codes, load

if TYPE_CHECKING:
    from pathlib import Path

    from peers.running import Peers

_ENDLESS = json.dumps({"parent": "shelves/3", "count": 1_000_000, "interval": "0.005s"})


def converse(base: str, *arguments: str) -> Run:
    """Bidirectional calls to a server of `grpc_streams`, or a recorder."""
    return load(
        *("--grpc", LOOK_UP.name, "-b", LOOK_UP.body, *PROTO_FLAGS, "--h2c", "-c", "1", "-m", "2"),
        *arguments,
        base,
    )


def good_calls(run: Run, count: int) -> dict[str, Any]:
    """What is told of so many calls that went well."""
    assert run.good["requests"]["ok"] == run.good["requests"]["started"] == count
    assert run.good["grpc"]["status"] == {"OK": count}
    calls: dict[str, Any] = run.good["grpc"]
    return calls


@each_version
def test_a_stream_that_lives_through_the_run_is_a_result(
    peers: Peers, name: str, listener: str
) -> None:
    span = ["-d", "500ms", "--warmup", "0s", "-c", "2", "-m", "2", "--timeout", "400ms"]
    run = grpc(peers[name], listener, WATCH, *span, body=_ENDLESS)
    requests, calls = run.good["requests"], run.good["grpc"]
    assert requests["ok"] == requests["failed"] == 0
    assert requests["abandoned"] == 4
    assert "nothing_ok" not in codes(run.good)
    rates, window = calls["messages_per_s"], run.good["rate"]["window_s"]
    assert rates["received"] == pytest.approx(calls["messages"]["received"] / window)
    assert calls["message_latency"]["count"] == calls["messages"]["received"] > 4
    # The server pauses for 5 ms before each message.
    assert calls["message_latency"]["p50"] > 0.004


@each_version
def test_streams_last_as_long_as_they_may(peers: Peers, name: str, listener: str) -> None:
    span = ["-n", "4", "-c", "2", "-m", "2", "--stream-duration", "100ms"]
    run = grpc(peers[name], listener, WATCH, *span, body=_ENDLESS)
    requests = run.good["requests"]
    assert (requests["ok"], requests["failed"]) == (4, 0)
    # We gave them up.
    assert run.good["grpc"]["status"] == {"CANCELLED": 4}
    assert run.good["latency"]["service"]["min"] >= 0.0999
    assert run.good["grpc"]["streams"]["duration_s"] == pytest.approx(0.1)
    # Ours end in order, with as many messages as there was time for.
    run = grpc(peers[name], listener, LOOK_UP, *span)
    assert run.good["grpc"]["status"] == {"OK": 4}
    sent, received = (run.good["grpc"]["messages"][way] for way in ("sent", "received"))
    assert sent == received >= 4


@each_version
def test_several_messages_are_under_way(peers: Peers, name: str, listener: str) -> None:
    span = ["-n", "4", "-c", "1", "-m", "2", "--messages", "50", "--messages-in-flight", "16"]
    calls = good_calls(grpc(peers[name], listener, LOOK_UP, *span), 4)
    assert calls["messages"] == {"sent": 200, "received": 200}
    assert calls["message_latency"]["count"] == 200
    assert 0 < calls["message_latency"]["min"] <= calls["message_latency"]["p50"]
    assert calls["streams"]["messages_in_flight"] == 16


def test_messages_leave_before_the_answers_to_others() -> None:
    with recorder(each=True, pause_s=0.02) as found:
        run = converse(
            found.server.base, "-n", "2", "--messages", "12", "--messages-in-flight", "4"
        )
    assert run.good["grpc"]["messages"] == {"sent": 24, "received": 24}
    assert all(call.early > 0 for call in found.calls)
    # Each is timed from its own beginning.
    assert run.good["grpc"]["message_latency"]["min"] >= 0.015


@pytest.mark.parametrize(
    ("answer", "flag", "received"),
    [(grpc_streams.one_in(5), "1/5", 4), (grpc_streams.several(2), "any", 40)],
    ids=["one-in-five", "two-each"],
)
def test_a_server_need_not_answer_each_message(
    answer: grpc_streams.Answer, flag: str, received: int
) -> None:
    with grpc_streams.serve(answer) as heard:
        run = converse(heard.base, "-n", "2", "--messages", "20", "--answers", flag)
        calls = good_calls(run, 2)
    assert calls["messages"] == {"sent": 2 * 20, "received": 2 * received}
    assert heard.messages == [20] * 2
    if flag != "any":
        # One for each message that is answered.
        assert calls["message_latency"]["count"] == 2 * received
        assert calls["streams"]["answers"] == flag
    else:
        assert calls["streams"]["answers"] is None


def test_a_server_that_answers_less_is_told_with_a_hint() -> None:
    with grpc_streams.serve(grpc_streams.one_in(5)) as heard:
        run = converse(heard.base, "-n", "2", "--messages", "20", "--timeout", "300ms")
    assert "--answers any" in example(failed(run, "timeout"), "timeout")
    assert run.checked["grpc"]["status"] == {"DEADLINE_EXCEEDED": 2}


def test_our_direction_may_stay_open() -> None:
    with grpc_streams.serve(grpc_streams.until(3)) as heard:
        # The server ends the call, though we would go on.
        good_calls(converse(heard.base, "-n", "4", "--messages", "3", "--half-close", "never"), 4)
        assert heard.messages == []


@pytest.mark.parametrize("calling", [IMPORT, LOOK_UP], ids=lambda calling: calling.kind)
def test_messages_have_a_rate(peers: Peers, calling: Calling) -> None:
    span = ["-n", "2", "-c", "1", "--messages", "6", "--message-rate", "50"]
    run = grpc(peers["grpc-python"], "h2c", calling, *span)
    calls = good_calls(run, 2)
    assert calls["messages"]["sent"] == 12
    # The sixth leaves 100 ms after the first.
    assert run.good["latency"]["service"]["min"] >= 0.0999
    assert calls["streams"]["message_rate_per_s"] == 50


@each_version
def test_messages_are_streamed_whatever_their_number(
    peers: Peers, name: str, listener: str
) -> None:
    # More than goes with the head of a call.
    body = json.dumps({"parent": "nowhere", "book": {"title": "x" * 1000}})
    span = ["-n", "4", "-c", "1", "--messages", "500"]
    run = grpc(peers[name], listener, IMPORT, *span, body=body)
    report = failed(run)
    calls = report["grpc"]
    assert sum(calls["status"].values()) == 4
    assert "OK" not in calls["status"]
    # What had not left is not told as sent.
    assert calls["messages"]["sent"] * 1000 <= report["bytes"]["sent"]


def test_a_server_on_a_unix_socket_is_called(tmp_path: Path) -> None:
    socket = tmp_path / "grpc.sock"
    with grpc_streams.serve(grpc_streams.several(1), f"unix:{socket}") as heard:
        run = converse("http://localhost/", "-n", "4", "--connect-to", f"unix:{socket}")
    good_calls(run, 4)
    assert heard.messages == [3] * 4


def test_messages_have_gates_and_seconds(peers: Peers, tmp_path: Path) -> None:
    file = tmp_path / "seconds.ndjson"
    span = ["-d", "1300ms", "--warmup", "0s", "-c", "2", "-m", "2"]
    gates = ["--fail-if", "received_rate<1", "--fail-if", "message_p50>1h"]
    embedded = peers["embedded"]
    told = ["--ndjson", str(file)]
    run = grpc(embedded, "h2c", WATCH, *span, *told, *gates, body=_ENDLESS)
    messages = run.good["grpc"]["messages"]
    assert run.code in {0, 4}
    rows = [json.loads(line)["messages"] for line in file.read_text().splitlines()]
    assert len(rows) == 2
    assert sum(row["received"] for row in rows) == messages["received"]
    for row in rows[:1]:
        assert row["received_per_s"] == pytest.approx(row["received"], rel=0.2)
        latency = run.good["grpc"]["message_latency"]
        assert 0 < row["latency"]["p50"] <= row["latency"]["max"] <= latency["max"]
    gates = ["--fail-if", "received_rate>1", "--fail-if", "message_max>=1us"]
    short = ["-n", "4", "-c", "2", "-m", "2"]
    breached = grpc(embedded, "h2c", WATCH, *short, *gates)
    assert breached.code == 3
    assert "received_rate>1 is true: it is" in breached.err
    assert "messages/s" in breached.err
    assert "message_max>=1us is true" in breached.err


def test_a_gate_of_messages_needs_messages(peers: Peers) -> None:
    run = load("-n", "10", "--fail-if", "message_p99>1s", peers["embedded"].url("h1"))
    assert run.code == 3
    assert "there are no messages" in run.err


def test_unary_calls_have_no_messages_in_seconds(peers: Peers, tmp_path: Path) -> None:
    file = tmp_path / "seconds.ndjson"
    run = grpc(peers["embedded"], "h2c", UNARY, "-n", "4", "-c", "1", "--ndjson", str(file))
    assert run.good["requests"]["ok"] == 4
    assert [json.loads(line)["messages"] for line in file.read_text().splitlines()] == [None]


@pytest.mark.parametrize("protocol", ["grpc", "grpc-web", "connect"])
def test_a_stream_may_be_empty(peers: Peers, protocol: str) -> None:
    empty = ["-n", "4", "--messages", "0", "--grpc-protocol", protocol]
    calls = good_calls(grpc(peers["embedded"], "h2c", LOOK_UP, *empty), 4)
    assert calls["messages"] == {"sent": 0, "received": 0}
    assert calls["streams"]["messages"] == 0
