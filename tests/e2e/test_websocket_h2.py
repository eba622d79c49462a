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

WATCH = "/v1/shelves/1/books:watch?count=5&interval=0.01s"


@pytest.fixture(scope="module")
def hypercorn(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> Iterator[Chat]:
    with chat.serving(tmp_path_factory.mktemp("chat"), leaf) as running:
        yield running


@pytest.mark.parametrize(
    ("listener", "arguments"),
    [
        ("h2c", ("--ws-window", "7", "--ws-binary")),
        ("h2", ("-b", "grüße " * 12_000, "--ws-window", "5")),
    ],
    ids=["h2c-binary", "h2-large"],
)
def test_many_sessions_share_a_connection(
    hypercorn: Chat, listener: str, arguments: tuple[str, ...]
) -> None:
    sessions = ("-c", "1", "-m", "6", "-n", "12", "--ws-messages", "10")
    report = load(*sessions, *arguments, *hypercorn.arguments(listener, "/echo")).good
    assert report["requests"]["ok"] == 12
    assert report["status"] == {"200": 12}
    assert report["target"]["version"] == listener
    socket = report["websocket"]
    assert socket["messages"] == {"sent": 120, "received": 120}
    assert socket["round_trip"]["count"] == 120
    assert report["connections"]["established"] == 1
    assert report["connections"]["lost"] == {}
    assert 1 < report["connections"]["in_flight_at_most"] <= 6


def test_streams_are_given_back(hypercorn: Chat) -> None:
    """Hypercorn allows a hundred at a time, and does not end those that were closed."""
    sessions = ("-c", "1", "-m", "4", "-n", "120", "--ws-messages", "1")
    report = load(*sessions, *hypercorn.arguments("h2c", "/echo")).good
    assert report["requests"]["ok"] == 120
    assert report["connections"]["established"] == 1


def test_messages_of_the_server_are_events(hypercorn: Chat) -> None:
    sessions = ("-c", "2", "-m", "2", "-n", "8", "--ws", "subscribe", "-b", "go")
    events = ("--first-event", "tick 2")
    report = load(*sessions, *events, *hypercorn.arguments("h2", "/ticks")).good
    assert report["requests"]["ok"] == 8
    events = report["events"]
    assert (events["format"], events["received"]) == ("messages", 32)
    assert (events["first"]["count"], events["without_first"]) == (8, 0)
    assert events["gap"]["count"] == 24
    assert report["websocket"]["messages"] == {"sent": 8, "received": 32}


@pytest.mark.parametrize(
    ("path", "kind", "told"),
    [
        ("/busy", "closed", "code 1013 (busy) after 0 messages"),
        ("/closed", "status", "status 403"),
        ("/silent", "timeout", "no complete response"),
    ],
)
def test_sessions_that_fail_say_why(hypercorn: Chat, path: str, kind: str, told: str) -> None:
    sessions = ("-c", "1", "-m", "2", "-n", "4", "--timeout", "1s")
    report = load(*sessions, *hypercorn.arguments("h2c", path)).checked
    failures = report["requests"]["failures"]
    assert report["requests"]["failed"] == 4
    assert list(failures) == [kind]
    assert told in failures[kind]["example"]


def test_the_embedded_server_echoes_and_is_watched(peers: Peers) -> None:
    sessions = ("-k", "--h2", "-c", "1", "-m", "4", "-n", "12")
    url = peers["embedded"].url("h2", "/echo").replace("http", "ws", 1)
    report = load(*sessions, "--ws-messages", "30", url).good
    assert report["websocket"]["round_trip"]["count"] == 360
    assert report["connections"]["established"] == 1
    url = peers["embedded"].url("h2", WATCH).replace("http", "ws", 1)
    report = load(*sessions, "--ws", "subscribe", url).good
    assert report["events"]["received"] == 60


def test_a_server_without_the_setting_is_told(peers: Peers) -> None:
    url = peers["nginx"].url("h2").replace("http", "ws", 1)
    run = load("-k", "--h2", "-n", "1", url)
    assert run.code == 1
    assert "takes no WebSockets over HTTP/2" in run.message
    assert "SETTINGS_ENABLE_CONNECT_PROTOCOL" in run.message
    assert "type --h1 for HTTP/1.1" in run.message
