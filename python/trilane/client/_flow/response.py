"""A response, but for waiting: what `Response` and `AsyncResponse` decide alike.

What has to wait for content awaits `_piece`, which the client's own response has. In a thread that
is a coroutine which waits inside of itself, so that all of it runs to its end by `result_of`.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar

from trilane.client import errors
from trilane.client._flow.head import Ends, Head, Past, Told
from trilane.client._flow.keywords import refuse_attribute
from trilane.client._flow.timeouts import content_timeout, total_timeout
from trilane.client._flow.whole import Bounds, Whole, not_read
from trilane.client.errors import Error, LocalError, ReadTimeout

from .text import BOM, DEFAULT, DefaultEncoding, JsonLines, Lines, charset, guessed

if TYPE_CHECKING:
    from trilane._core import Decoder, Exchange, Facts
    from trilane.client._early import Early
    from trilane.client._flow.events import EventParser
    from trilane.client._flow.origins import Address
    from trilane.client._flow.timeouts import Timeouts
    from trilane.client._flow.watching import Watched
    from trilane.client.errors import WriteTimeout

Result = TypeVar("Result")

CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
"""Content codings that are undone (RFC 9110 §8.4)."""
_CODED: Final = "content-encoding"
PIECE: Final = 64 * 1024
"""Bytes that iteration hands out at most, unless it is told otherwise."""


def result_of(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that leaves nothing to a loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise AssertionError("it awaits what only a loop has")


class BaseResponse(Head):
    """Limits and decoding of the answer to one request, and the content that is kept of it.

    A subclass has the exchange: `_piece` gives its content, and `close` gives its connection back.
    """

    from_cache: bool = False
    """Whether it comes from the client's cache."""
    revalidated: bool = False
    """Whether it does, and the server was asked whether it may."""

    __slots__ = (
        "_at",
        "_begun",
        "_bounds",
        "_content",
        "_decoder",
        "_decodes",
        "_default_encoding",
        "_encoding",
        "_error",
        "_left",
    )

    def __init__(
        self,
        status: int,
        told: Told,
        address: Address,
        bounds: Bounds,
        facts: Facts | Ends | None,
        watched: Watched | None,
        *,
        decodes: bool,
        default_encoding: DefaultEncoding,
    ) -> None:
        self.status = status
        self.history = []
        self.took = 0.0
        self._told = told
        self._facts = facts
        self._watched = watched
        self._address = address
        self._fields = None
        self._headers = None
        self._bounds = bounds
        self._decodes = decodes
        self._decoder: Decoder | None = None
        self._default_encoding = default_encoding
        self._encoding: str | None = None
        # Of content without coding, what may still come.
        self._left: int | None = None
        self._content: bytes | None = None
        # Where `read` stands in it.
        self._at = 0
        # Whether some of it was given in pieces before it was whole.
        self._begun = False
        # Why no more of it can be read.
        self._error: Error | None = None

    @property
    @abstractmethod
    def content(self) -> bytes:
        """All of the content."""

    @property
    def charset(self) -> str:
        """The encoding that `content-type` names, where Python knows it; else `utf-8`."""
        return charset(self.headers.get("content-type", "")) or DEFAULT

    @property
    def encoding(self) -> str:
        """What `text` and lines are decoded by, unless it is set.

        What `content-type` names, else the `default_encoding` of the client. Where that guesses, it
        is `utf-8` before all of the content has been read.
        """
        if self._encoding is not None:
            return self._encoding
        return charset(self.headers.get("content-type", "")) or self._default()

    @encoding.setter
    def encoding(self, name: str | None) -> None:
        self._encoding = name

    def _default(self) -> str:
        """The encoding of content that names none. It is guessed once, from the whole content."""
        default = self._default_encoding
        if isinstance(default, str):
            return default
        if self._content is None:
            return DEFAULT
        self._default_encoding = guess = guessed(default, self._content)
        return guess

    @property
    def text(self) -> str:
        """The content as text; what is not in its `encoding` is replaced."""
        return self.content.decode(self.encoding, errors="replace")

    def json(self, **options: Any) -> Any:
        """The content as JSON; `options` are those of `json.loads`.

        It is in UTF-8, UTF-16 or UTF-32, as JSON has to be (RFC 8259 §8.1); where it is not, or
        `encoding` was set, that says what it is in.

        Raises:
            ValueError: it is none (`json.JSONDecodeError`).
            UnicodeDecodeError: it is not in its encoding; a ValueError too.
        """
        import json  # noqa: PLC0415 - only for those who want it

        content = self.content
        if self._encoding is None:
            try:
                return json.loads(content, **options)
            except UnicodeDecodeError:
                if self.encoding == DEFAULT:
                    raise
        return json.loads(content.decode(self.encoding).removeprefix(BOM), **options)

    @abstractmethod
    def close(self) -> None:
        """Give the connection back; content that has not come is cancelled. Idempotent."""

    @abstractmethod
    async def _piece(self, amount: int) -> bytes:
        """What is there of the content as it was sent, up to `amount` bytes; b"" at the end."""

    if not TYPE_CHECKING:  # For checkers there is no other name.

        def __getattr__(self, name: str) -> Never:
            refuse_attribute(self, name)

    def __getstate__(self) -> dict[str, Any]:
        """What pickle keeps: head, content, trailers, and nothing of the connection.

        Raises:
            LocalError: not all of the content is at hand.
        """
        if self._content is None:
            raise LocalError(
                f"the response of {self.url} cannot be pickled or copied before all of its content"
                " has been read, at once: use request() or get(), or read() first"
            )
        return {
            "status": self.status,
            "fields": self.fields,
            # The user and the password of the URL are nobody's business there.
            "address": self._address._replace(authorization=None),
            "bounds": self._bounds,
            "content": self._content,
            "encoding": self._encoding,
            "default_encoding": self._default(),
            "decoded": self._decoder is not None,
            "method": self.method,
            "version": self.version,
            "stream_id": self.stream_id,
            "ends": (self.peer, self.local, self.tls_info),
            "reason": self.reason,
            "informational": self.informational,
            "trailers": self._told.trailers(),
            "request": self.request_to_keep(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        decoded = state["decoded"]
        address, bounds = state["address"], state["bounds"]
        BaseResponse.__init__(
            self,
            state["status"],
            Past(
                state["fields"],
                state["reason"],
                state["informational"],
                state["trailers"],
                state["request"],
            ),
            address,
            bounds,
            Ends(*state["ends"]),
            None,
            decodes=decoded,
            default_encoding=state["default_encoding"],
        )
        self._encoding = state["encoding"]
        self._content = state["content"]
        if decoded:
            self._begin_decoding()
        self._restore(state)

    @abstractmethod
    def _restore(self, state: dict[str, Any]) -> None:
        """Take what pickle has kept: without connection and exchange."""

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} {self.status} {self.version} {self.method} {self.url}>"

    def _again(self, amount: int) -> bytes:
        """Of content that was put together what follows, up to `amount` bytes; -1: all."""
        content, at = self._content or b"", self._at
        self._at = len(content) if amount < 0 else min(at + amount, len(content))
        return content[at : self._at]

    async def _decoded(self, amount: int) -> bytes:
        """Read what is there of coded content, up to `amount` bytes; -1: up to a piece."""
        self._expect_no_error()
        decoder = self._decoder
        if decoder is None or not amount:
            return b""
        most = PIECE if amount < 0 else amount
        try:
            piece = decoder.decode(b"", most)
            while not piece:
                coded = await self._piece(PIECE)
                piece = decoder.decode(coded, most) if coded else decoder.finish()
                if not coded:
                    break
        except Error as error:
            self._fail(error)
            raise
        return piece

    async def _together(self, amount: int, first: bytes = b"") -> bytes:
        """Read until there are `amount` bytes, decoded, fewer only at the end; -1: all.

        `first` is what was read of them. All is no more than `max_content`.

        Raises:
            IncompleteBody: the content ended early; `partial` has what was read here.
        """
        coded = self._decodes and self._begin_decoding() is not None
        counts = not coded and self._left is not None
        whole = Whole(self._bounds.whole if amount < 0 else None)
        whole.add(first)
        left = amount if amount < 0 else amount - len(first)
        try:
            while left:
                # Not one read of everything: its timeout would be for the whole content.
                wanted = whole.wanted if left < 0 else left
                piece = await (self._decoded(wanted) if coded else self._piece(wanted))
                if not piece:
                    break
                if counts:
                    self._count(len(piece))
                if not whole.add(piece):
                    raise self._fail(self._bounds.refuse(self.url, self.stream_id))
                if left > 0:
                    left -= len(piece)
        except errors.IncompleteBody as error:
            error.partial = whole.together() + error.partial
            self._fail(error)
            raise
        return whole.together()

    def _at_once(self, content: bytes) -> bytes:
        """All of the content that follows, which lay there complete and has no coding.

        Raises:
            LimitExceeded, DecodingError: it is more than is allowed.
        """
        whole, decoded, length = self._bounds.whole, self._left, len(content)
        # The smaller limit is passed first, also where it is read in pieces.
        if whole is not None and length > whole and (decoded is None or whole < decoded):
            raise self._fail(self._bounds.refuse(self.url, self.stream_id))
        if decoded is not None:
            self._count(length)
        return content

    def _counted(self, piece: bytes) -> bytes:
        """A piece of content that has no coding."""
        if self._left is not None:
            self._count(len(piece))
        return piece

    def _count(self, length: int) -> None:
        """Take so many bytes from what may still come of content that has no coding."""
        if self._left is not None:
            self._left -= length
            if self._left < 0:
                raise self._fail(self._bounds.refuse_decoded(self.url, self.stream_id))

    def _fail(self, error: BaseException) -> BaseException:
        """Remember the error, which later reads raise again, and close."""
        if isinstance(error, Error):
            # Not the error itself: its traceback holds frames, and these hold the response.
            self._error = copy.copy(error)
        elif self._error is None:
            self._error = LocalError(
                f"reading the content of {self.url} was interrupted by {type(error).__name__}, and"
                " the rest was given up"
            )
        self.close()
        return error

    def _expect_time(self, limits: Timeouts) -> None:
        """Raise where the time for the whole request is over, also if there is content to read."""
        if limits.is_over():
            raise self._fail(total_timeout(self.url, limits.total))

    async def _drained(self, most: int) -> None:
        """Read up to so many bytes, and keep them where they are all."""
        if self._content is not None:
            return
        try:
            content = await self._together(most + 1)
            if len(content) <= most:
                self._content = content
        except Error:
            pass  # The response is of no interest but for what it leads to.

    def _give_up(
        self, error: BaseException, limits: Timeouts, stalled: WriteTimeout | None
    ) -> None:
        """Remember what ended a read, and close; for a read that took too long, raise why.

        limits: those of the request. stalled: why the rest of the request's content was not
            sent, if the response had begun. A server that takes no more of it and sends no more, as
            an echo, waits for us.
        """
        if isinstance(error, ReadTimeout):
            if limits.is_over():
                raise self._fail(total_timeout(self.url, limits.total)) from None
            late = content_timeout(self.url, limits.read, self.stream_id)
            raise self._fail(stalled or late) from None
        self._fail(error)

    def _leave(self, exchange: Exchange | Early) -> None:
        """Remember that content was given up, if there was more: reads after `close` raise that."""
        if self._error is None and (not exchange.complete or exchange.unread):
            self._error = not_read(f"the response of {self.url}")

    def _expect_no_error(self) -> None:
        """Raise again what ended the reading before the end of the content."""
        if self._error is not None:
            raise copy.copy(self._error)

    def _look_ahead(self, exchange: Exchange | Early) -> None:
        """Raise where the head announces more content than may be put together.

        Raises:
            LimitExceeded: it does.
            DecodingError: it does, and `max_decoded` is the smaller limit.
        """
        if self._bounds.announces_too_much(exchange, self.method, self.status):
            coded = self._decodes and self._begin_decoding() is not None
            length = 0 if coded else exchange.content_length or 0
            decoded = self._left
            if decoded is not None and length > decoded <= (self._bounds.whole or 0):
                raise self._fail(self._bounds.refuse_decoded(self.url, self.stream_id))
            raise self._fail(self._bounds.refuse(self.url, self.stream_id))

    def _lines(self) -> Lines:
        """What cuts the content into lines of text."""

        def refuse() -> BaseException:
            return self._fail(self._bounds.refuse_line(self.url, self.stream_id))

        return Lines(self.encoding, self._bounds.whole, refuse)

    def _json_lines(self) -> JsonLines:
        """What makes values of the lines of the content."""
        return JsonLines(self.url)

    def event_parser(self, last_event_id: str = "") -> EventParser:
        """What makes events of the content; the stream has named that id before."""
        from trilane.client._flow.events import EventParser  # noqa: PLC0415 - most have no events

        def refuse() -> BaseException:
            return self._fail(self._bounds.refuse_event(self.url, self.stream_id))

        return EventParser(self._bounds.whole, refuse, last_event_id)

    def _as_sent(self) -> bytes | None:
        """All of the content as it was sent, where it is kept.

        Raises:
            LocalError: it was decoded.
        """
        if self._content is not None and self._decoder is not None:
            raise LocalError(
                f"the content of {self.url} has been decoded, and is not kept as it was sent: read"
                " it from stream(), or send the request with decode=False"
            )
        return self._content

    def _begin_decoding(self) -> Decoder | None:
        """The decoder, made when content is read first; None where nothing is to be decoded."""
        if self._decoder is not None:
            return self._decoder
        codings: list[str] = []
        if self._told.has(_CODED):
            for value in self.headers.get_all(_CODED):
                named = (coding.strip().lower() for coding in value.split(","))
                codings += [coding for coding in named if coding not in {"", "identity"}]
        if not codings or not CODINGS.issuperset(codings):
            # What is not known is handed on as it is; `headers` says so.
            self._decodes = False
            self._left = self._bounds.decoded
            return None
        from trilane._core import Decoder  # noqa: PLC0415 - most responses need none

        self._decoder = Decoder(codings, limit=self._bounds.decoded)
        return self._decoder
