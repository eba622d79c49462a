"""A response: its head at once, its content as it is asked for."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable, Iterator
from sys import is_finalizing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from .errors import Error, IncompleteBody
from .fields import Headers
from .whole import Whole, not_kept, pieces

if TYPE_CHECKING:
    from trilane._core import Decoder, Exchange

    from .early import Early
    from .sending import Sent

CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
"""Content codings that are undone (RFC 9110 §8.4)."""
_CODED: Final = "content-encoding"
_CODED_LENGTH: Final = len(_CODED)
PIECE: Final = 64 * 1024
"""Bytes that iteration hands out at most, unless it is told otherwise."""
_CHARSET: Final = re.compile(r';\s*charset\s*=\s*"?([^\s;"]+)', re.IGNORECASE)


class Response:
    """The answer to one request. One thread at a time reads it.

    Its connection is free for others when the content has been read to its end, or on `close()`.
    Content is decoded (gzip, deflate, br, zstd) unless the request was sent with `decode=False`.
    Content that was read as a whole is kept: it can be iterated any number of times, and read as a
    file. What was given in pieces is not.
    """

    __slots__ = (
        "_address",
        "_at",
        "_begun",
        "_content",
        "_decoder",
        "_decodes",
        "_exchange",
        "_fields",
        "_headers",
        "_how",
        "_informational",
        "_left",
        "_reason",
        "_sent",
        "_trailers",
        "method",
        "status",
        "stream_id",
        "version",
    )

    def __init__(
        self, sent: Sent, status: int, fields: list[tuple[str, str]] | None = None
    ) -> None:
        request, self._address, self._how = sent.call
        exchange = sent.exchange
        self.status = status
        """The status code."""
        self.method = request.method
        self.version = exchange.version
        """`h1`, `h2`, `h3`, or `h1.0` where the server answered in HTTP/1.0."""
        self.stream_id = exchange.stream_id
        """Id of the stream, or the number of the request on its HTTP/1.1 connection."""
        # None at the end of the content: whoever keeps responses keeps no connections.
        self._sent: Sent | None = sent
        self._exchange: Exchange | Early | None = exchange
        self._decodes = self._how.decodes
        self._decoder: Decoder | None = None
        # Of content without coding, what may still come.
        self._left: int | None = None
        self._fields = fields
        self._headers: Headers | None = None
        self._content: bytes | None = None
        # Where `read` stands in it.
        self._at = 0
        # Whether some of it was given in pieces before it was whole.
        self._begun = False
        self._reason = ""
        self._informational: list[tuple[int, list[tuple[str, str]]]] = []
        self._trailers: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        """The URL asked for, without userinfo and fragment."""
        return self._address.url

    @property
    def reason(self) -> str:
        """The reason phrase of HTTP/1.1; empty in the others."""
        exchange = self._exchange
        return self._reason if exchange is None else exchange.reason

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The fields as they came, in their order."""
        fields = self._fields
        if fields is None:
            # `close` takes them before it lets the exchange go.
            fields = self._fields = [] if self._exchange is None else self._exchange.fields()
        return fields

    @property
    def headers(self) -> Headers:
        """The fields by name."""
        if self._headers is None:
            self._headers = Headers(self.fields)
        return self._headers

    @property
    def trailers(self) -> Headers:
        """The fields after the content; empty until it has been read, and where there are none."""
        return Headers(self._trailers if self._exchange is None else [])

    @property
    def informational(self) -> list[tuple[int, list[tuple[str, str]]]]:
        """Status and fields of each 1xx response before this one."""
        exchange = self._exchange
        return self._informational if exchange is None else exchange.informational

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def is_closed(self) -> bool:
        """Whether the connection has been given back."""
        return self._exchange is None

    @property
    def content(self) -> bytes:
        """All of the content, read now where it was not before."""
        self.load()
        return self._content or b""

    @property
    def charset(self) -> str:
        """The encoding that `content-type` names, where Python knows it; else `utf-8`."""
        found = _CHARSET.search(self.headers.get("content-type", ""))
        if found is not None:
            try:
                return codecs.lookup(found[1]).name
            except LookupError:
                return "utf-8"
        return "utf-8"

    @property
    def text(self) -> str:
        """The content as text; what is not in its `charset` is replaced."""
        return self.content.decode(self.charset, errors="replace")

    def json(self) -> Any:
        """The content as JSON.

        Errors: ValueError (`json.JSONDecodeError`) where it is none.
        """
        return json.loads(self.content)

    def load(self) -> None:
        """Read all of the content, for `content`."""
        if self._content is None:
            self._content = self._read_all()

    def load_at_once(self) -> None:
        """Read all of the content of a new response, and give the connection back.

        Errors: those of `read`.
        """
        try:
            if self._exchange is not None:
                bounds = self._how.bounds
                bounds.look_ahead(self._exchange, self.method, self.status, self.url)
            self.load()
        finally:
            self.close()

    def read(self, amount: int = -1) -> bytes:
        """Up to `amount` bytes, fewer only at the end; -1: all that follows.

        The first `read()` keeps what it gives for `content` and for iterations.

        Errors: ReadTimeout, IncompleteBody, StreamReset, ConnectionClosed, DecodingError; and
        LimitExceeded where all that follows is more than `max_content`.
        """
        if amount < 0 and not self._begun:
            self.load()
        if self._content is not None:
            return self._again(amount)
        if amount < 0:
            return self._read_all()
        found: list[bytes] = []
        left = amount
        while left:
            piece = self.read1(left)
            if not piece:
                break
            found.append(piece)
            left -= len(piece)
        return found[0] if len(found) == 1 else b"".join(found)

    def read1(self, amount: int = -1) -> bytes:
        """What is there, up to `amount` bytes; waits for the first byte only. b"" at the end."""
        if self._content is not None:
            return self._again(amount)
        if not self._decodes:
            return self._counted(self._raw(amount))
        decoder = self._decoder
        if decoder is None:
            decoder = self._begin_decoding()
            if decoder is None:
                return self._counted(self._raw(amount))
        if not amount:
            return b""
        most = PIECE if amount < 0 else amount
        try:
            piece = decoder.decode(b"", most)
            while not piece:
                coded = self._raw(PIECE)
                piece = decoder.decode(coded, most) if coded else decoder.finish()
                if not coded:
                    break
        except Error:
            self.close()
            raise
        return piece

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill the buffer with what is there, at least a byte unless at the end; how many."""
        view = memoryview(buffer).cast("B")
        coded = self._decodes and self._begin_decoding() is not None
        if coded or self._content is not None:
            piece = self.read1(view.nbytes)
            view[: len(piece)] = piece
            return len(piece)
        exchange = self._exchange
        if exchange is None or not view.nbytes:
            return 0
        self._begun = True
        try:
            count = exchange.readinto(view, self._how.limits.read)
        except BaseException:
            self.close()
            raise
        if not count or (exchange.complete and not exchange.unread):
            self.close()
        self._count(count)
        return count

    def iter_bytes(self, size: int | None = None) -> Iterator[bytes]:
        """The content in pieces as they come, or of `size` bytes each but for the last."""
        if size is not None and size < 1:
            raise ValueError(f"iter_bytes(size={size}): give at least 1")
        if self._content is not None:
            yield from pieces(self._content, size or PIECE)
            return
        while piece := (self.read1() if size is None else self.read(size)):
            yield piece

    def iter_raw(self, size: int = PIECE) -> Iterator[bytes]:
        """The content as it was sent, not decoded, in pieces of up to `size` bytes.

        Errors: LocalError where it was decoded before; else those of `read`.
        """
        if self._content is not None:
            if self._decoder is not None:
                raise not_kept(self.url)
            yield from pieces(self._content, size)
            return
        while piece := self._raw(size):
            yield piece

    def iter_lines(self) -> Iterator[str]:
        r"""The content as lines of text, without their ends (`\n`, `\r\n` or `\r`)."""
        text = io.IncrementalNewlineDecoder(
            codecs.getincrementaldecoder(self.charset)(errors="replace"), translate=True
        )
        rest = ""
        for piece in self.iter_bytes():
            *lines, rest = (rest + text.decode(piece)).split("\n")
            yield from lines
        *lines, rest = (rest + text.decode(b"", final=True)).split("\n")
        yield from lines
        if rest:
            yield rest

    def __iter__(self) -> Iterator[bytes]:
        return self.iter_bytes()

    def close(self) -> None:
        """Give the connection back; content that has not come is cancelled. Idempotent."""
        exchange, sent = self._exchange, self._sent
        if exchange is None or sent is None:
            return
        self._exchange = self._sent = None
        if not sent.entry.inherited:
            if self._fields is None:
                self._fields = exchange.fields()
            self._reason = exchange.reason
            self._informational = exchange.informational
            self._trailers = exchange.trailers()
        sent.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self, is_finalizing: Callable[[], bool] = is_finalizing) -> None:
        # A daemon thread ends where it stands when the interpreter does, with the locks that it
        # holds: whoever takes one then waits forever.
        if self._sent is not None and not is_finalizing():
            self._sent.end()

    def __repr__(self) -> str:
        return f"<Response {self.status} {self.version} {self.method} {self.url}>"

    def _again(self, amount: int) -> bytes:
        """Of content that was put together what follows, up to `amount` bytes; -1: all."""
        content, at = self._content or b"", self._at
        self._at = len(content) if amount < 0 else min(at + amount, len(content))
        return content[at : self._at]

    def _read_all(self) -> bytes:
        most = self._how.bounds.whole
        if not self._decodes or self._begin_decoding() is None:
            exchange = self._exchange
            if exchange is not None and exchange.complete:
                try:
                    content = self._counted(exchange.read(-1, 0))
                finally:
                    self.close()
                if most is not None and len(content) > most:
                    raise self._how.bounds.refuse(self.url, self.stream_id)
                return content
        whole = Whole(most)
        try:
            # Not one read of everything: its timeout would be for the whole content.
            while piece := self.read1(whole.wanted):
                if not whole.add(piece):
                    self.close()
                    raise self._how.bounds.refuse(self.url, self.stream_id)
        except IncompleteBody as error:
            error.partial = whole.together() + error.partial
            raise
        return whole.together()

    def _counted(self, piece: bytes) -> bytes:
        """A piece of content that has no coding."""
        if self._left is not None:
            self._count(len(piece))
        return piece

    def _count(self, length: int) -> None:
        if self._left is not None:
            self._left -= length
            if self._left < 0:
                self.close()
                raise self._how.bounds.refuse_decoded(self.url, self.stream_id)

    def _raw(self, amount: int) -> bytes:
        exchange = self._exchange
        if exchange is None or not amount:
            return b""
        self._begun = True
        try:
            piece = exchange.read1(amount, self._how.limits.read)
        except BaseException:
            self.close()
            raise
        # At the end others can have the connection.
        if not piece or (exchange.complete and not exchange.unread):
            self.close()
        return piece

    def _begin_decoding(self) -> Decoder | None:
        """The decoder, made when content is read first; None where nothing is to be decoded."""
        if self._decoder is not None:
            return self._decoder
        codings: list[str] = []
        for name, value in self.fields:
            if len(name) == _CODED_LENGTH and name.lower() == _CODED:
                named = (coding.strip().lower() for coding in value.split(","))
                codings += [coding for coding in named if coding not in {"", "identity"}]
        if not codings or not CODINGS.issuperset(codings):
            # What is not known is handed on as it is; `headers` says so.
            self._decodes = False
            self._left = self._how.bounds.decoded
            return None
        from trilane._core import Decoder  # noqa: PLC0415 - most responses need none

        self._decoder = Decoder(codings, limit=self._how.bounds.decoded)
        return self._decoder
