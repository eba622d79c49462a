"""A response: its head at once, its content as it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from trilane.client._flow.head import Past
from trilane.client._flow.response import PIECE, BaseResponse, result_of
from trilane.client._flow.whole import not_read, pieces
from trilane.client.errors import ReadTimeout, WriteTimeout
from trilane.client.fields import Headers

if TYPE_CHECKING:
    from trilane._core import Exchange
    from trilane.client._early import Early
    from trilane.client._flow.events import Event
    from trilane.client._flow.request import Request
    from trilane.client._pool.sending import Sent

Taken = TypeVar("Taken", bytes, int)


class Response(BaseResponse):
    """The answer to one request. One thread at a time reads it.

    Its connection is free for others when the content has been read to its end, or on `close()`.
    Content is decoded (gzip, deflate, br, zstd) unless the request was sent with `decode=False`.
    Content that was read as a whole is kept: it can be iterated any number of times, and read as a
    file. What was given in pieces is not.
    """

    __slots__ = (
        "_exchange",
        "_how",
        "_request",
        "_saving",
        "_sent",
        "method",
        "stream_id",
        "version",
    )

    method: str
    """Of the request."""
    version: str
    """`h1`, `h2`, `h3`, or `h1.0` where the server answered in HTTP/1.0."""
    stream_id: int
    """Id of the stream, or the number of the request on its HTTP/1.1 connection."""

    def __init__(self, sent: Sent, status: int) -> None:
        request, address, how = sent.prepared
        exchange, facts, watched = sent.exchange, sent.entry.facts, how.watched
        super().__init__(
            status,
            exchange,
            address,
            how.bounds,
            facts,
            watched,
            decodes=how.decodes,
            default_encoding=how.default_encoding,
        )
        self.method = request.method
        self._request: Request = request
        self.version = exchange.version
        self.stream_id = exchange.stream_id
        # None at the end of the content: responses that are kept keep no connections.
        self._sent: Sent | None = sent
        self._exchange: Exchange | Early | None = exchange
        self._how = how

    @property
    def trailers(self) -> Headers:
        """The fields after the content; empty until it has been read, and where there are none."""
        return Headers(self._told.trailers() if self._exchange is None else [])

    def duplex(self) -> Exchange:
        """What it is read from and written to, by different threads, for a WebSocket."""
        exchange = self._exchange
        assert exchange is not None  # noqa: S101 - a WebSocket is made of an open response
        # What `Early` keeps of others is content that came while a request was sent; this had none.
        return cast("Exchange", exchange)

    @property
    def is_closed(self) -> bool:
        """Whether the connection has been given back."""
        return self._exchange is None

    @property
    def content(self) -> bytes:
        """All of the content, read now where it was not before.

        Raises:
            Error: as `read`.
        """
        content = self._content
        if content is None:
            self.load()
            content = self._content
        return content or b""

    def arrived(self) -> bytes | None:
        """All of the content, where it has come complete; None: it has to be waited for.

        Raises:
            LimitExceeded, DecodingError: it is more than is allowed, or not what it says.
        """
        exchange = self._exchange
        return None if exchange is None or not exchange.complete else self.content

    def load(self) -> None:
        """Read all of the content, for `content`."""
        if self._content is None:
            self._content = self._read_all()

    def load_at_once(self) -> None:
        """Read all of the content of a new response, and give the connection back.

        Raises:
            Error: as `read`.
        """
        exchange = self._exchange
        try:
            if exchange is None:
                self.load()
            elif exchange.complete and not (self._decodes and self._begin_decoding()):
                self._content = self._at_once(exchange.read(-1, 0))
            else:
                self._look_ahead(exchange)
                self.load()
        finally:
            self.close()

    def read(self, amount: int = -1) -> bytes:
        """Up to `amount` bytes, fewer only at the end; -1: all that follows.

        The first `read()` keeps what it gives for `content` and for iterations.

        Raises:
            ReadTimeout: nothing more came in time.
            RemoteError: the connection or the stream was lost, or the content is not what it said.
            LimitExceeded: all that follows is more than `max_content`.
            LocalError: the response was closed before all of it had been read.
        """
        if amount < 0 and not self._begun:
            self.load()
        if self._content is not None:
            return self._again(amount)
        if amount < 0:
            return self._read_all()
        first = self.read1(amount)
        if not first or len(first) == amount:
            return first
        return result_of(self._together(amount, first))

    def read1(self, amount: int = -1) -> bytes:
        """What is there, up to `amount` bytes; waits for the first byte only. b"" at the end.

        Raises:
            Error: as `read`.
        """
        if self._content is not None:
            return self._again(amount)
        if self._decodes and self._begin_decoding() is not None:
            return result_of(self._decoded(amount))
        return self._counted(self._raw(amount))

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill the buffer with what is there, at least a byte unless at the end; how many.

        Raises:
            Error: as `read`.
        """
        view = memoryview(buffer).cast("B")
        coded = self._decodes and self._begin_decoding() is not None
        if coded or self._content is not None:
            piece = self.read1(view.nbytes)
            view[: len(piece)] = piece
            return len(piece)
        exchange = self._exchange
        if exchange is None or not view.nbytes:
            self._expect_no_error()
            return 0
        self._begun = True
        limits = self._how.limits
        if limits.total is not None:
            self._expect_time(limits)
        try:
            count = exchange.readinto(view, limits.read)
        except BaseException as error:  # noqa: BLE001 - it is raised
            count = self._after(error, lambda: exchange.readinto(view, limits.read))
        if not count or (exchange.complete and not exchange.unread):
            self.close()
        self._count(count)
        return count

    def iter_bytes(self, size: int | None = None) -> Iterator[bytes]:
        """The content in pieces as they come, or of `size` bytes each but for the last.

        Raises:
            ValueError: `size` is less than 1.
            Error: as `read`.
        """
        if size is not None and size < 1:
            raise ValueError(f"iter_bytes(size={size}): give at least 1")
        if self._content is not None:
            yield from pieces(self._content, size or PIECE)
            return
        while piece := (self.read1() if size is None else self.read(size)):
            yield piece

    def iter_raw(self, size: int = PIECE) -> Iterator[bytes]:
        """The content as it was sent, not decoded, in pieces of up to `size` bytes.

        Raises:
            LocalError: it was decoded before.
            Error: as `read`.
        """
        kept = self._as_sent()
        if kept is not None:
            yield from pieces(kept, size)
            return
        while piece := self._raw(size):
            yield piece

    def iter_lines(self) -> Iterator[str]:
        r"""The content as lines of text, without their ends (`\n`, `\r\n` or `\r`).

        Raises:
            LimitExceeded: a line is longer than `max_content`.
            Error: as `read`.
        """
        lines = self._lines()
        for piece in self.iter_bytes():
            yield from lines.take(piece)
        yield from lines.end()

    def iter_json_lines(self) -> Iterator[Any]:
        """The content as values, each of which is one line of JSON (NDJSON, JSON Lines).

        Blank lines are passed over.

        Raises:
            ValueError: a line is not JSON; the message says which.
            Error: as `iter_lines`.
        """
        return self._json_lines().take(self.iter_lines())

    def iter_events(self) -> Iterator[Event]:
        """The content as server-sent events; `Client.events` also asks for them again.

        Raises:
            LimitExceeded: an event is longer than `max_content`.
            Error: as `read`.
        """
        parser = self.event_parser()
        for piece in self.iter_bytes():
            yield from parser.take(piece)

    def __iter__(self) -> Iterator[bytes]:
        return self.iter_bytes()

    def close(self) -> None:
        """Give the connection back; content that has not come is cancelled. Idempotent."""
        exchange, sent = self._exchange, self._sent
        if exchange is None or sent is None:
            return
        if self._watched is not None and not sent.entry.inherited:
            self._watched.end(exchange, self._error)
        self._exchange = self._sent = None
        if sent.entry.inherited:
            self._error = not_read(f"the response of {self.url}")
            self._told = Past(self._fields)
        else:
            self._leave(exchange)
            self._told = exchange.sections()
        sent.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def drain(self, most: int) -> None:
        """Read up to so many bytes, for the connection's sake, and close. It raises nothing."""
        try:
            result_of(self._drained(most))
        finally:
            self.close()

    def _request_sent(self) -> Request:
        return self._request

    def _restore(self, state: dict[str, Any]) -> None:
        self._sent = self._exchange = None
        self.method, self.version = state["method"], state["version"]
        self.stream_id = state["stream_id"]

    @property
    def _measured(self) -> Exchange | Early | None:
        return self._exchange

    def _after(self, error: BaseException, again: Callable[[], Taken]) -> Taken:
        """What `again` reads after a wait for content that ended with an error, or raise why."""
        sent, limits = self._sent, self._how.limits
        # While content of the request is on its way, the limit of writing counts.
        while isinstance(error, ReadTimeout) and sent is not None and sent.is_sending:
            if limits.is_over():
                break
            try:
                return again()
            except BaseException as later:  # noqa: BLE001 - it is raised below
                error = later
        failure = None if sent is None else sent.failure(error)
        if failure is not None:
            if limits.is_over() and isinstance(failure, WriteTimeout):
                self._expect_time(limits)
            # The request's own content failed; the rest followed from it.
            raise self._fail(failure) from None
        self._give_up(error, limits, None if sent is None else sent.why_stalled())
        raise error

    def _read_all(self) -> bytes:
        exchange = self._exchange
        complete = exchange is not None and exchange.complete
        if exchange is None or not complete or (self._decodes and self._begin_decoding()):
            return result_of(self._together(-1))
        try:
            return self._at_once(exchange.read(-1, 0))
        finally:
            self.close()

    async def _piece(self, amount: int) -> bytes:
        return self._raw(amount)

    def _raw(self, amount: int) -> bytes:
        exchange = self._exchange
        if exchange is None or not amount:
            self._expect_no_error()
            return b""
        self._begun = True
        limits = self._how.limits
        if limits.total is not None:
            self._expect_time(limits)
        try:
            piece = exchange.read1(amount, limits.read)
        except BaseException as error:  # noqa: BLE001 - it is raised
            piece = self._after(error, lambda: exchange.read1(amount, limits.read))
        # At the end others can have the connection.
        if not piece or (exchange.complete and not exchange.unread):
            self.close()
        return piece
