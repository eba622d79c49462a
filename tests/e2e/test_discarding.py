"""Bodies that the kernel throws away: `--discard-bodies`."""

from __future__ import annotations

import asyncio

import pytest

from peers import chaos
from peers.running import Peers

from .loading import load

_BYTES = 131_072


@pytest.mark.parametrize("name", ["embedded", "nginx"])
def test_lengths_are_checked_and_counted(peers: Peers, name: str) -> None:
    url = peers[name].url("h1").replace("/hello", f"/bytes/{_BYTES}")
    shape = ["-c", "4", "-n", "40", "--discard-bodies"]
    report = load("--h1", *shape, url).good
    assert report["requests"]["ok"] == 40
    assert report["bytes"]["body_received"] == 40 * _BYTES
    assert report["bytes"]["received"] > 40 * _BYTES
    # Those of the first responses were read, and are known.
    assert report["target"]["body"]["bytes"] == _BYTES
    assert report["plan"]["asked"]["discard_bodies"] is True


def test_a_body_cut_short_is_a_failure() -> None:
    """As where it is read: the length says that some is missing."""

    async def every_third_is_cut(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        served = 0
        while await reader.readuntil(b"\r\n\r\n"):
            served += 1
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
            writer.write(bytes(100_000 if served % 3 else 60_000))
            await writer.drain()
            if served % 3 == 0:
                writer.close()
                return

    with chaos.serve(every_third_is_cut) as server:
        shape = ["-c", "1", "-n", "9", "--discard-bodies"]
        report = load("--h1", *shape, server.base + "/").checked
    requests = report["requests"]
    assert (requests["ok"], requests["failed"]) == (6, 3)
    assert set(requests["failures"]) == {"body"}
    assert report["bytes"]["body_received"] == 6 * 100_000 + 3 * 60_000
