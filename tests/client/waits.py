"""Waiting for what a test needs, by looking at it: no test guesses how long something takes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 120.0
"""Seconds that any one wait may take on a machine of any speed; only a hang takes as many."""
_LOOKS = 10
_BETWEEN_S = 0.005


def until(condition: Callable[[], object]) -> None:
    """Wait for what nobody signals; the time limit of the test ends it where it never comes."""
    while not condition():
        time.sleep(0.001)


async def turns(count: int = 10) -> None:
    """Let the loop look at its sockets that often."""
    for _ in range(count):
        await asyncio.sleep(0)


async def eventually(condition: Callable[[], object]) -> None:
    """`until`, in a loop's own thread."""
    while not condition():  # noqa: ASYNC110 - what counts is not ours to signal
        await asyncio.sleep(0.001)


def asleep(process: int, thread: int | None = None) -> None:
    """Return when a thread of the process, its main one unless named, sleeps and goes on sleeping.

    Several looks: the locks that it takes on its way to a wait are had in between.
    """
    stat = Path(f"/proc/{process}/task/{thread or process}/stat")
    looks = 0
    while looks < _LOOKS:
        state = stat.read_text().rpartition(")")[2].split()[0]
        assert state not in "ZX", f"{process} has ended"
        looks = looks + 1 if state == "S" else 0
        time.sleep(_BETWEEN_S)


@contextmanager
def when_asleep(act: Callable[[], object], thread: int | None = None) -> Iterator[None]:
    """Act from another thread as soon as this one, or the named one, waits for something."""
    waiting = threading.get_native_id() if thread is None else thread
    process = os.getpid()

    def acting() -> None:
        asleep(process, waiting)
        act()

    actor = threading.Thread(target=acting)
    actor.start()
    try:
        yield
    finally:
        actor.join()


@contextmanager
def interrupted() -> Iterator[None]:
    """Press Ctrl-C when this thread, the main one, waits, and expect what that raises."""
    waits = True

    def press() -> None:
        # Behind a wait that ended by itself it would end the tests.
        if waits:
            os.kill(os.getpid(), signal.SIGINT)

    with when_asleep(press):
        try:
            yield
        except KeyboardInterrupt:
            return
        finally:
            waits = False
        raise AssertionError("the wait ended by itself")
