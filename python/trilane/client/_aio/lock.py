"""What tasks wait for beside a connection, on asyncio's loop and in a run of Trio alike."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self


async def within(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[bool], seconds: float | None
) -> bool:
    """What the future gives; False where it is not done within so many seconds.

    For waits whose limits are all different, each with a timer of its own: see `Deadlines`.
    """
    if seconds is None:
        return await future
    timer = loop.call_at(loop.time() + seconds, _expire, future)
    try:
        return await future
    finally:
        timer.cancel()


class Lock:
    """One task at a time has it, in the order in which they asked for it."""

    __slots__ = ("_loop", "_waiting", "is_taken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self.is_taken = False
        """Whether a task has it."""

    async def acquire(self, seconds: float | None = None) -> bool:
        """Wait for it; False: it was not free within so many seconds."""
        if not self.is_taken:
            self.is_taken = True
            return True
        future = self._loop.create_future()
        self._waiting.append(future)
        try:
            return await within(self._loop, future, seconds)
        except BaseException:
            if future.done() and not future.cancelled() and future.result():
                self.release()  # It was handed over to a task that is cancelled.
            raise

    def release(self) -> None:
        """Hand it to who has waited longest."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(True)
                return
        self.is_taken = False

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()


def _expire(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)
