"""Frames on their way through the scheduler: whose they are, and how many it holds."""

from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

from trilane.cluster.clock import Clock
from trilane.cluster.relay import Relay


def test_frames_are_those_of_the_worker_that_has_the_token() -> None:
    async def relayed() -> tuple[list[bool], object]:
        clock = create_autospec(Clock, instance=True)
        clock.silent_s.return_value = {}
        relay = Relay("run", "client", clock, [b"first", b"second"])
        taken = [
            await relay.put(token, [(b"W", token)])
            for token in (b"second", b"", b"third", b"first")
        ]
        return taken, (await relay.take(0.0))["frames"]

    taken, frames = asyncio.run(relayed())
    assert taken == [True, False, False, True]
    assert frames == [(1, b"W", b"second"), (0, b"W", b"first")]
