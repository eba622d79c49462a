"""`trilane load ws://…`: sessions against the library `websockets` and the embedded server."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from websockets.sync.server import ServerConnection, serve

from .loading import load, load_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from peers.running import Peers

WATCH = "/v1/shelves/1/books:watch?count=5&interval=0.01s"


@contextmanager
def serving(handler: Callable[[ServerConnection], None]) -> Iterator[str]:
    """The URL of a WebSocket server whose sessions are `handler`'s."""
    with serve(handler, "127.0.0.1", 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
        finally:
            server.shutdown()
            thread.join()


def echo(session: ServerConnection) -> None:
    """Sends back what comes."""
    for message in session:
        session.send(message)


@pytest.mark.parametrize(
    "arguments",
    [(), ("-b", "grüße " * 12_000, "--ws-window", "5", "--ws-binary")],
    ids=["plain", "large-window"],
)
def test_echoes_are_timed_one_by_one(arguments: tuple[str, ...]) -> None:
    with serving(echo) as url:
        report = load("-c", "3", "-n", "9", "--ws-messages", "20", *arguments, url).good
    assert report["requests"]["ok"] == 9
    assert report["status"] == {"101": 9}
    socket = report["websocket"]
    assert socket["mode"] == "echo"
    assert socket["kind"] == ("binary" if "--ws-binary" in arguments else "text")
    assert socket["messages"] == {"sent": 180, "received": 180}
    assert socket["round_trip"]["count"] == 180
    assert socket["round_trip"]["max"] <= report["latency"]["service"]["max"]
    # Each session has its connection for itself.
    assert report["connections"]["spent"] == 9
    assert report["connections"]["lost"] == {}
    assert report["events"] is None


def test_every_frame_is_masked_and_every_session_has_its_key() -> None:
    """The library refuses frames without a mask, and tells the key."""
    keys: list[str] = []

    def remembering(session: ServerConnection) -> None:
        assert session.request is not None
        keys.append(session.request.headers["Sec-WebSocket-Key"])
        echo(session)

    with serving(remembering) as url:
        load("-c", "2", "-n", "6", "--ws-messages", "2", url).good  # noqa: B018
    assert len(set(keys)) == 6


def test_sessions_are_open_model_requests() -> None:
    with serving(echo) as url:
        arguments = ["-c", "8", "-R", "50", "-n", "20", "--ws-messages", "3"]
        report = load(*arguments, url).checked
    assert report["latency"]["response"]["count"] == report["requests"]["ok"] > 0
    assert report["websocket"]["messages"]["received"] >= 3 * report["requests"]["ok"]


def test_messages_of_the_server_are_events() -> None:
    def ticking(session: ServerConnection) -> None:
        assert session.recv() == "go"
        for number in range(4):
            session.send(f"tick {number}")

    with serving(ticking) as url:
        arguments = ["-c", "2", "-n", "6", "--ws", "subscribe", "-b", "go"]
        report = load(*arguments, "--first-event", "tick 2", url).good
        shown = load_text(*arguments, "-v", url).out
    events = report["events"]
    assert (events["format"], events["received"]) == ("messages", 24)
    assert (events["first"]["count"], events["without_first"]) == (6, 0)
    assert events["gap"]["count"] == 18
    assert report["websocket"]["messages"] == {"sent": 6, "received": 24}
    assert report["websocket"]["round_trip"] is None
    assert "WebSocket    subscribe" in shown
    assert "Events       24 received" in shown


def test_sessions_go_to_several_origins() -> None:
    with serving(echo) as one, serving(echo) as other:
        report = load("-c", "2", "-n", "12", "--ws-messages", "3", one, other).good
    assert [origin["ok"] for origin in report["origins"]] == [6, 6]
    assert report["websocket"]["messages"] == {"sent": 36, "received": 36}


def test_a_session_ends_after_the_messages_that_were_asked_for() -> None:
    def endless(session: ServerConnection) -> None:
        while True:
            session.send("tick")

    with serving(endless) as url:
        arguments = ["-c", "2", "-n", "4", "--ws", "subscribe", "--ws-messages", "10"]
        report = load(*arguments, url).good
    assert report["events"]["received"] >= 40
    assert report["requests"]["ok"] == 4


@pytest.mark.parametrize("listener", ["h1", "h1s"])
def test_the_embedded_server_is_watched(peers: Peers, listener: str) -> None:
    url = peers["embedded"].url(listener, WATCH).replace("http", "ws", 1)
    report = load("-c", "2", "-n", "4", "-k", "--ws", "subscribe", url).good
    assert report["events"]["received"] == 20
    assert report["target"]["version"] == "h1"
    if listener == "h1s":
        assert report["target"]["alpn"] == "http/1.1"


@pytest.mark.parametrize("listener", ["h1", "h1s"])
def test_the_embedded_server_echoes(peers: Peers, listener: str) -> None:
    url = peers["embedded"].url(listener, "/echo").replace("http", "ws", 1)
    report = load("-c", "2", "-n", "6", "-k", "--ws-messages", "30", url).good
    assert report["websocket"]["round_trip"]["count"] == 180


def test_pings_are_answered() -> None:
    def pinging(session: ServerConnection) -> None:
        for _ in range(3):
            assert session.ping().wait(60)
        session.send("all answered")

    with serving(pinging) as url:
        report = load("-c", "1", "-n", "2", "--ws", "subscribe", url).good
    assert report["websocket"]["messages"] == {"sent": 0, "received": 2}


def raw(frames: bytes) -> Callable[[ServerConnection], None]:
    """A server that answers the first message with this and then waits for the client to leave."""

    def say(session: ServerConnection) -> None:
        session.recv()
        session.socket.sendall(frames)
        for _ in session:
            pass

    return say


@pytest.mark.parametrize(
    ("frames", "kind", "told"),
    [
        (b"\xc1\x00", "protocol", "reserved bits"),
        (b"\x81\x81\x01\x02\x03\x04\x05", "protocol", "masked"),
        (b"\x81\x02\xc3\x28", "protocol", "not UTF-8"),
        (b"\x82\x7f\x00\x00\x00\x00\x7f\x00\x00\x00", "limit", "larger than our limit"),
        (b"\x81\x05other", "body", "not the echo"),
        (b"\x82\x0bhello world", "body", "not the echo"),
        (b"\x81\x0bhello world\x81\x0bhello world", "body", "the echo of none"),
        (b"\x88\x06\x03\xf3busy", "closed", "code 1011 (busy) after 0 messages"),
        (b"\x88\x00", "closed", "no code after 0 messages"),
    ],
)
def test_servers_that_break_the_rules_fail_their_sessions(
    frames: bytes, kind: str, told: str
) -> None:
    with serving(raw(frames)) as url:
        report = load("-c", "1", "-n", "3", url).checked
    failures = report["requests"]["failures"]
    assert report["requests"]["failed"] == 3
    assert list(failures) == [kind]
    assert told in failures[kind]["example"]


def test_a_connection_that_ends_without_a_close_frame_is_a_failure() -> None:
    def leaving(session: ServerConnection) -> None:
        session.recv()
        session.socket.shutdown(2)

    with serving(leaving) as url:
        report = load("-c", "1", "-n", "3", url).checked
    assert report["requests"]["failed"] == 3
    assert set(report["requests"]["failures"]) <= {"closed", "body", "reset"}


def test_a_handshake_that_is_refused_is_a_status(peers: Peers) -> None:
    url = peers["embedded"].url("h1", "/status/403").replace("http", "ws", 1)
    report = load("-c", "1", "-n", "3", url).checked
    assert report["status"] == {"403": 3}
    assert "status 403" in report["requests"]["failures"]["status"]["example"]


def test_sessions_that_last_too_long_are_timeouts() -> None:
    def silent(session: ServerConnection) -> None:
        for _ in session:
            pass

    with serving(silent) as url:
        report = load("-c", "1", "-n", "2", "--timeout", "300ms", url).checked
    assert list(report["requests"]["failures"]) == ["timeout"]
    assert report["requests"]["censored"] == 2


def test_sessions_under_way_are_abandoned_at_the_end() -> None:
    with serving(echo) as url:
        arguments = ["-c", "2", "-d", "300ms", "--warmup", "0s", "--ws-messages", "10m"]
        report = load(*arguments, url).checked
    assert report["requests"]["abandoned"] == 2
    assert report["websocket"]["round_trip"]["count"] > 0
