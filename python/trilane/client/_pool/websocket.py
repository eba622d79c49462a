"""A WebSocket, for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Self

from trilane.client._flow.events import MOST_REFUSED
from trilane.client._flow.open_websocket import BaseSocket
from trilane.client._flow.timeouts import Timeouts
from trilane.client._flow.websocket import (
    CLOSE_S,
    INTERNAL_ERROR,
    LINGER_S,
    NORMAL,
    READ,
    Message,
    Sendable,
    Talk,
    handshake,
    is_refused,
)
from trilane.client._pool.sending import send
from trilane.client.errors import (
    Error,
    ReadTimeout,
    RemoteError,
    VersionUnavailable,
    WebSocketClosed,
    WriteTimeout,
)

if TYPE_CHECKING:
    from trilane._core import Exchange
    from trilane.client._flow.preparing import Prepared
    from trilane.client._pool.leasing import Pool
    from trilane.client._pool.response import Response

_WRITE: Final = Timeouts._fields.index("write")
_GRANT_S = 0.005
"""How often a connection is looked at whose peer has not said what it takes."""


class WebSocket(BaseSocket):
    """An open WebSocket. `Client.websocket` makes it.

    One thread may receive while others send; a Ping of the server is answered by the thread that
    receives.
    """

    def __init__(self, response: Response, talk: Talk, limit: float | None) -> None:
        """`limit` is how many seconds each wait for the server to take content may last."""
        super().__init__(response, talk)
        self._response = response
        self._exchange: Exchange = response.duplex()
        self._limit = limit
        # Of `_talk`; the others of the connection's two directions. It is taken last, and briefly.
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._writing = threading.Lock()

    def send(self, message: Sendable) -> None:
        """Send a message: str as text, bytes as binary, an iterable of either in fragments.

        It returns when the connection has taken the message, and waits as long as too much is
        unsent. Messages of several threads are sent one after the other.

        Raises:
            WebSocketClosed: the WebSocket has ended.
            WriteTimeout: the server took nothing for `Timeouts.write` seconds; it is closed then.
            TypeError, ValueError: it is no message.
        """
        self._say(lambda: self._talk.send(message))

    def ping(self, data: bytes = b"") -> None:
        """Send a Ping, with up to 125 bytes. The Pong is taken by the thread that receives.

        Raises:
            Error: as `send`.
        """
        self._say(lambda: self._talk.ping(data))

    def recv(self, timeout: float | None = None) -> Message:
        """The next message, str or bytes; waits for it, `timeout` seconds at most.

        Raises:
            WebSocketClosed: the WebSocket has ended, and all messages have been taken.
            ReadTimeout: no message came in time: it goes on; or the server did not answer a Ping
                within `ping_interval`: it is closed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._reading:
            while True:
                message = self._take()
                if message is not None:
                    return message
                if not self._read(deadline):
                    raise self._talk.late(timeout)

    def __iter__(self) -> Iterator[Message]:
        """Messages until the end; an end other than 1000 or 1001 raises WebSocketClosed."""
        while True:
            try:
                message = self.recv()
            except WebSocketClosed:
                if self._talk.ended_well:
                    return
                raise
            yield message

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Say Close, wait for the server's, and give the connection back. Idempotent.

        Messages that come meanwhile are dropped. The server has 10 seconds.

        Raises:
            InvalidRequest: there is no such code (RFC 6455 §7.4), or the reason is too long.
        """
        if self._response.is_closed:
            return
        deadline = time.monotonic() + CLOSE_S
        with self._lock:
            self._talk.close(code, reason)
        try:
            self._flush(min(CLOSE_S, CLOSE_S if self._limit is None else self._limit))
            if not self._reading.acquire(timeout=CLOSE_S):
                return
            try:
                while not self._talk.is_over and self._read(deadline):
                    self._talk.messages.clear()
                self._linger()
            finally:
                self._reading.release()
        except Error:
            pass  # It is over all the same.
        finally:
            self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(NORMAL if kind is None else INTERNAL_ERROR)

    def _take(self) -> Message | None:
        """A message that has come; None: not yet."""
        talk = self._talk
        if talk.messages:
            return talk.messages.popleft()
        if talk.is_over:
            self._finish()
            raise talk.closed()
        return None

    def _read(self, deadline: float | None) -> bool:
        """Take what comes next; False: nothing has until `deadline`. For who holds `_reading`."""
        talk = self._talk
        while True:
            now = time.monotonic()
            wait = talk.wait(now, deadline)
            try:
                data = self._exchange.read1(READ, wait)
            except ReadTimeout:
                self._offer()
                now = time.monotonic()
                with self._lock:
                    alive = talk.is_alive(now)
                if not alive:
                    self._response.close()
                    raise talk.dead() from None
                self._offer()
                if deadline is not None and now >= deadline:
                    return False
                continue
            except Error as error:
                with self._lock:
                    talk.lost(error, time.monotonic())
                return True
            try:
                with self._lock:
                    talk.receive(data, time.monotonic())
            except BaseException:
                self._response.close()
                raise
            self._offer()
            return True

    def _say(self, say: Callable[[], None]) -> None:
        with self._lock:
            say()
        self._flush(self._limit)

    def _flush(self, limit: float | None) -> None:
        """Send what is to be sent, whoever has said it."""
        exchange, talk = self._exchange, self._talk
        while True:
            with self._writing:
                while piece := self._output():
                    if not exchange.upload_open:
                        raise talk.cut(None)
                    try:
                        exchange.write(piece, limit)
                    except RemoteError as error:
                        raise talk.cut(error) from error
                    except BaseException:
                        # Part of a message may be sent, and nothing can follow it.
                        self._response.close()
                        raise
            # Who reads and found the lock taken has left its answers to this thread.
            if not talk.has_output:
                return

    def _offer(self) -> None:
        """Send what is to be sent as far as that needs no wait: whoever reads must go on."""
        while self._talk.has_output and self._writing.acquire(blocking=False):
            # Whoever else writes looks again when it has let go of the lock.
            try:
                piece = self._output()
                try:
                    self._exchange.write(piece, 0)
                except WriteTimeout:
                    with self._lock:
                        self._talk.put_back(piece)
                    return
                except Error:
                    return  # Reading tells.
            finally:
                self._writing.release()

    def _output(self) -> bytes:
        with self._lock:
            return self._talk.output()

    def _linger(self) -> None:
        """End our direction, and wait for the server to end its own (RFC 6455 §7.1.1)."""
        self._exchange.finish(None, LINGER_S)
        deadline = time.monotonic() + LINGER_S
        while (left := deadline - time.monotonic()) > 0:
            if not self._exchange.read1(READ, left):
                return

    def _finish(self) -> None:
        """Give the connection back: the server has said that it is over."""
        if self._response.is_closed:
            return
        try:
            self._offer()
            self._linger()
        except Error:
            pass  # It is over all the same.
        finally:
            self._response.close()


def connect(
    answered: Callable[..., Response], others: Callable[[], Pool | None], talk: Talk
) -> WebSocket:
    """Open a WebSocket.

    `answered` gives the response to the handshake, and to what that leads to, each sent by its
    argument `ask`; `others` gives a pool of HTTP/1.1 alone, for a server that takes none in HTTP/2
    and HTTP/3; None where HTTP/1.1 is out.

    Raises:
        StreamRefused: the server opens none.
        VersionUnavailable: it takes none in the versions that may be spoken.
        Error: any of `errors`.
    """
    limit = None

    def ask(pool: Pool, prepared: Prepared) -> Response:
        nonlocal limit
        # As given: what a limit of the whole request leaves of it is for the handshake.
        limit = prepared.how.limits[_WRITE]
        return _opened(pool, others, handshake(prepared, talk))

    response = answered(ask=ask)
    try:
        refused = response.read(MOST_REFUSED) if is_refused(response) else b""
        talk.accept(response, refused, time.monotonic())
    except BaseException:
        response.close()
        raise
    return WebSocket(response, talk, limit)


def _opened(pool: Pool, others: Callable[[], Pool | None], opening: Prepared) -> Response:
    try:
        _await_settings(pool, opening)
        return send(pool, opening)
    except VersionUnavailable:
        other = others()
        if other is None:
            raise
        return send(other, opening)


def _await_settings(pool: Pool, prepared: Prepared) -> None:
    """Wait until the server has said whether it takes extended CONNECT (RFC 8441 §3).

    A connection refuses it until then, and a second one would not know earlier.
    """
    how = prepared.how
    lease = pool.lease(how.route, how.limits)
    if lease is None:
        return
    entry = lease.entry
    connection, limit = entry.connection, how.limits.connect
    until = None if limit is None else time.monotonic() + limit
    try:
        while entry.version != "h1" and not connection.settings() and connection.is_alive():
            if until is not None and time.monotonic() > until:
                break
            time.sleep(_GRANT_S)
    finally:
        pool.give_back(lease, reusable=not connection.is_closing)
