"""Streams of events in responses: how many, the first, and the gaps between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .grpc_calls import Calling, each_version, grpc
from .loading import flag, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers

WATCH = "/v1/shelves/1/books:watch?count=5&interval=0.02s"
KINDS = {"sse": "text/event-stream", "ndjson": "application/x-ndjson"}


@pytest.mark.parametrize(("listener", "kind"), [("h1", "sse"), ("h3", "sse"), ("h2c", "ndjson")])
def test_events_are_counted_and_timed(peers: Peers, listener: str, kind: str) -> None:
    """The fifth event is sent four intervals after the request at the least.

    How much later, and how evenly they come, depends on the machine.
    """
    arguments = [flag(listener), "-c", "2", "-n", "6", "-k", "-H", f"Accept: {KINDS[kind]}"]
    if not listener.startswith("h1"):
        arguments += ["-m", "3"]
    url = peers["embedded"].url(listener, WATCH)
    report = load(*arguments, "--events", kind, "--stall", "10ms", url).good
    events = report["events"]
    assert events["format"] == kind
    assert events["received"] == 30
    assert (events["first"]["count"], events["gap"]["count"]) == (6, 24)
    assert events["without_first"] == 0
    assert 1 <= events["stalls"] <= 24
    assert events["stalled_s"] <= events["gap"]["mean"] * 24 * 1.001
    service = report["latency"]["service"]
    until_last = events["first"]["mean"] * 6 + events["gap"]["mean"] * 24
    assert 6 * 4 * 0.0195 <= until_last <= service["mean"] * 6 * 1.001
    assert events["first"]["max"] < service["max"]
    shown = load_text(*arguments, "-v", "--events", kind, url).out
    assert "Events       30 received" in shown


def test_the_first_event_may_be_one_that_is_looked_for(peers: Peers) -> None:
    """Each event tells its book: the third is there after two gaps."""
    url = peers["embedded"].url("h1", WATCH)
    arguments = ["-c", "1", "-n", "2", "-H", "Accept: text/event-stream", "--events", "sse"]
    third = load(*arguments, "--first-event", r"books/3\b", url).good["events"]
    assert third["first"]["count"] == 2
    assert third["first"]["min"] >= 0.0395
    none = load(*arguments, "--first-event", "no such thing", url).good["events"]
    assert (none["first"]["count"], none["without_first"]) == (0, 2)


def test_streams_without_an_end_are_abandoned_and_counted(peers: Peers) -> None:
    url = peers["embedded"].url("h2c", "/v1/shelves/1/books:watch?interval=0.02s&count=100000")
    arguments = ["--h2c", "-c", "1", "-m", "4", "-d", "500ms", "--warmup", "0s"]
    events = ["--events", "ndjson", "-H", "Accept: application/x-ndjson"]
    report = load(*arguments, *events, url).good
    assert report["requests"]["ok"] == 0
    assert report["requests"]["abandoned"] == 4
    assert report["events"]["received"] > 4


@each_version
def test_messages_of_grpc_are_events(peers: Peers, name: str, listener: str) -> None:
    request = {"parent": "shelves/3", "count": 5, "interval": "0.02s"}
    watch = Calling("WatchBooks", "server_streaming", (request,), 5)
    arguments = ["-c", "2", "-n", "6", "--stall", "10ms", "--events", "messages"]
    report = grpc(peers[name], listener, watch, *arguments).good
    events = report["events"]
    assert (events["format"], events["received"]) == ("messages", 30)
    assert (events["first"]["count"], events["gap"]["count"]) == (6, 24)
    assert events["without_first"] == 0
    assert events["stalls"] <= 24
    assert events["stalled_s"] <= events["gap"]["mean"] * 24 * 1.01
    assert report["grpc"]["messages"]["received"] == 30
