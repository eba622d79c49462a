"""How a load makes its connections: how many at a time, and how fast."""

from __future__ import annotations

import asyncio
import ssl
import time

import pytest

from peers import chaos
from peers.authority import Leaf

from .loading import Watched, load

# A timer may fire by its own resolution too early.
GRAIN_S = 0.001


class Handshakes:
    """A server that begins TLS on connections once so many wait for it, and counts them."""

    def __init__(self, leaf: Leaf, count: int, together: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(leaf.cert, leaf.key)
        self._context.set_alpn_protocols(["http/1.1"])
        self._turn = asyncio.Event()
        self._missing = count
        self._together = together
        self.waiting = 0
        self.most = 0
        self.accepted = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self.accepted += 1
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        turn = self._turn
        if self.waiting == min(self._together, self._missing):
            self._missing -= self.waiting
            self.waiting = 0
            self._turn = asyncio.Event()
            turn.set()
        await turn.wait()
        await writer.start_tls(self._context)
        while True:
            await chaos.request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()


@pytest.mark.parametrize("together", [1, 2])
def test_handshakes_are_bounded(leaf: Leaf, together: int) -> None:
    server = Handshakes(leaf, 6, together)
    with chaos.serve(server) as listening:
        url = f"https://localhost:{listening.port}/"
        bound = ["-c", "6", "--connect-parallel", str(together)]
        run = load("--h1", *bound, "-n", "60", "--cacert", str(leaf.ca), url)
    assert run.good["requests"]["ok"] == 60
    # The last of them may be under way when everything has been sent.
    assert run.good["connections"]["handshakes_at_most"] == together
    assert server.most == together


def test_connections_that_do_not_come_up_hold_up_the_others_for_a_moment(leaf: Leaf) -> None:
    """The second of two never gets an answer: the first works none the less."""
    server = Handshakes(leaf, 3, 1)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.accepted == 1:
            server.accepted += 1
            await chaos.forever()
        await server(reader, writer)

    with chaos.serve(script) as listening:
        url = f"https://localhost:{listening.port}/"
        patient = ["--connect-timeout", "60s", "--cacert", str(leaf.ca)]
        run = load("--h1", "-c", "2", "-n", "20", *patient, url)
    assert run.good["requests"]["ok"] == 20
    assert run.good["connections"]["open_at_most"] == 1


def test_connections_begin_at_a_rate() -> None:
    begun: list[float] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.append(time.monotonic())
        while True:
            await chaos.request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

    with chaos.serve(script) as listening:
        rate = ["-c", "4", "--connect-rate", "20"]
        before = time.monotonic()
        running = Watched("--h1", *rate, "-d", "1h", "--warmup", "0s", listening.base + "/")
        running.until(lambda _: len(begun) == 4)
        running.interrupt()
        run = running.wait()
    assert run.checked["connections"]["open_at_most"] == 4
    assert begun[3] - before >= 3 / 20 - GRAIN_S
