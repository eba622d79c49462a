"""Connections for gevent: where it has patched Python's sockets, greenlets wait.

The native part waits in system calls, which holds up every greenlet of a thread. So a connection
that is made where sockets are patched is driven by greenlets, as a loop of asyncio drives one: one
of those that wait for it *leads*, waits for the socket in the hub and drives the connection; the
others wait for it. The greenlets that share a connection have to be of one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from trilane import _core
from trilane.client._flow.content import BLOCK
from trilane.client.errors import ReadTimeout, WriteTimeout

if TYPE_CHECKING:
    from trilane.client._flow.request import Field

_MUCH = 128 * 1024
"""Bytes of a response that are taken while its request is sent: beyond twice that it is paused."""


class Event(Protocol):
    """What one greenlet waits for."""

    def set(self) -> None:
        """Wake it."""

    def wait(self, timeout: float | None = None) -> object:
        """Wait until it is woken, or for so many seconds."""


def connect(host: str, port: int, **options: Any) -> _core.Connection:
    """`_core.connect`; where sockets are patched, a connection that greenlets drive."""
    if not patched():
        connection: _core.Connection = _core.connect(host, port, **options)
        return connection
    connecting: _core.Connecting = _core.connect(host, port, **options, driven=True, wait=False)
    try:
        native = _made(connecting)
    finally:
        connecting.close()
    # It has what a connection has.
    return cast("_core.Connection", GreenConnection(native))


def _made(connecting: _core.Connecting) -> _core.Connection:
    """The connection, which the greenlet waits for in the hub."""
    while (connection := connecting.step()) is None:
        event = _event()
        stop = _watch(connecting.fileno(), writes=False, call=event.set)
        try:
            event.wait(connecting.timeout)
        finally:
            stop()
    return connection


def patched() -> bool:
    """Whether gevent has patched Python's sockets."""
    # Asked for without being imported: most programs do not know it.
    gevent = sys.modules.get("gevent.monkey")
    return gevent is not None and bool(gevent.is_module_patched("socket"))


def _event() -> Event:
    from gevent.event import Event as GeventEvent  # noqa: PLC0415 - it is there if we are here

    return cast("Event", GeventEvent())


def _watch(fd: int, *, writes: bool, call: Callable[[], object]) -> Callable[[], object]:
    """Have `call` called, in the hub, when the socket can be read; what is given ends that.

    `writes`: also when it can be written to.
    """
    import gevent  # noqa: PLC0415

    # Bits of libev: 1 to read, 2 to write.
    watcher = gevent.get_hub().loop.io(fd, 3 if writes else 1)
    watcher.start(call)

    def stop() -> None:
        watcher.stop()
        watcher.close()

    return stop


class GreenConnection:
    """A `_core.Connection` for the greenlets of one thread, and what drives it."""

    def __init__(self, native: _core.Connection) -> None:
        self.native = native
        # What is woken when the watched state of an exchange has come, by its token; what waits
        # for anything is there by itself.
        self._waiting: dict[object, Event] = {}
        self._leads = False
        self._stop_watching: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        """What does not wait."""
        return getattr(self.native, name)

    def submit(self, *arguments: Any, flush: bool | None = None, **options: Any) -> Any:
        """Send a request; see `_core.Connection.submit`."""
        del flush
        exchange = self.native.submit(*arguments, **options, flush=True)
        return GreenExchange(self, exchange)

    def close(self) -> None:
        """Close it, and wake whoever waits: what is outstanding has failed."""
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        self.native.close()
        for event in list(self._waiting.values()):
            event.set()

    def wake(self, token: int) -> None:
        """Wake who waits for the exchange of that token."""
        event = self._waiting.get(token)
        if event is not None:
            event.set()

    def rest(self, seconds: float | None, token: object = None) -> None:
        """Wait for so long at most until something has happened: to the exchange of that token."""
        key = object() if token is None else token
        event = self._waiting[key] = _event()
        try:
            if self._leads:
                event.wait(seconds)
            else:
                self._lead(event, seconds)
        finally:
            if self._waiting.get(key) is event:
                del self._waiting[key]
            if not self._leads:
                # Another one goes on where this one leaves.
                for other in self._waiting.values():
                    other.set()
                    break

    def _lead(self, event: Event, seconds: float | None) -> None:
        native = self.native
        self._leads = True
        try:
            native.flush()
            due = native.timeout
            if due is not None:
                seconds = due if seconds is None else min(seconds, due)
            if not native.is_closing or native.outstanding:
                fd = native.fileno()
                stop = _watch(fd, writes=native.wants_write, call=event.set)
                self._stop_watching = stop
                event.wait(seconds)
        finally:
            self._leads = False
            if self._stop_watching is not None:
                self._stop_watching()
                self._stop_watching = None
        for token in native.drive():
            self.wake(token)


