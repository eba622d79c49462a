"""Time limits for thousands of waits with one timer of the loop for each length of limit.

`loop.call_later` per wait would cost more than the wait: a handle, a push to the loop's heap, and a
cancelled handle that stays there. All waits of one limit end in the order in which they began, so
an ordinary dict, which keeps that order, and one timer for the first of them are enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

# A timer is late by at most this many seconds, so that deadlines close to each other share one.
_GRAIN = 0.01


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """The loop's `time`; the builtin function itself where that calls no other."""
    own = getattr(loop.time, "__func__", None) is asyncio.BaseEventLoop.time
    return monotonic if own else loop.time


class Deadlines:
    """The waits of one event loop that have a limit."""

    __slots__ = ("_by_limit", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._by_limit: dict[float, Limit] = {}

    def limit(self, seconds: float) -> Limit:
        """The waits that may last `seconds`; at most 10 ms later their futures get False."""
        found = self._by_limit.get(seconds)
        if found is None:
            if len(self._by_limit) >= 64:  # limits computed anew for each request: forget the idle
                self._by_limit = {key: value for key, value in self._by_limit.items() if value}
            found = self._by_limit[seconds] = Limit(self._loop, seconds)
        return found

    def close(self) -> None:
        """Stop every timer."""
        for limit in self._by_limit.values():
            limit.close()
        self._by_limit.clear()


class Limit:
    """Futures that wait for at most the same number of seconds."""

    __slots__ = ("_loop", "_seconds", "_time", "_timer", "_waits")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._time = clock_of(loop)
        self._waits: dict[asyncio.Future[bool], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, future: asyncio.Future[bool]) -> None:
        """Start the clock of a wait."""
        deadline = self._time() + self._seconds
        self._waits[future] = deadline
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._expire)

    def discard(self, future: asyncio.Future[bool]) -> None:
        """The wait is over."""
        self._waits.pop(future, None)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waits.clear()

    def _expire(self) -> None:
        now = self._loop.time()
        expired = []
        self._timer = None
        for future, deadline in self._waits.items():
            if deadline > now:
                self._timer = self._loop.call_at(max(deadline, now + _GRAIN), self._expire)
                break
            expired.append(future)
        for future in expired:
            del self._waits[future]
            if not future.done():
                future.set_result(False)
