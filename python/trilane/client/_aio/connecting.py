"""A connection that is opened on an event loop, without a thread.

The native part goes through the handshakes whenever the loop says that a socket is ready. Only what
cannot be asked without waiting has a thread, within the same limit: certificates that are loaded
for the first time, the caller's own resolver, and in the native part the system's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias

from trilane._core import Connecting, Connection, Tls, connect
from trilane.client._flow.resolving import Way, may_wait, share_of, ways
from trilane.client._flow.routes import Attempt, Policy
from trilane.client._flow.timeouts import connect_timeout
from trilane.client.errors import Error

Outcome: TypeAlias = "Connection | Exception"
Done: TypeAlias = Callable[[Attempt, Outcome], None]


class Opener:
    """What the connections of one pool have in common, and the threads that are asked for it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        policy: Policy,
        tls: Callable[[], Tls],
        source: tuple[str, int] | None,
    ) -> None:
        """`tls` is called before each connection that needs it, the first time in a thread."""
        self.loop = loop
        self.source = source
        self._policy = policy
        self._tls = tls
        self._is_loaded = False
        # No more names are looked up at once than there may be connections.
        self._executor = ThreadPoolExecutor(
            policy.max_connections, thread_name_prefix="trilane-resolve"
        )
        self._openings: set[Opening] = set()

    def open(self, attempt: Attempt, timeout: float | None, done: Done) -> None:
        """Begin; `done` is called with what came of it, in a later turn of the loop."""
        opening = Opening(self, attempt, timeout, done)
        self._openings.add(opening)
        loads = attempt.needs_tls and not self._is_loaded
        if loads or may_wait(attempt, self._policy):
            self._executor.submit(self._prepare_in_thread, opening)
        else:
            self.loop.call_soon(self._prepare, opening)

    def ended(self, opening: Opening) -> None:
        """It is not to be closed any more."""
        self._openings.discard(opening)

    def close(self) -> None:
        """Give up what is being opened: nobody is told."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        while self._openings:
            self._openings.pop().close()

    def _prepare_in_thread(self, opening: Opening) -> None:
        found = self._look_up(opening.attempt)
        # The loop may have been closed meanwhile; nobody waits then.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._found, opening, found)

    def _prepare(self, opening: Opening) -> None:
        self._found(opening, self._look_up(opening.attempt))

    def _look_up(self, attempt: Attempt) -> tuple[Tls | None, list[Way]] | Exception:
        try:
            tls = self._tls() if attempt.needs_tls else None
            return tls, ways(attempt, self._policy)
        except Exception as error:  # noqa: BLE001 # it is raised in the task that waits
            return error

    def _found(self, opening: Opening, found: tuple[Tls | None, list[Way]] | Exception) -> None:
        if isinstance(found, Exception):
            opening.end(found)
            return
        tls, places = found
        self._is_loaded = self._is_loaded or tls is not None
        opening.begin(tls, places)


class Opening:
    """One attempt on its way: all of its places together have `timeout` seconds."""

    def __init__(self, opener: Opener, attempt: Attempt, timeout: float | None, done: Done) -> None:
        self.attempt = attempt
        self._opener = opener
        self._loop = opener.loop
        self._timeout = timeout
        self._until = None if timeout is None else self._loop.time() + timeout
        self._done: Done | None = done
        self._tls: Tls | None = None
        self._places: list[Way] = []
        self._native: Connecting | None = None
        self._descriptor = -1
        self._timer: asyncio.TimerHandle | None = None
        if self._until is not None:
            self._timer = self._loop.call_at(self._until, self._late)

    def begin(self, tls: Tls | None, places: list[Way]) -> None:
        """Go to the first of the places, unless there is no time left."""
        if self._done is not None:
            self._tls, self._places = tls, places
            self._next()

    def end(self, outcome: Outcome) -> None:
        """Tell what came of it."""
        done = self._done
        self.close()
        if done is not None:
            self._opener.ended(self)
            done(self.attempt, outcome)
        elif isinstance(outcome, Connection):
            outcome.close()

    def close(self) -> None:
        """Give up."""
        self._done = None
        self._set_timer(None)
        native, self._native = self._native, None
        if native is not None:
            # Before the descriptor is closed: the selector would keep a number that others get.
            self._loop.remove_reader(self._descriptor)
            native.close()

    def _next(self) -> None:
        place = self._places.pop(0)
        left = None if self._until is None else max(0.0, self._until - self._loop.time())
        try:
            native = connect(
                **place,
                tls=self._tls,
                source=self._opener.source,
                timeout=share_of(left, others=len(self._places)),
                driven=True,
                wait=False,
            )
        except Exception as error:  # noqa: BLE001 # it is raised in the task that waits
            self._failed(error)
            return
        self._native = native
        self._descriptor = native.fileno()
        self._loop.add_reader(self._descriptor, self._step)
        self._step()

    def _step(self) -> None:
        native = self._native
        if native is None:
            return
        try:
            connection = native.step()
        except Exception as error:  # noqa: BLE001 # as above
            self._failed(error)
            return
        if connection is not None:
            self.end(connection)
            return
        left = native.timeout
        self._set_timer(None if left is None else self._loop.time() + left)

    def _failed(self, error: Exception) -> None:
        if not self._places or not isinstance(error, Error):
            self.end(error)
            return
        native, self._native = self._native, None
        if native is not None:
            self._loop.remove_reader(self._descriptor)
            native.close()
        self._next()

    def _set_timer(self, due: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if due is None else self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._step()

    def _late(self) -> None:
        """The time was over before it was known where to connect to."""
        self._timer = None
        self.end(connect_timeout(str(self.attempt.route.origin), self._timeout))
