"""One connection on one event loop.

The native connection has no thread: it moves when it is driven. Here the loop drives it. The socket
becomes readable, `drive()` takes what is there, and the tokens that it returns name the exchanges
whose watched state has come; each has a future, which is resolved. What is written in one turn of
the loop, requests of thousands of tasks and cancellations, leaves together in the flush at the end
of the turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from trilane._core import HEAD, INFORMATIONAL, WRITABLE, Connection, Exchange
from trilane.client._flow import log
from trilane.client._flow.routes import Entry

if TYPE_CHECKING:
    from .call import Call

_LOG = logging.getLogger("trilane.client")

_Waits = dict[int, asyncio.Future[bool]]


class Link:
    """A connection, and the loop that drives it. All methods are for that loop's thread.

    `changed` is called after every turn in which the connection was driven: it may have room for
    more requests, or take none any more. `ended` is called once, when it is closed. To a `Router`
    it is what is pooled.
    """

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
        self.facts = connection.facts
        self.entry: Entry[Link] | None = None
        """What the router made of it; the owner sets it."""
        self.parked: deque[Call] = deque()
        """Requests that it refused though it seemed to have room, for the owner to submit again.

        QUIC grants streams one by one, as old ones have ended on both sides (RFC 9000 §4.6).
        """
        self.alt_used: str | None = None
        """Where it is, if that is not the origin's own address (RFC 7838 §5)."""
        self._loop = loop
        self._changed = changed
        self._ended = ended
        # Of an exchange, one task awaits the response and another may await room for its upload.
        self._readers: _Waits = {}
        self._writers: _Waits = {}
        self._duplex: dict[int, _Duplex] = {}
        self._flush_due = False
        self._reading = True
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
        """How many requests it takes now, after those that are parked here."""
        return 0 if self.parked else self.connection.capacity

    def settings(self) -> dict[str, int]:
        """The peer's limits, as far as they are known."""
        return self.connection.settings()

    @property
    def is_silent(self) -> bool:
        """Whether its peer has not shown that it is there since a request was given up."""
        return self._descriptor >= 0 and self.connection.is_silent

    @property
    def is_closing(self) -> bool:
        """Whether it takes no more requests, now or later."""
        return self._descriptor < 0 or self.connection.is_closing

    def expect(
        self,
        exchange: Exchange,
        what: int,
        future: asyncio.Future[bool] | None = None,
        *,
        reads: bool,
    ) -> asyncio.Future[bool] | None:
        """A future (the given one, or a new one) that gets True when `what` may have come.

        None: it has come already, or the exchange has failed, which its methods then raise. One
        task may wait that `reads` the response, and one for the upload; both look again when they
        were woken.
        """
        if self._descriptor < 0 or exchange.watch(what):
            return None
        if future is None:
            future = self._loop.create_future()
        token = exchange.token
        (self._readers if reads else self._writers)[token] = future
        if token in self._duplex:
            self._duplex[token].expect(what, reads=reads)
        if not self._reading:
            self._read(on=True)
        return future

    def upload(self, exchange: Exchange) -> None:
        """Content of the exchange will be written by another task than reads its response."""
        self._duplex[exchange.token] = _Duplex(exchange)

    def touch(self) -> None:
        """Something is to be written: let it leave at the end of this turn."""
        if not self._flush_due and self._descriptor >= 0:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def written(self) -> None:
        """The exchange itself has written, or may have: what the socket did not take waits for it.

        `Exchange.write` and `finish` do, and reads that let the peer send more.
        """
        if self._descriptor >= 0:
            self._arm()

    def cancel(self, exchange: Exchange) -> None:
        """Give up one exchange; the connection goes on, unless it is HTTP/1.1."""
        self.forget(exchange)
        exchange.cancel()
        # Its place is free for another request at once, and its connection may be over now.
        self.touch()

    def forget(self, exchange: Exchange) -> None:
        """Nobody waits for the exchange any more."""
        token = exchange.token
        self._readers.pop(token, None)
        self._writers.pop(token, None)
        self._duplex.pop(token, None)

    def wake(self, exchange: Exchange) -> None:
        """Wake the task that reads the exchange."""
        _wake(self._readers, exchange.token)

    def close(self) -> None:
        """Say goodbye and fail what is outstanding. May be called again."""
        if self._descriptor < 0:
            return
        # Before the descriptor is closed: the selector would keep a number that others get.
        self._loop.remove_reader(self._descriptor)
        if self._writing:
            self._loop.remove_writer(self._descriptor)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._descriptor = -1
        log.closed(self.connection)
        self.connection.close()
        for waits in (self._readers, self._writers):
            for future in waits.values():
                if not future.done():
                    future.set_result(True)
            waits.clear()
        self._duplex.clear()
        self._ended(self)
        # The entry has the link: nobody is to wait for the garbage collector.
        self.entry = None

    def _flush(self) -> None:
        self._flush_due = False
        if self._descriptor < 0:
            return
        connection = self.connection
        connection.flush()
        if self._duplex or connection.is_closing:
            # It made room for uploads, or failed just now: drive() says for which exchanges.
            self._drive()
        else:
            self._arm()
            self._changed(self)

    def _drive(self) -> None:
        if self._descriptor < 0:
            return
        connection = self.connection
        try:
            tokens = connection.drive()
        except Exception:  # noqa: BLE001 - it is logged
            # Not expected of it. Without an end here every task on it would wait in vain.
            _LOG.exception("the connection to %s failed in a way that is a bug", connection.peer)
            self.close()
            return
        if tokens:
            readers, writers = self._readers, self._writers
            for token in tokens:
                _wake(readers, token)
                if writers:
                    # A token does not tell for which of the two it came.
                    _wake(writers, token)
        if self._duplex:
            self._look_at_uploads()
        if connection.is_closing and not connection.outstanding:
            self.close()
            return
        if not tokens and not self._readers and self.version == "h1" and not self._writers:
            # A response that nobody takes stays in the socket, which would stay readable.
            self._read(on=not connection.outstanding)
        self._arm()
        self._changed(self)

    def _look_at_uploads(self) -> None:
        """The native part watches for one state of an exchange; here two are waited for."""
        for token, duplex in list(self._duplex.items()):
            if token in self._writers and duplex.has_come(reads=False):
                _wake(self._writers, token)
            if token in self._readers and duplex.has_come(reads=True):
                _wake(self._readers, token)
                if token in self._writers and duplex.has_come(reads=False):
                    _wake(self._writers, token)

    def _read(self, *, on: bool) -> None:
        """Whether the loop looks for bytes of the peer."""
        if on != self._reading and self._descriptor >= 0:
            self._reading = on
            if on:
                self._loop.add_reader(self._descriptor, self._drive)
            else:
                self._loop.remove_reader(self._descriptor)

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


class _Duplex:
    """An exchange that one task reads and another writes, and what they wait for."""

    __slots__ = ("_exchange", "_known", "_wanted")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._wanted = [WRITABLE, HEAD]
        # How many 1xx responses there were when one more was waited for.
        self._known = [0, 0]

    def expect(self, what: int, *, reads: bool) -> None:
        """Note what one of the two tasks waits for: the one that `reads` or the one that writes."""
        self._wanted[reads] = what
        if what == INFORMATIONAL:
            self._known[reads] = len(self._exchange.informational)

    def has_come(self, *, reads: bool) -> bool:
        """Whether what one of the two waits for is there; the native part watches for it, else."""
        what = self._wanted[reads]
        return self._exchange.watch(what) or (
            what == INFORMATIONAL and len(self._exchange.informational) > self._known[reads]
        )


def _wake(waits: _Waits, token: int) -> None:
    future = waits.pop(token, None)
    if future is not None and not future.done():
        future.set_result(True)
