"""Responses that come before the request's content has been sent (RFC 9110 §7.5, RFC 9112 §9.3)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from aioquic.quic.events import QuicEvent, StreamDataReceived

from client.wire import h3_chaos
from peers import chaos, h2_chaos

from .loading import Report, codes, flag, load, load_text

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from peers.authority import Leaf
    from peers.running import Peers

MIB = 1 << 20
# More than the kernel takes of what nobody reads, on any machine of today.
HUGE = 24 * MIB
WINDOW = 65_535
"""What HTTP/2 may send before any WINDOW_UPDATE (RFC 9113 §6.9.2)."""
NO_ERROR = {"h2": 0, "h3": 0x100}

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"


@pytest.fixture
def content(tmp_path: Path) -> str:
    path = tmp_path / "content"
    path.write_bytes(bytes(MIB))
    return f"@{path}"


def early(report: Report) -> dict[str, int]:
    """What the report says of early responses, and that it says so in words."""
    found: dict[str, int] = report["requests"]["early_responses"]
    reasons = [code for code in codes(report) if code == "early_responses"]
    # More than a thousandth makes a run suspect.
    ended = report["requests"]["ok"] + report["requests"]["failed"]
    assert len(reasons) == int(found["count"] > 0.001 * ended), report["validity"]
    assert report["validity"]["verdict"] != "valid" or not reasons
    return found


@pytest.mark.parametrize(
    ("name", "listener"),
    [("nginx", version) for version in ("h1", "h1s", "h2c", "h2")] + [("caddy", "h3")],
)
def test_a_server_that_reads_no_content(
    peers: Peers, name: str, listener: str, content: str
) -> None:
    peer = peers[name]
    streams = [] if listener.startswith("h1") else ["-m", "2"]
    report = load(
        *(flag(listener), "-c", "2", *streams, "-n", "40", "-k", "-X", "POST", "-b", content),
        peer.url(listener, peer.upload),
    ).checked
    assert report["requests"]["ok"] == 40, report["requests"]
    found, moved = early(report), report["bytes"]
    assert found["body_bytes"] == found["count"] * MIB
    assert found["body_sent"] <= moved["body_sent"] <= min(40 * MIB, moved["sent"])
    if listener == "h3":
        # It stops the content, of which the congestion control lets only a part leave before.
        assert found["count"] > 0
        return
    # What had not been sent when its response ended may have been sent later.
    missing = found["body_bytes"] - found["body_sent"]
    assert moved["body_sent"] >= 40 * MIB - missing
    if listener == "h1":
        assert moved["body_sent"] <= moved["sent"] - moved["header_sent_encoded"]
    if listener in {"h2c", "h2"}:
        # It opens no window for content that nobody reads.
        assert found["count"] == 40
        assert moved["body_sent"] <= 40 * (WINDOW + 1)


def test_a_server_that_answers_at_the_head(tmp_path: Path) -> None:
    path = tmp_path / "content"
    path.write_bytes(bytes(HUGE))

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        await reader.read(10_000)
        writer.write(RESPONSE)
        await writer.drain()
        # The client closes: it cannot send another request behind half a content. Were the rest
        # read, all of it could leave before the client sees the response.
        await chaos.forever()

    with chaos.serve(script) as server:
        arguments = ("--h1", "-c", "1", "-n", "3", "-b", f"@{path}", server.base + "/")
        report = load(*arguments).checked
        assert server.connections == 3
        printed = load_text(*arguments).out
    assert report["requests"]["ok"] == 3
    found, moved = early(report), report["bytes"]
    assert (found["count"], found["body_bytes"]) == (3, 3 * HUGE)
    assert found["body_sent"] <= moved["body_sent"] < 3 * HUGE
    assert moved["body_sent"] <= moved["sent"] - moved["header_sent_encoded"]
    assert "3 responses came before the request's content had been sent: " in printed
    assert " of 72.00 MiB\n" in printed


@pytest.mark.parametrize("code", [None, NO_ERROR["h2"]], ids=["END_STREAM", "RST_STREAM"])
def test_a_server_that_answers_within_the_first_window(content: str, code: int | None) -> None:
    read = 0

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        writer.write(h2_chaos.response(stream))
        if code is not None:
            rest = struct.pack(">I", code)
            writer.write(h2_chaos.frame(h2_chaos.RST_STREAM, 0, stream, rest))

    def on_content(_stream: int, length: int) -> None:
        nonlocal read
        read += length

    with chaos.serve(h2_chaos.server(on_request, on_content=on_content)) as server:
        run = load("--h2c", "-c", "1", "-m", "2", "-n", "20", "-b", content, server.base + "/")
        assert server.connections == 1
    report = run.checked
    assert report["requests"]["ok"] == 20
    found = early(report)
    assert (found["count"], found["body_bytes"]) == (20, 20 * MIB)
    # The window of the connection is never opened again.
    assert read <= report["bytes"]["body_sent"] <= WINDOW
    assert found["body_sent"] <= report["bytes"]["body_sent"]


def test_a_server_that_stops_the_content_over_http_3(leaf: Leaf, content: str) -> None:
    read = 0

    class Counting(h3_chaos.Server):
        def quic_event_received(self, event: QuicEvent) -> None:
            nonlocal read
            if isinstance(event, StreamDataReceived) and event.stream_id % 4 == 0:
                read += len(event.data)
            super().quic_event_received(event)

    def script(server: h3_chaos.Server, stream: int) -> None:
        server.send(stream, h3_chaos.response(), end=True)
        server.stop(stream, NO_ERROR["h3"])

    with h3_chaos.serve(script, leaf, Counting) as port:
        url = f"https://localhost:{port}/"
        arguments = ("--h3", "--cacert", str(leaf.ca), "-c", "1", "-n", "8", "-b", content)
        report = load(*arguments, url).checked
    assert report["requests"]["ok"] == 8
    found, moved = early(report), report["bytes"]
    # The congestion control lets only a part of it leave before the answer comes.
    assert (found["count"], found["body_bytes"]) == (8, 8 * MIB)
    heads = 8 * (report["plan"]["request"]["header_bytes"] + 16)
    assert read - heads <= moved["body_sent"] <= moved["sent"]
    assert found["body_sent"] <= moved["body_sent"] < 8 * MIB