class GreenExchange:
    """A `_core.Exchange` whose waits are those of greenlets."""

    def __init__(self, driver: GreenConnection, native: _core.Exchange) -> None:
        self._driver = driver
        self._native = native
        self._known = 0
        # What was read before a wait for more was given up, or to let an upload go on.
        self._ahead = bytearray()

    def __getattr__(self, name: str) -> Any:
        """What does not wait."""
        return getattr(self._native, name)

    @property
    def unread(self) -> int:
        """Bytes of content that have arrived and were not read."""
        return len(self._ahead) + self._native.unread

    def head(self, timeout: float | None = None) -> int:
        """Wait for the final response head and return its status."""
        self._until(partial(self._native.watch, _core.HEAD), timeout)
        return self._native.head(0)

    def wait_informational(self, timeout: float | None = None) -> int | None:
        """Wait for the next 1xx response; None when the final head is there."""
        native = self._native
        self._until(
            lambda: native.watch(_core.INFORMATIONAL) or len(native.informational) > self._known,
            timeout,
        )
        status = native.wait_informational(0)
        self._known += status is not None
        return status

    def read(self, amount: int = -1, timeout: float | None = None) -> bytes:
        """Wait for `amount` bytes of content, fewer only at its end; -1: all."""
        ahead = self._ahead
        deadline = None if timeout is None else time.monotonic() + timeout
        while amount < 0 or len(ahead) < amount:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            # A timeout, or an error, takes nothing of what is there.
            piece = self._fetch(-1 if amount < 0 else amount - len(ahead), left)
            if not piece:
                break
            ahead += piece
        return self._first(len(ahead) if amount < 0 else amount)

    def read1(self, amount: int = -1, timeout: float | None = None) -> bytes:
        """What is there, up to `amount` bytes; wait only for the first. b"" at the end."""
        if self._ahead:
            return self._first(len(self._ahead) if amount < 0 else amount)
        return self._fetch(amount, timeout)

    def readinto(self, buffer: Any, timeout: float | None = None) -> int:
        """Copy what is there into a buffer; wait only for the first byte. 0 at the end."""
        view = memoryview(buffer).cast("B")
        if self._ahead:
            data = self._first(view.nbytes)
            view[: len(data)] = data
            return len(data)
        self._until(partial(self._native.watch, _core.DATA), timeout)
        return self._native.readinto(view, 0)

    def write(self, data: Any, timeout: float | None = None) -> None:
        """Send content; wait while much of it is unsent.

        What the peer answers meanwhile is taken, so that one that echoes goes on.
        """
        view = memoryview(data).cast("B")
        for at in range(0, view.nbytes, BLOCK):
            self._until(self._is_writable, timeout, late=WriteTimeout)
            self._native.write(view[at : at + BLOCK], 0)
        self._driver.native.flush()

    def finish(self, trailers: Sequence[Field] | None = None, timeout: float | None = None) -> None:
        """End the content, with trailers where there are any."""
        self._until(self._is_writable, timeout, late=WriteTimeout)
        self._native.finish(trailers, 0)
        self._driver.native.flush()

    def cancel(self) -> None:
        """Give up; the connection goes on, unless it is HTTP/1.1."""
        self._native.cancel()
        self._driver.native.flush()
        self._driver.wake(self._native.token)

    def _is_writable(self) -> bool:
        if self._native.unread >= _MUCH:
            self._ahead += self._native.read1(-1, 0)
        return self._native.watch(_core.WRITABLE)

    def _fetch(self, amount: int, timeout: float | None) -> bytes:
        self._until(partial(self._native.watch, _core.DATA), timeout)
        return self._native.read1(amount, 0)

    def _first(self, amount: int) -> bytes:
        data = bytes(self._ahead[:amount])
        del self._ahead[:amount]
        return data

    def _until(
        self,
        has_come: Callable[[], bool],
        timeout: float | None,
        *,
        late: type[ReadTimeout | WriteTimeout] = ReadTimeout,
    ) -> None:
        """Wait until it has come, or never will.

        Raises:
            ReadTimeout, WriteTimeout: not in time.
        """
        deadline = None
        while not has_come():
            now = time.monotonic()
            if timeout is not None:
                deadline = now + timeout if deadline is None else deadline
                if deadline <= now:
                    happened = "taken" if late is WriteTimeout else "received"
                    raise late(
                        f"nothing was {happened} within {timeout} s",
                        stream_id=self._native.stream_id,
                    )
            left = None if deadline is None else deadline - now
            self._driver.rest(left, self._native.token)
