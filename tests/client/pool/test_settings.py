"""HTTP/2: how many requests leave before the server has said how many it allows at a time."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from client.face import MakeClient
from client.waits import eventually, until
from peers import chaos, h2_chaos
from peers.h2_chaos import GOAWAY, SETTINGS, frame, response, setting

_STREAMS = 3  # SETTINGS_MAX_CONCURRENT_STREAMS
_ENHANCE_YOUR_CALM = 11


class Strict:
    """It ends a connection on which more is open than it allows: one before its SETTINGS are sent.

    It sends these when `may_settle` is set, and answers when `may_answer` is.
    """

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.may_settle = threading.Event()
        self.may_answer = threading.Event()
        self.first: list[int] = []
        """How many requests each connection got before it was answered anything."""
        self.broken = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.first)
        self.first.append(0)
        open_streams: list[int] = []

        async def settle() -> None:
            await eventually(self.may_settle.is_set)
            writer.write(frame(SETTINGS, 0, 0, setting(_STREAMS, self.allowed)))
            writer.write(frame(SETTINGS, 1, 0))
            await eventually(self.may_answer.is_set)
            while True:
                while open_streams:
                    writer.write(response(open_streams.pop(0)))
                await asyncio.sleep(0.001)

        def requested(stream: int, _: asyncio.StreamWriter) -> None:
            open_streams.append(stream)
            if not self.may_answer.is_set():
                self.first[number] += 1
            settled = self.may_settle.is_set()
            if len(open_streams) > (self.allowed if settled else 1):
                self.broken += 1
                writer.write(frame(GOAWAY, 0, 0, bytes(7) + bytes([_ENHANCE_YOUR_CALM])))
                writer.close()

        settling = asyncio.create_task(settle())
        try:
            await h2_chaos.server(requested, greets=False)(reader, writer)
        finally:
            settling.cancel()


@pytest.mark.parametrize(("allowed", "connections"), [(100, 1), (5, 4)])
def test_a_strict_server_is_never_sent_more_than_it_allows(
    make_client: MakeClient, allowed: int, connections: int
) -> None:
    strict = Strict(allowed)
    asked = threading.Semaphore(0)
    with chaos.serve(strict) as server, ThreadPoolExecutor(20) as threads:
        hooks = {"request": [lambda _: asked.release()]}
        client = make_client(versions=("h2",), event_hooks=hooks)

        def ask() -> int:
            return client.get(server.base).status

        calls = [threads.submit(ask) for _ in range(20)]
        for _ in calls:
            asked.acquire()
        # The first one waits for nothing.
        until(lambda: strict.first == [1])
        strict.may_settle.set()
        until(lambda: sum(strict.first) == 20)
        strict.may_answer.set()
        assert [call.result() for call in calls] == [200] * 20
        assert (strict.broken, strict.first) == (0, [min(allowed, 20)] * connections)
