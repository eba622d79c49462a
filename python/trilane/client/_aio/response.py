"""A response on an event loop: its head at once, its content as it is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Self

from trilane._core import DATA, Exchange
from trilane.client._flow.preparing import Prepared
from trilane.client._flow.request import Request
from trilane.client._flow.response import PIECE, BaseResponse
from trilane.client._flow.whole import pieces
from trilane.client.errors import ClientClosed, Error, LocalError, ReadTimeout
from trilane.client.fields import Headers

from .call import Call

if TYPE_CHECKING:
    from trilane.client._flow.events import Event

    from .link import Link


class AsyncResponse(BaseResponse):
    """The answer to one request. One task at a time reads it, on the loop of its client.

    Its connection is free for others when the content has been read to its end, or on `aclose()`.
    Content is decoded (gzip, deflate, br, zstd) unless the request was sent with `decode=False`.
    Content that was read as a whole is kept: it can be iterated any number of times, and read as a
    file. What was given in pieces is not.
    """

    __slots__ = ("_call", "_ended", "_exchange", "_link", "_saving")

    def __init__(self, call: Call, status: int, prepared: Prepared) -> None:
        if call.exchange is None or call.link is None:
            raise ClientClosed("the client was closed while a request waited")
        _, address, how = prepared
        facts, watched = call.link.facts, how.watched
        super().__init__(
            status,
            call.exchange,
            address,
            how.bounds,
            facts,
            watched,
            decodes=how.decodes,
            default_encoding=how.default_encoding,
        )
        self._call = call
        self._exchange = call.exchange
        self._link = call.link
        self._ended = False

    @property
    def method(self) -> str:
        """The method of the request."""
        return self._call.request.method

    @property
    def version(self) -> str:
        """`h1`, `h2`, `h3`, or `h1.0` where the server answered in HTTP/1.0."""
        return self._exchange.version

    @property
    def stream_id(self) -> int:
        """Id of the stream, or the number of the request on its HTTP/1.1 connection."""
        return self._exchange.stream_id

    @property
    def trailers(self) -> Headers:
        """The fields after the content; empty until it has been read, and where there are none."""
        return Headers(self._told.trailers() if self._ended else [])

    def duplex(self) -> tuple[Exchange, Link]:
        """What it is read from and written to, by different tasks, for a WebSocket."""
        self._link.upload(self._exchange)
        return self._exchange, self._link

    @property
    def is_closed(self) -> bool:
        """Whether the connection has been given back."""
        return self._call.entry is None

    @property
    def content(self) -> bytes:
        """All of the content, which `aread` has read.

        Raises:
            LocalError: it has not been read, or was closed before.
        """
        if self._content is None:
            self._expect_no_error()
            raise LocalError(f"the content of {self.url} has not been read: await aread() first")
        return self._content

    async def aread(self) -> bytes:
        """All of the content; `content`, `text` and `json` have it then.

        Raises:
            Error: as `read`.
        """
        if not self.load():
            self._content = await self._together(-1)
        return self.content

    def arrived(self) -> bytes | None:
        """All of the content, where it has come complete and is not coded; None: it has to be read.

        Raises:
            LimitExceeded: it is more than is allowed.
        """
        return self.content if not self._call.is_sending and self.load() else None

    async def load_at_once(self) -> None:
        """Read all of the content of a new response, which `load` could not.

        Raises:
            Error: as `read`.
        """
        try:
            self._look_ahead(self._exchange)
            await self.aread()
        except BaseException:
            self.close()
            raise

    def load(self) -> bool:
        """Whether `content` is there: has been read, or lies here complete and not coded.

        Raises:
            LimitExceeded, DecodingError: it is more than is allowed, or not what it says.
        """
        if self._content is not None:
            return True
        exchange = self._exchange
        if self._ended or not exchange.complete:
            return False
        try:
            if self._decodes and self._begin_decoding() is not None:
                return False
            self._ended = True
            content = exchange.read(-1, 0)
            if self._watched is not None:
                self._watched.end(exchange)
            call = self._call
            call.pool.finish(call, complete=True)
            self._content = self._at_once(content)
        except BaseException:
            self.close()
            raise
        return True

    async def read(self, amount: int = -1) -> bytes:
        """Up to `amount` bytes, fewer only at the end; -1: all that follows.

        The first `read()` keeps what it gives for `content` and for iterations.

        Raises:
            ReadTimeout: nothing more came in time.
            RemoteError: the connection or the stream was lost, or the content is not what it said.
            LimitExceeded: all that follows is more than `max_content`.
            LocalError: the response was closed before all of it had been read.
        """
        if amount < 0 and not self._begun:
            await self.aread()
        if self._content is not None:
            return self._again(amount)
        if amount < 0:
            return await self._together(-1)
        first = await self.read1(amount)
        if not first or len(first) == amount:
            return first
        return await self._together(amount, first)

    async def read1(self, amount: int = -1) -> bytes:
        """What is there, up to `amount` bytes; waits for the first byte only. b"" at the end.

        Raises:
            Error: as `read`.
        """
        if self._content is not None:
            return self._again(amount)
        if self._decodes and self._begin_decoding() is not None:
            return await self._decoded(amount)
        return self._counted(await self._piece(amount))

    async def aiter_bytes(self, size: int | None = None) -> AsyncIterator[bytes]:
        """The content in pieces as they come, or of `size` bytes each but for the last.

        Raises:
            ValueError: `size` is less than 1.
            Error: as `read`.
        """
        if size is not None and size < 1:
            raise ValueError(f"aiter_bytes(size={size}): give at least 1")
        if self._content is not None:
            for piece in pieces(self._content, size or PIECE):
                yield piece
            return
        while piece := await (self.read1() if size is None else self.read(size)):
            yield piece

    async def aiter_raw(self, size: int = PIECE) -> AsyncIterator[bytes]:
        """The content as it was sent, not decoded, in pieces of up to `size` bytes.

        Raises:
            LocalError: it was decoded before.
            Error: as `read`.
        """
        kept = self._as_sent()
        if kept is not None:
            for piece in pieces(kept, size):
                yield piece
            return
        while piece := await self._piece(size):
            yield piece

    async def aiter_lines(self) -> AsyncIterator[str]:
        r"""The content as lines of text, without their ends (`\n`, `\r\n` or `\r`).

        Raises:
            LimitExceeded: a line is longer than `max_content`.
            Error: as `read`.
        """
        lines = self._lines()
        async for piece in self.aiter_bytes():
            for line in lines.take(piece):
                yield line
        for line in lines.end():
            yield line

    async def aiter_json_lines(self) -> AsyncIterator[Any]:
        """The content as values, each of which is one line of JSON (NDJSON, JSON Lines).

        Blank lines are passed over.

        Raises:
            ValueError: a line is not JSON; the message says which.
            Error: as `aiter_lines`.
        """
        values = self._json_lines()
        async for line in self.aiter_lines():
            for value in values.take([line]):
                yield value

    async def aiter_events(self) -> AsyncIterator[Event]:
        """The content as server-sent events; `AsyncClient.events` also asks for them again.

        Raises:
            LimitExceeded: an event is longer than `max_content`.
            Error: as `read`.
        """
        parser = self.event_parser()
        async for piece in self.aiter_bytes():
            for event in parser.take(piece):
                yield event

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.aiter_bytes()

    def close(self) -> None:
        """Give the connection back; content that has not come is cancelled. Idempotent."""
        if self._watched is not None:
            self._watched.end(self._exchange, self._error)
        if not self._ended:
            self._leave(self._exchange)
            self._ended = True
        self._call.pool.finish(self._call)

    async def aclose(self) -> None:
        """`close`, and see the end of what was still sending the request's content."""
        self.close()
        await self._call.stopped()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def drain(self, most: int) -> None:
        """Read up to so many bytes, for the connection's sake, and close. It raises nothing."""
        try:
            await self._drained(most)
        finally:
            await self.aclose()

    def _request_sent(self) -> Request:
        return self._call.request

    def _restore(self, state: dict[str, Any]) -> None:
        past: Any = _Past(state)
        self._call = self._exchange = self._link = past
        self._ended = True

    @property
    def _measured(self) -> Exchange:
        return self._exchange

    async def _piece(self, amount: int) -> bytes:  # noqa: C901 - one turn of reading
        if self._ended or not amount:
            self._expect_no_error()
            return b""
        self._begun = True
        call, exchange = self._call, self._exchange
        if call.timeouts.total is not None:
            self._expect_time(call.timeouts)
        failure: BaseException | None = None
        try:
            while (future := self._link.expect(exchange, DATA, reads=True)) is not None:
                # While content of the request is on its way, the limit of writing counts.
                if await call.pool.wait(future, call.patience(exchange)):
                    continue
                if not call.is_sending or call.timeouts.is_over():
                    raise ReadTimeout  # noqa: TRY301 - `_give_up` says of what
            piece = exchange.read1(amount, 0)
        except BaseException as error:
            # Where the request's own content failed, this only followed from it.
            failure = call.error if isinstance(error, Error) else None
            if failure is None:
                self._give_up(error, call.timeouts, call.stalled)
                raise
        if failure is not None:
            raise self._fail(failure)
        if not piece or (exchange.complete and not exchange.unread):
            self._ended = True
            if self._watched is not None:
                self._watched.end(exchange)
            call.pool.finish(call, complete=True)
        else:
            self._link.written()
        return piece


class _Past:
    """What an `AsyncResponse` that was pickled asks of its call, its exchange and its link."""

    complete = True
    unread = 0
    entry = None

    def __init__(self, state: dict[str, Any]) -> None:
        self.method = state["method"]
        self.version = state["version"]
        self.stream_id = state["stream_id"]
        # It takes the place of all of these.
        self.request = self.connection = self.pool = self

    def finish(self, _call: object, *, complete: bool = False) -> None:
        """There is no connection to be given back."""

    async def stopped(self) -> None:
        """Nothing is being sent."""
