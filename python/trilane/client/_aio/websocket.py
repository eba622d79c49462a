"""A WebSocket, for the tasks of an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from trilane._core import DATA, WRITABLE
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
from trilane.client.errors import (
    Error,
    ReadTimeout,
    RemoteError,
    VersionUnavailable,
    WebSocketClosed,
    WriteTimeout,
)

from .lock import Lock, within
from .running import running
from .sending import send

if TYPE_CHECKING:
    import asyncio

    from trilane.client._flow.preparing import Prepared

    from .pool import Pool
    from .response import AsyncResponse

_WRITE: Final = Timeouts._fields.index("write")


class AsyncWebSocket(BaseSocket):
    """An open WebSocket. `AsyncClient.websocket` makes it.

    One task may receive while others send; a Ping of the server is answered by the task that
    receives.
    """

    def __init__(
        self,
        response: AsyncResponse,
        loop: asyncio.AbstractEventLoop,
        talk: Talk,
        limit: float | None,
    ) -> None:
        """`limit` is how many seconds each wait for the server to take content may last."""
        super().__init__(response, talk)
        self._response = response
        self._exchange, self._link = response.duplex()
        self._limit = limit
        self._loop = loop
        self._reading = Lock(loop)
        self._writing = Lock(loop)

    async def send(self, message: Sendable) -> None:
        """Send a message: str as text, bytes as binary, an iterable of either in fragments.

        It returns when the connection has taken the message, and waits as long as too much is
        unsent. Messages of several tasks are sent one after the other.

        Raises:
            WebSocketClosed: the WebSocket has ended.
            WriteTimeout: the server took nothing for `Timeouts.write` seconds; it is closed then,
                as when a task is cancelled in the middle of a message.
            TypeError, ValueError: it is no message.
        """
        self._talk.send(message)
        await self._flush(self._limit)

    async def ping(self, data: bytes = b"") -> None:
        """Send a Ping, with up to 125 bytes. The Pong is taken by the task that receives.

        Raises:
            Error: as `send`.
        """
        self._talk.ping(data)
        await self._flush(self._limit)

    async def recv(self, timeout: float | None = None) -> Message:  # noqa: ASYNC109 - as `Client`
        """The next message, str or bytes; waits for it, `timeout` seconds at most.

        Raises:
            WebSocketClosed: the WebSocket has ended, and all messages have been taken.
            ReadTimeout: no message came in time: it goes on; or the server did not answer a Ping
                within `ping_interval`: it is closed.
        """
        deadline = None if timeout is None else self._loop.time() + timeout
        talk = self._talk
        async with self._reading:
            while True:
                if talk.messages:
                    return talk.messages.popleft()
                if talk.is_over:
                    await self._finish()
                    raise talk.closed()
                if not await self._read(deadline):
                    raise talk.late(timeout)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages until the end; an end other than 1000 or 1001 raises WebSocketClosed."""
        while True:
            try:
                message = await self.recv()
            except WebSocketClosed:
                if self._talk.ended_well:
                    return
                raise
            yield message

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Say Close, wait for the server's, and give the connection back. Idempotent.

        Messages that come meanwhile are dropped. The server has 10 seconds.

        Raises:
            InvalidRequest: there is no such code (RFC 6455 §7.4), or the reason is too long.
        """
        if self._response.is_closed:
            return
        deadline = self._loop.time() + CLOSE_S
        self._talk.close(code, reason)
        try:
            # It is over all the same, whatever goes wrong.
            with suppress(Error):
                await self._flush(CLOSE_S, deadline)
                if await self._reading.acquire(deadline - self._loop.time()):
                    try:
                        while not self._talk.is_over and await self._read(deadline):
                            self._talk.messages.clear()
                        await self._linger()
                    finally:
                        self._reading.release()
        finally:
            self._response.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(NORMAL if kind is None else INTERNAL_ERROR)

    async def _read(self, deadline: float | None) -> bool:
        """Take what comes next; False: nothing has until `deadline`. For who holds `_reading`."""
        talk, loop = self._talk, self._loop
        while True:
            now = loop.time()
            wait = talk.wait(now, deadline)
            try:
                data = await self._piece(wait)
            except ReadTimeout:
                self._offer()
                now = loop.time()
                if not talk.is_alive(now):
                    self._response.close()
                    raise talk.dead() from None
                self._offer()
                if deadline is not None and now >= deadline:
                    return False
                continue
            except Error as error:
                talk.lost(error, loop.time())
                return True
            try:
                talk.receive(data, loop.time())
            except BaseException:
                self._response.close()
                raise
            self._offer()
            return True

    async def _piece(self, limit: float | None) -> bytes:
        """What is there of the content; b"" at its end."""
        exchange, link = self._exchange, self._link
        while (future := link.expect(exchange, DATA, reads=True)) is not None:
            if not await within(self._loop, future, limit) and not exchange.watch(DATA):
                raise ReadTimeout
        data = exchange.read1(READ, 0)
        link.written()
        return data

    async def _flush(self, limit: float | None, deadline: float | None = None) -> None:
        """Send what is to be sent, whoever has said it, until the `deadline` at most."""
        exchange, talk, link, loop = self._exchange, self._talk, self._link, self._loop
        while True:
            left = None if deadline is None else deadline - loop.time()
            if not await self._writing.acquire(left):
                raise self._unsent(left)
            try:
                try:
                    while talk.has_output:
                        if deadline is not None:
                            limit = deadline - loop.time()
                        await self._room(limit)
                        if not exchange.upload_open:
                            raise talk.cut(None)  # noqa: TRY301 - so does what is caught
                        exchange.write(talk.output(), 0)
                        link.written()
                except WebSocketClosed:
                    raise
                except RemoteError as error:
                    raise talk.cut(error) from error
                except BaseException:
                    # Part of a message may be sent, and nothing can follow it.
                    self._response.close()
                    raise
            finally:
                self._writing.release()
            # What reads and found the lock taken has left its answers to this task.
            if not talk.has_output:
                return

    async def _room(self, limit: float | None) -> None:
        """Wait until the connection takes more, or is over."""
        exchange, link = self._exchange, self._link
        while (future := link.expect(exchange, WRITABLE, reads=False)) is not None:
            if not await within(self._loop, future, limit):
                raise self._unsent(limit)

    def _unsent(self, limit: float | None) -> WriteTimeout:
        return WriteTimeout(
            f"{self.url} took nothing of a message within {limit} s: allow more with"
            " Timeouts(write=...)"
        )

    def _offer(self) -> None:
        """Send what is to be sent as far as that needs no wait: whoever reads must go on."""
        exchange, talk = self._exchange, self._talk
        while talk.has_output and not self._writing.is_taken:
            piece = talk.output()
            try:
                exchange.write(piece, 0)
            except WriteTimeout:
                talk.put_back(piece)
                return
            except Error:
                return  # Reading tells.
            self._link.written()

    async def _linger(self) -> None:
        """End our direction, and wait for the server to end its own (RFC 6455 §7.1.1)."""
        await self._room(LINGER_S)
        self._exchange.finish(None, 0)
        self._link.written()
        until = self._loop.time() + LINGER_S
        while await self._piece(max(until - self._loop.time(), 0.0)):
            pass

    async def _finish(self) -> None:
        """Give the connection back: the server has said that it is over."""
        if self._response.is_closed:
            return
        try:
            self._offer()
            # It is over all the same, whatever goes wrong.
            with suppress(Error):
                await self._linger()
        finally:
            self._response.close()


async def connect(
    answered: Callable[..., Awaitable[AsyncResponse]], others: Callable[[], Pool | None], talk: Talk
) -> AsyncWebSocket:
    """Open a WebSocket.

    `answered` gives the response to the handshake, and to what that leads to, each sent by its
    argument `ask`; `others` gives a pool of HTTP/1.1 alone, for a server that takes none in HTTP/2
    and HTTP/3; None where HTTP/1.1 is out.

    Raises:
        StreamRefused: the server opens none.
        VersionUnavailable: it takes none in the versions that may be spoken.
        Error: any of `errors`.
    """
    loop, limit = running(), None

    async def ask(pool: Pool, prepared: Prepared, *, whole: bool) -> AsyncResponse:
        nonlocal limit
        # As given: what a limit of the whole request leaves of it is for the handshake.
        limit = prepared.how.limits[_WRITE]
        opening = handshake(prepared, talk)
        try:
            return await send(pool, opening, whole=whole)
        except VersionUnavailable:
            other = others()
            if other is None:
                raise
            return await send(other, opening, whole=whole)

    response = await answered(ask=ask)
    try:
        refused = await response.read(MOST_REFUSED) if is_refused(response) else b""
        talk.accept(response, refused, loop.time())
    except BaseException:
        response.close()
        raise
    return AsyncWebSocket(response, loop, talk, limit)
