"""Which request goes when: ids, the queue of those that wait for their turn, and their answers.

On HTTP/2 and HTTP/3 a request is sent at once, unless the server's limit of streams is reached. On
HTTP/1.1 there is one at a time, and the next one is sent when the response before it has arrived.
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from http.client import NotConnected, ResponseNotReady
from typing import TYPE_CHECKING, Any, Final

from trilane.client._early import Early
from trilane.client._flow.repeating import IDEMPOTENT, permits
from trilane.client._flow.timeouts import Timeouts
from trilane.client._flow.uploading import is_answered
from trilane.client._flow.whole import MOST_CONTENT
from trilane.client._uploading import upload
from trilane.client.errors import (
    ConnectionClosed,
    Error,
    Full,
    InvalidRequest,
    ReadTimeout,
    RemoteError,
    Timeout,
)
from trilane.client.http._content import Wait
from trilane.client.http._outgoing import Request, field
from trilane.client.http._response import HTTPResponse

if TYPE_CHECKING:
    from trilane._core import Connection, Exchange
    from trilane.client.http._sockets import SocketConnection, SocketExchange

PAUSED: Final = 256 * 1024
"""Bytes of a response that are fetched before anybody reads it."""

_STEPS: Final = {"h1": (1, 1), "h2": (1, 2), "h3": (0, 4)}
"""First id and distance to the next, as they are on the wire."""


class Pipeline:
    """The requests of one `HTTPConnection`. Its lock is held to start them, never to wait."""

    response_class: type[HTTPResponse] = HTTPResponse
    auto_open: bool | int = 1
    debuglevel = 0

    def __init__(self) -> None:
        self._connection: Connection | SocketConnection | None = None
        self._authority: str | None = None
        self._wait = Wait(None)
        self._lock = threading.RLock()
        self._outstanding: dict[int, Request] = {}
        self._waiting: deque[Request] = deque()
        self._next: int | None = None
        self._step = 1
        self._last: weakref.ref[HTTPResponse] | None = None

    def connect(self) -> None:
        """Makes a connection and gives it to `_adopt`."""
        raise NotImplementedError

    def fileno(self) -> int:
        """The descriptor of the connection."""
        raise NotImplementedError

    def _adopt(self, connection: Connection | SocketConnection | None) -> None:
        self._connection = connection
        if connection is not None:
            first, self._step = _STEPS[connection.version]
            if self._next is None:
                self._next = first

    def _ready(self) -> Connection | SocketConnection:
        """The connection, made if there is none that takes requests."""
        connection = self._connection
        if connection is not None and not connection.is_closing:
            return connection
        if connection is not None:
            self._connection = None
        if not self.auto_open:
            raise NotConnected
        self.connect()
        connection = self._connection
        if connection is None:
            raise NotConnected
        return connection

    def _send(self, request: Request) -> int:
        """Sends a request, or lets it wait for its turn, and gives its id."""
        with self._lock:
            # One that has ended meanwhile refuses the request: no need to ask it first.
            connection = self._connection or self._ready()
            if request.method not in IDEMPOTENT:
                connection = self._fresh(connection)
            if self._waiting or not self._start(connection, request):
                self._waiting.append(request)
            ident = self._next or 0
            self._next = ident + self._step
            self._outstanding[ident] = request
        if request.exchange is not None and request.streaming:
            try:
                self._send_content(request)
            except BaseException:
                # Half a request: it was cancelled, and nothing will answer it.
                self._outstanding.pop(ident, None)
                raise
        return ident

    def _fresh(self, connection: Connection | SocketConnection) -> Connection | SocketConnection:
        """The connection, looked at if idle: what must not be sent twice needs one that lives.

        A server may have closed it meanwhile (RFC 9112 §9.5).
        """
        if not self._outstanding and not connection.is_alive():
            self._release(connection)
            return self._ready()
        return connection

    def _start(self, connection: Connection | SocketConnection, request: Request) -> bool:
        """Submits a request; False when the connection takes no more now."""
        try:
            if request.content is None and not request.streaming:
                # Most have no content, and less is to be said of them.
                exchange = connection.submit(
                    request.method,
                    request.target,
                    request.fields,
                    authority=request.authority or self._authority,
                )
            else:
                exchange = self._submit(connection, request)
        except Full:
            return False
        except InvalidRequest:
            # http.client takes folds, blanks and numbers in values: say what is meant in a way that
            # may be sent, or raise the error that it raises.
            plain = [field(name, (value,)) for name, value in request.fields]
            if plain == request.fields:
                raise
            request.fields = [*plain]
            return self._start(connection, request)
        except ConnectionClosed:
            # It ended a moment ago, and nothing of the request has been sent.
            if request.repeated:
                raise
            request.repeated = True
            return self._start(self._ready(), request)
        request.exchange = exchange
        if request.streaming:
            url = f"{request.authority or self._authority}{request.target}"
            request.exchange = Early(exchange, url, MOST_CONTENT)
        if request.held:
            for data in request.held:
                exchange.write(data, self._wait.seconds)
            request.held = []
        return True

    def _submit(
        self, connection: Connection | SocketConnection, request: Request
    ) -> Exchange | SocketExchange:
        if request.raw and connection.version != "h1":
            msg = (
                "HTTP/2 and HTTP/3 have no Transfer-Encoding: leave the field out and give the "
                "content without chunks, or set versions=('h1',)"
            )
            raise InvalidRequest(msg)
        content = request.content
        return connection.submit(
            request.method,
            request.target,
            request.fields,
            content if isinstance(content, bytes) and not request.streaming else None,
            authority=request.authority or self._authority,
            streaming=request.streaming,
            length=request.length,
            raw=request.raw,
        )

    def _send_content(self, request: Request) -> None:
        """Sends the content that the request brings with it, as far as the server wants it.

        A server that answers before it has all of it, or goes away, ends this without an error: the
        answer, or the error, is that of `get_response`.
        """
        exchange: Any = request.exchange
        if request.content is None:
            return
        seconds = self._wait.seconds
        try:
            upload(exchange, request, Timeouts(read=seconds, write=seconds))
        except BaseException as error:
            own = error is request.raised or exchange.is_over
            if not own and (
                isinstance(error, RemoteError) or is_answered(error, request, exchange)
            ):
                return
            # An error of the caller's iterable, or Ctrl-C: what was sent is half a message.
            exchange.cancel()
            raise

    def _conclude(self, request: Request) -> None:
        """Ends content that was sent by `HTTPConnection.send` and whose end was not announced."""
        if request.streaming and request.content is None and request.exchange is not None:
            request.streaming = False
            if request.exchange.upload_open:
                with contextlib.suppress(RemoteError):
                    request.exchange.finish(request.trailers, self._wait.seconds)

    def advance(self) -> None:
        """Starts what waits, as far as it may: a response has been read to its end."""
        if not self._waiting:
            return
        with self._lock:
            connection = self._connection
            if connection is None or connection.is_closing:
                return
            while self._waiting and not self._waiting[0].streaming:
                try:
                    if not self._start(connection, self._waiting[0]):
                        return
                except Error:
                    # It is the waiting request's: get_response will meet it again and raise it.
                    return
                self._waiting.popleft()

    def _turn(self, request: Request) -> None:
        """Waits until the request has been sent, after those that wait before it."""
        while request.exchange is None and request.failed is None:
            with self._lock:
                if request not in self._waiting:
                    # Another thread has started it.
                    continue
                connection = self._ready()
                head = self._waiting[0]
                try:
                    started = self._start(connection, head)
                except Error as error:
                    head.failed = error
                    started = True
                if started:
                    self._waiting.popleft()
            if not started:
                self._make_room(connection, request)
            elif head.streaming and head.exchange is not None:
                try:
                    self._send_content(head)
                except Exception as error:  # noqa: BLE001 - raised where its response is got
                    head.failed = error
        if request.failed is not None:
            raise request.failed

    def _make_room(self, connection: Connection | SocketConnection, request: Request) -> None:
        """Waits until the connection takes one more, or another thread has started the request."""
        make_room = getattr(connection, "make_room", None)
        if make_room is not None:
            if not make_room(self._wait.seconds):
                raise _unread(connection)
            return
        deadline = None if self._wait.seconds is None else time.monotonic() + self._wait.seconds
        rest = getattr(connection, "rest", None) or _rest_on(connection, self.fileno())
        while request.exchange is None and not connection.capacity and not connection.is_closing:
            if self._nothing_moves():
                raise _unread(connection)
            # Short, because another thread may be the one that reads from the socket.
            pause = min(0.05, connection.timeout or 0.05)  # type: ignore[union-attr]
            rest(pause)
            if deadline is not None and time.monotonic() > deadline:
                msg = f"no response ended within {self._wait.seconds} s, and no more may be open"
                raise ReadTimeout(msg)

    def _nothing_moves(self) -> bool:
        """Whether every response that is awaited has filled its buffer."""
        exchanges = [one.exchange for one in self._outstanding.values() if one.exchange]
        last = self._last() if self._last is not None else None
        if last is not None and not last.is_stalled(PAUSED):
            return False
        return (bool(exchanges) or last is not None) and all(
            not one.complete and one.unread >= PAUSED for one in exchanges
        )

    def get_response(self, stream_id: int | None = None) -> HTTPResponse:
        """Waits for the head of a response.

        Args:
            stream_id: what `request` gave. Without it: the oldest that has not been got.

        Raises:
            ResponseNotReady: there is no such request; or it cannot be sent before more of the
                responses ahead of it has been read.
            errors.ReadTimeout: it did not come in time; it may be waited for again.
            errors.RemoteError, OSError: the connection or the stream was lost.
        """
        if stream_id is None:
            stream_id = next(iter(self._outstanding), None)
            if stream_id is None:
                msg = "no request is outstanding"
                raise ResponseNotReady(msg)
        request = self._outstanding.get(stream_id)
        if request is None:
            msg = f"no request with id {stream_id} is outstanding: {list(self._outstanding)} are"
            raise ResponseNotReady(msg)
        status = self._answered(stream_id, request)
        exchange: Any = request.exchange
        if isinstance(exchange, Early):
            exchange = exchange.settled
        if self.debuglevel:
            response = self.response_class(exchange, self.debuglevel, request.method)
        else:
            response = self.response_class(exchange, method=request.method)
        connection = self._connection
        closing = None
        if connection is not None and connection.is_closing:
            closing = connection
            self._release(connection)
        elif self._step == 1:
            # HTTP/1.1: the next request waits for it.
            self._last = weakref.ref(response)
        response.attach(self, self._wait, status, closing)
        if response.debuglevel or self.response_class is not HTTPResponse:
            response.begin()
        return response

    def _answered(self, stream_id: int, request: Request) -> int:
        """The status of a response whose head has come; then it is outstanding no more."""
        while True:
            try:
                if request.exchange is None or request.failed is not None:
                    self._turn(request)
                if request.streaming:
                    self._conclude(request)
                exchange: Any = request.exchange
                status: int = exchange.head(self._wait.seconds)
            except Exception as error:
                if error is not request.failed:
                    if isinstance(error, Timeout) or not isinstance(error, Error | OSError):
                        raise
                    connection = self._connection
                    if connection is not None and (
                        connection.is_closing or not isinstance(error, Error)
                    ):
                        self._release(connection)
                    # All of it is at hand to be sent once more, where it has not been yet.
                    again = self.auto_open and not request.streaming and not request.repeated
                    if again and permits(error, request.method):
                        request.repeated = not isinstance(error, Full)
                        request.exchange = None
                        with self._lock:
                            self._waiting.appendleft(request)
                        continue
                self._outstanding.pop(stream_id, None)
                raise
            self._outstanding.pop(stream_id, None)
            return status

    def _release(self, connection: Connection | SocketConnection) -> None:
        """Lets a connection go that takes no more requests; its last response keeps it open."""
        with self._lock:
            if self._connection is connection:
                self._connection = None
        if hasattr(connection, "make_room"):
            connection.close()

    def cancel(self, stream_id: int) -> None:
        """Gives up a request whose response has not been got: the stream alone, not the connection.

        In HTTP/1.1 a request that was sent takes its connection with it; one that waits for its
        turn is only forgotten.

        Raises:
            ResponseNotReady: there is no such request. A response that was got is given up by its
                own `close`.
        """
        with self._lock:
            request = self._outstanding.pop(stream_id, None)
            if request is None:
                msg = f"no request with id {stream_id} is outstanding: close its response instead"
                raise ResponseNotReady(msg)
            if request.exchange is None:
                self._waiting.remove(request)
                return
            request.exchange.cancel()
        self.advance()


def _rest_on(connection: Any, descriptor: int) -> Callable[[float], None]:
    """What waits for a native connection, for so many seconds at most, and drives it."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)

    def rest(seconds: float) -> None:
        poll.poll(seconds * 1000)
        connection.drive()

    return rest


def _unread(connection: Connection | SocketConnection) -> ResponseNotReady:
    return ResponseNotReady(
        "the responses before it must be read or closed first: the connection takes no more "
        f"requests ({connection.version})"
    )
