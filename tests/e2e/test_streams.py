"""How many requests are in flight where the server allows fewer streams than were asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from client.wire import h3_chaos
from peers import chaos, embedded, grpc_chaos, h2_chaos
from peers.peer import Peer
from repository import native

from .grpc_calls import PROTO_FLAGS, UNARY
from .loading import Report, codes, flag, load, load_text

if TYPE_CHECKING:
    import asyncio

    from peers.authority import Leaf
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]
# RFC 9113 §6.5.2.
MAX_CONCURRENT_STREAMS = 3


def allowing(
    streams: int, together: int, answer: Callable[[int], bytes] = h2_chaos.response
) -> chaos.Script:
    """Allows so many `streams`, and answers as soon as so many requests are there `together`."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: list[int] = []

        def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
            waiting.append(stream)
            if len(waiting) == together:
                for each in waiting:
                    writer.write(answer(each))
                waiting.clear()

        settings = h2_chaos.setting(MAX_CONCURRENT_STREAMS, streams)
        await h2_chaos.server(on_request, settings=settings)(reader, writer)

    return script


def shortages(report: Report) -> list[str]:
    """What the verdict says about the server's limit."""
    return [
        reason["text"]
        for reason in report["validity"]["reasons"]
        if "the server allows" in reason["text"]
    ]


def check_shortage(report: Report, in_flight: int, allowed: str, asked: int) -> None:
    """The report says how many were in flight, could be, and should have been."""
    limit = f"the server allows {allowed} per connection"
    assert shortages(report) == [f"at most {in_flight} in flight: {limit}, {asked} were asked for"]
    assert report["validity"]["verdict"] != "valid"
    connections = report["connections"]
    assert connections["in_flight_at_most"] == in_flight
    assert f"{connections['streams_allowed']} stream" in allowed


def test_one_stream_at_a_time() -> None:
    with chaos.serve(allowing(1, 1)) as server:
        load_of_200 = ["--h2c", "-c", "2", "-m", "100", "-n", "300", server.base + "/"]
        report = load(*load_of_200).good
        text = load_text(*load_of_200).out
    check_shortage(report, 2, "1 stream", 100)
    assert "closed model, at most 2 of 200 in flight" in text
    assert "at most 2 in flight: the server allows 1 stream per connection" in text


def book(stream: int) -> bytes:
    """A good answer to a unary call."""
    return (
        grpc_chaos.headers(stream, grpc_chaos.GRPC)
        + h2_chaos.frame(h2_chaos.DATA, 0, stream, grpc_chaos.message())
        + grpc_chaos.headers(stream, [("grpc-status", "0")], end=True)
    )


def test_calls() -> None:
    with chaos.serve(allowing(5, 5, book)) as server:
        call = ["--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h2c"]
        report = load(*call, "-c", "1", "-m", "64", "-n", "100", server.base + "/").good
    check_shortage(report, 5, "5 streams", 64)


@pytest.mark.parametrize("listener", ["h2", "h3"])
def test_a_server_with_a_limit(own: Own, listener: str) -> None:
    peer = own(lambda folder: embedded.start(native(), folder, streams=5))
    streams = ["-c", "2", "-t", "2", "-m", "64", "-n", "500", "-k"]
    report = load(flag(listener), *streams, peer.url(listener)).good
    check_shortage(report, 10, "5 streams", 64)


def test_a_server_of_others(peers: Peers) -> None:
    # nginx is told 128 (http2_max_concurrent_streams).
    report = load("--h2c", "-c", "1", "-m", "200", "-n", "1000", peers["nginx"].url("h2c")).good
    assert report["connections"]["streams_allowed"] == 128
    assert report["connections"]["in_flight_at_most"] <= 128
    assert len(shortages(report)) == 1, report["validity"]


def test_credit_that_grows(leaf: Leaf) -> None:
    """128 streams are allowed at first, and later more: that 150 are in flight shows it."""
    waiting: list[int] = []

    def script(server: h3_chaos.Server, stream: int) -> None:
        waiting.append(stream)
        if len(waiting) == 128:
            server.grant(22)
        if len(waiting) == 150:
            for each in waiting:
                server.send(each, h3_chaos.response(), end=True)

    with h3_chaos.serve(script, leaf) as port:
        arguments = ["--cacert", str(leaf.ca), "-c", "1", "-m", "150", "-n", "150"]
        report = load("--h3", *arguments, f"https://localhost:{port}/").good
    assert report["connections"]["in_flight_at_most"] == 150
    assert report["connections"]["streams_allowed"] == 150
    assert shortages(report) == []


@pytest.mark.parametrize(
    "needed",
    [("-n", "5"), ("-n", "100", "-R", "1k")],
    ids=["fewer requests than streams", "open model"],
)
def test_streams_that_are_not_needed(needed: tuple[str, ...]) -> None:
    with chaos.serve(allowing(5, 1)) as server:
        # Whether the rate is kept depends on the machine.
        report = load("--h2c", "-c", "1", "-m", "64", *needed, server.base + "/").checked
    assert not [reason for reason in shortages(report) if "in flight" in reason]
    assert report["requests"]["failed"] == 0
    assert report["connections"]["streams_allowed"] == 5
    assert 1 <= report["connections"]["in_flight_at_most"] <= 5


def test_http_1_has_no_such_limit(peers: Peers) -> None:
    report = load("--h1", "-c", "3", "-n", "300", peers["nginx"].url("h1")).good
    assert report["connections"]["in_flight_at_most"] == 3
    assert report["connections"]["streams_allowed"] is None


def test_rates_that_the_limit_keeps_from_being_reached() -> None:
    """In the open model the limit is named where requests had to wait for it."""
    with chaos.serve(allowing(1, 1)) as server:
        run = load("--h2c", "-c", "1", "-m", "64", "-R", "1m", "-n", "1000", server.base + "/")
    report = run.checked
    assert report["connections"]["in_flight_at_most"] == 1
    # Whether it was the client that was late depends on the machine.
    named = "queued" in codes(report)
    assert (len(shortages(report)) == 1) == named, report["validity"]
