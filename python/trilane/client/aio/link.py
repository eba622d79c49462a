"""One connection on one event loop.

The native connection has no thread: it moves when it is driven. Here the loop drives it. The socket
becomes readable, `drive()` takes what is there, and the tokens that it returns name the exchanges
whose watched state has come; each has a future, which is resolved. What is written in one turn of
the loop, requests of thousands of tasks, window updates, cancellations, leaves together in the
flush at the end of the turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from trilane._core import WRITABLE, Connection, Exchange
from trilane.client.lanes import Entry

_LOG = logging.getLogger("trilane.client")

Field = tuple[str | bytes, str | bytes]


class Link:
    """A connection, and the loop that drives it. All methods are for that loop's thread.

    `changed` is called after every turn in which the connection was driven: it may have room for
    more requests, or take none any more. `ended` is called once, when it is closed. To a `Router` it
    is what is pooled.
    """

    __slots__ = (
        "_changed",
        "_deadline",
        "_descriptor",
        "_ended",
        "_flush_due",
        "_loop",
        "_readers",
        "_timer",
        "_writers",
        "_writing",
        "connection",
        "entry",
        "version",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: Connection,
        *,
        changed: Callable[[Link], None],
        ended: Callable[[Link], None],
    ) -> None:
        self.connection = connection
        self.version = connection.version
        self.entry: Entry[Link] | None = None
        """What the router made of it; the owner sets it."""
        self._loop = loop
        self._changed = changed
        self._ended = ended
        # Of an exchange, one task awaits the response and another may await room for its upload.
        self._readers: dict[int, asyncio.Future[bool]] = {}
        self._writers: dict[int, asyncio.Future[bool]] = {}
        self._flush_due = False
        self._writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._descriptor = connection.fileno()
        loop.add_reader(self._descriptor, self._drive)
        self._arm()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; nothing is to be expected of it."""
        return self._descriptor < 0

    @property
    def capacity(self) -> int:
        """How many requests it takes now."""
        return self.connection.capacity

    @property
    def is_closing(self) -> bool:
        """Whether it takes no more requests, now or later."""
        return self._descriptor < 0 or self.connection.is_closing

    def submit(
        self,
        method: str,
        target: str,
        fields: Sequence[Field],
        body: bytes | None,
        *,
        authority: str | None = None,
        streaming: bool = False,
        length: int | None = None,
    ) -> Exchange:
        """Send a request at the end of this turn. Raises errors.Full when there is no room."""
        exchange = self.connection.submit(
            method,
            target,
            fields,
            body,
            authority=authority,
            streaming=streaming,
            length=length,
            flush=False,
        )
        if not self._flush_due:
            self.touch()
        return exchange

    def expect(
        self, exchange: Exchange, what: int, future: asyncio.Future[bool] | None = None
    ) -> asyncio.Future[bool] | None:
        """A future (the given one, or a new one) that gets True when `what` may have come.

        None: it has come already, or the exchange has failed, which its methods then raise.
        """
        if self.is_closed or exchange.watch(what):
            return None
        if future is None:
            future = self._loop.create_future()
        (self._writers if what == WRITABLE else self._readers)[exchange.token] = future
        return future

    def touch(self) -> None:
        """Something was written or read: let it leave at the end of this turn."""
        if not self._flush_due and not self.is_closed:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def cancel(self, exchange: Exchange) -> None:
        """Give up one exchange; the connection goes on, unless it is HTTP/1.1."""
        self._readers.pop(exchange.token, None)
        self._writers.pop(exchange.token, None)
        exchange.cancel()
        # Its place is free for another request at once, and its socket may be closed now.
        self.touch()

    def close(self) -> None:
        """Say goodbye and fail what is outstanding. May be called again."""
        if self.is_closed:
            return
        # Before the descriptor is closed: the selector would keep a number that others get.
        self._loop.remove_reader(self._descriptor)
        if self._writing:
            self._loop.remove_writer(self._descriptor)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._descriptor = -1
        self.connection.close()
        waiting = [*self._readers.values(), *self._writers.values()]
        self._readers.clear()
        self._writers.clear()
        for future in waiting:
            if not future.done():
                future.set_result(True)
        self._ended(self)

    def _flush(self) -> None:
        self._flush_due = False
        if self.is_closed:
            return
        connection = self.connection
        connection.flush()
        if connection.is_closing:
            # Perhaps it failed just now: whom that concerns, only drive() says.
            self._drive()
        else:
            self._arm()
            self._changed(self)

    def _drive(self) -> None:
        if self.is_closed:
            return
        connection = self.connection
        try:
            tokens = connection.drive()
        except Exception:
            # Not expected of it. Without an end here every task on it would wait in vain.
            _LOG.exception("the connection to %s failed in a way that is a bug", connection.peer)
            self.close()
            return
        if tokens:
            self._wake(tokens)
        if connection.is_closing and not connection.outstanding:
            self.close()
            return
        self._arm()
        self._changed(self)

    def _wake(self, tokens: Iterable[int]) -> None:
        readers, writers = self._readers, self._writers
        for token in tokens:
            future = readers.pop(token, None)
            if future is not None and not future.done():
                future.set_result(True)
            # A token does not tell for which of the two it came; who was woken looks again.
            if writers:
                future = writers.pop(token, None)
                if future is not None and not future.done():
                    future.set_result(True)

    def _arm(self) -> None:
        """Wait for what the connection waits for."""
        connection = self.connection
        if connection.wants_write != self._writing:
            self._writing = not self._writing
            if self._writing:
                self._loop.add_writer(self._descriptor, self._drive)
            else:
                self._loop.remove_writer(self._descriptor)
        timeout = connection.timeout
        if timeout is None:
            return
        deadline = self._loop.time() + timeout
        if self._timer is not None:
            # A timer that fires early costs one drive(); a new one for every datagram costs more.
            if self._deadline <= deadline:
                return
            self._timer.cancel()
        self._deadline = deadline
        self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._drive()
