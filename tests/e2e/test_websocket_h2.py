"""WebSockets on streams of HTTP/2 (RFC 8441), against Hypercorn, the embedded server and nginx."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from peers import chat

from .loading import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.authority import Leaf
    from peers.chat import Chat
    from peers.running import Peers

LISTENERS = pytest.mark.parametrize("listener", ["h2", "h2c"])
WATCH = "/v1/shelves/1/books:watch?count=5&interval=0.05s"


@pytest.fixture(scope="module")
def hypercorn(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> Iterator[Chat]:
    with chat.serving(tmp_path_factory.mktemp("chat"), leaf) as running:
        yield running


@LISTENERS
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--ws-window", "7", "--ws-binary"),
        ("-b", "grüße " * 12_000, "--ws-window", "5"),
    ],
    ids=["plain", "window", "large"],
)
def test_many_sessions_share_a_connection(
    hypercorn: Chat, listener: str, arguments: tuple[str, ...]
) -> None:
    sessions = ("-c", "1", "-m", "6", "-n", "24", "--ws-messages", "10")
    report = load(*sessions, *arguments, *hypercorn.arguments(listener, "/echo")).good
    assert report["requests"]["ok"] == 24
    assert report["status"] == {"200": 24}
    assert report["target"]["version"] == listener
    socket = report["websocket"]
    assert socket["messages"] == {"sent": 240, "received": 240}
    assert socket["round_trip"]["count"] == 240
    assert report["connections"]["established"] == 1
    assert report["connections"]["lost"] == {}
    assert 1 < report["connections"]["in_flight_at_most"] <= 6


@LISTENERS
def test_streams_are_given_back(hypercorn: Chat, listener: str) -> None:
    """Hypercorn allows a hundred at a time, and does not end those that were closed."""
    sessions = ("-c", "1", "-m", "4", "-n", "250", "--ws-messages", "1")
    report = load(*sessions, *hypercorn.arguments(listener, "/echo")).good
    assert report["requests"]["ok"] == 250
    assert report["connections"]["established"] == 1


@LISTENERS
def test_messages_of_the_server_are_events(hypercorn: Chat, listener: str) -> None:
    sessions = ("-c", "2", "-m", "2", "-n", "8", "--ws", "subscribe", "-b", "go")
    events = ("--first-event", "tick 2")
    report = load(*sessions, *events, *hypercorn.arguments(listener, "/ticks")).good
    assert report["requests"]["ok"] == 8
    events = report["events"]
    assert (events["format"], events["received"]) == ("messages", 32)
    assert (events["first"]["count"], events["without_first"]) == (8, 0)
    assert events["gap"]["count"] == 24
    assert report["websocket"]["messages"] == {"sent": 8, "received": 32}


@LISTENERS
def test_a_session_ends_after_the_messages_that_were_asked_for(
    hypercorn: Chat, listener: str
) -> None:
    sessions = ("-c", "1", "-m", "2", "-n", "4", "--ws", "subscribe", "--ws-messages", "10")
    report = load(*sessions, *hypercorn.arguments(listener, "/endless")).good
    assert report["requests"]["ok"] == 4
    assert report["events"]["received"] >= 40


@LISTENERS
@pytest.mark.parametrize(
    ("path", "kind", "told"),
    [
        ("/busy", "closed", "code 1013 (busy) after 0 messages"),
        ("/closed", "status", "status 403"),
        ("/silent", "timeout", "no complete response"),
    ],
)
def test_sessions_that_fail_say_why(
    hypercorn: Chat, listener: str, path: str, kind: str, told: str
) -> None:
    sessions = ("-c", "1", "-m", "2", "-n", "4", "--timeout", "2s")
    report = load(*sessions, *hypercorn.arguments(listener, path)).checked
    failures = report["requests"]["failures"]
    assert report["requests"]["failed"] == 4
    assert list(failures) == [kind]
    assert told in failures[kind]["example"]


@LISTENERS
def test_sessions_begin_at_a_rate(hypercorn: Chat, listener: str) -> None:
    sessions = ("-c", "2", "-m", "8", "-R", "50", "-d", "1s", "--warmup", "0s")
    target = hypercorn.arguments(listener, "/echo")
    report = load(*sessions, "--ws-messages", "3", *target).checked
    assert report["latency"]["response"]["count"] == report["requests"]["ok"] > 0
    assert report["requests"]["failed"] == 0
    each = ("-c", "2", "-m", "8", "--rate-per-connection", "25", "-d", "1s", "--warmup", "0s")
    report = load(*each, "--ws-messages", "3", *target).checked
    assert report["requests"]["ok"] > 0
    assert report["requests"]["failed"] == 0


@LISTENERS
def test_the_embedded_server_echoes_and_is_watched(peers: Peers, listener: str) -> None:
    sessions = ("-k", f"--{listener}", "-c", "1", "-m", "4", "-n", "12")
    url = peers["embedded"].url(listener, "/echo").replace("http", "ws", 1)
    report = load(*sessions, "--ws-messages", "30", url).good
    assert report["websocket"]["round_trip"]["count"] == 360
    assert report["connections"]["established"] == 1
    url = peers["embedded"].url(listener, WATCH).replace("http", "ws", 1)
    report = load(*sessions, "--ws", "subscribe", url).good
    assert report["events"]["received"] == 60


@LISTENERS
def test_a_server_without_the_setting_is_told(peers: Peers, listener: str) -> None:
    url = peers["nginx"].url(listener).replace("http", "ws", 1)
    run = load("-k", f"--{listener}", "-n", "1", url)
    assert run.code == 1
    assert "takes no WebSockets over HTTP/2" in run.message
    assert "SETTINGS_ENABLE_CONNECT_PROTOCOL" in run.message
    assert "type --h1 for HTTP/1.1" in run.message
