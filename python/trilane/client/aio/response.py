"""A response on an event loop: its head at once, its content as it is asked for."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NoReturn, Self

from trilane._core import DATA, Decoder
from trilane.client.answer import CODINGS, PIECE
from trilane.client.errors import ClientClosed, Error, IncompleteBody, LocalError, ReadTimeout
from trilane.client.fields import Headers
from trilane.client.origins import Address
from trilane.client.whole import Bounds, Whole, not_kept, pieces

from .call import Call

if TYPE_CHECKING:
    from types import TracebackType


class AsyncResponse:
    """The answer to one request. One task at a time reads it, on the loop of its client.

    Its connection is free for others when the content has been read to its end, or on `aclose()`.
    Content is decoded (gzip, deflate, br, zstd) unless the request was sent with `decode=False`.
    Content that was read as a whole is kept: it can be iterated any number of times, and read as a
    file. What was given in pieces is not.
    """

    __slots__ = (
        "_address",
        "_at",
        "_begun",
        "_bounds",
        "_call",
        "_content",
        "_decoder",
        "_decodes",
        "_ended",
        "_exchange",
        "_fields",
        "_headers",
        "_left",
        "_link",
        "status",
    )

    def __init__(
        self,
        call: Call,
        status: int,
        *,
        address: Address,
        decodes: bool,
        bounds: Bounds,
    ) -> None:
        if call.exchange is None or call.link is None:
            raise ClientClosed("the client was closed while a request waited")
        self.status = status
        """The status code."""
        self._call = call
        self._exchange = call.exchange
        self._link = call.link
        self._fields = call.fields
        self._address = address
        self._headers: Headers | None = None
        self._decodes = decodes
        self._bounds = bounds
        # Of content without coding, what may still come.
        self._left: int | None = None
        self._decoder: Decoder | None = None
        self._content: bytes | None = None
        # Where `read` stands in it.
        self._at = 0
        # Whether some of it was given in pieces before it was whole.
        self._begun = False
        self._ended = False

    @property
    def method(self) -> str:
        """The method of the request."""
        return self._call.request.method

    @property
    def url(self) -> str:
        """The URL asked for, without userinfo and fragment."""
        return self._address.url

    @property
    def version(self) -> str:
        """`h1`, `h2`, `h3`, or `h1.0` where the server answered in HTTP/1.0."""
        return self._exchange.version

    @property
    def stream_id(self) -> int:
        """Id of the stream, or the number of the request on its HTTP/1.1 connection."""
        return self._exchange.stream_id

    @property
    def reason(self) -> str:
        """The reason phrase of HTTP/1.1; empty in the others."""
        return self._exchange.reason

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The fields as they came, in their order."""
        if self._fields is None:
            self._fields = self._exchange.fields()
        return self._fields

    @property
    def headers(self) -> Headers:
        """The fields by name."""
        if self._headers is None:
            self._headers = Headers(self.fields)
        return self._headers

    @property
    def trailers(self) -> Headers:
        """The fields after the content; empty until it has been read, and where there are none."""
        return Headers(self._exchange.trailers())

    @property
    def informational(self) -> list[tuple[int, list[tuple[str, str]]]]:
        """Status and fields of each 1xx response before this one."""
        return self._exchange.informational

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the server, or of the proxy."""
        return self._link.connection.peer

    @property
    def local(self) -> tuple[str, int] | None:
        """Our own address and port."""
        return self._link.connection.local

    @property
    def tls_info(self) -> dict[str, Any] | None:
        """What TLS agreed on; None without it."""
        return self._link.connection.tls_info

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def is_closed(self) -> bool:
        """Whether the connection has been given back."""
        return self._call.entry is None

    @property
    def content(self) -> bytes:
        """All of the content, which `aread` has read.

        Errors: LocalError before that.
        """
        if self._content is None:
            raise LocalError(f"the content of {self.url} has not been read: await aread() first")
        return self._content

    @property
    def charset(self) -> str:
        """The encoding that `content-type` names, where Python knows it; else `utf-8`."""
        _, mark, named = self.headers.get("content-type", "").lower().partition("charset=")
        if mark:
            try:
                return codecs.lookup(named.split(";")[0].strip(' "')).name
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

    async def aread(self) -> bytes:
        """All of the content; `content`, `text` and `json` have it then.

        Errors: those of `read`.
        """
        if not self.load():
            self._content = await self._rest(-1)
        return self.content

    async def load_at_once(self) -> None:
        """Read all of the content of a new response.

        Errors: those of `read`.
        """
        try:
            if not self.load():
                self._bounds.look_ahead(self._exchange, self.method, self.status, self.url)
                await self.aread()
        except BaseException:
            self.close()
            raise

    def load(self) -> bool:
        """Whether `content` is there: has been read, or lies here complete and not coded.

        Errors: LimitExceeded, DecodingError, where it is more than is allowed.
        """
        exchange = self._exchange
        if self._content is None and not self._ended and exchange.complete:
            if self._decodes and self._begin_decoding() is not None:
                return False
            self._ended = True
            content = exchange.read(-1, 0)
            self._call.pool.finish(self._call, complete=True)
            most = self._bounds.whole
            if most is not None and len(content) > most:
                raise self._bounds.refuse(self.url, self.stream_id)
            self._content = self._counted(content)
        return self._content is not None

    async def read(self, amount: int = -1) -> bytes:
        """Up to `amount` bytes, fewer only at the end; -1: all that follows.

        The first `read()` keeps what it gives for `content` and for iterations.

        Errors: ReadTimeout, IncompleteBody, StreamReset, ConnectionClosed, DecodingError; and
        LimitExceeded where all that follows is more than `max_content`.
        """
        if amount < 0 and not self._begun:
            await self.aread()
        if self._content is not None:
            return self._again(amount)
        return await self._rest(amount)

    async def _rest(self, amount: int) -> bytes:
        whole = Whole(self._bounds.whole if amount < 0 else None)
        left = amount
        try:
            while left:
                piece = await self.read1(whole.wanted if left < 0 else left)
                if not piece:
                    break
                if not whole.add(piece):
                    self.close()
                    raise self._bounds.refuse(self.url, self.stream_id)
                if left > 0:
                    left -= len(piece)
        except IncompleteBody as error:
            error.partial = whole.together() + error.partial
            raise
        return whole.together()

    async def read1(self, amount: int = -1) -> bytes:
        """What is there, up to `amount` bytes; waits for the first byte only. b"" at the end."""
        if self._content is not None:
            return self._again(amount)
        decoder = self._begin_decoding() if self._decodes else None
        if decoder is None:
            return self._counted(await self._raw(amount))
        if not amount:
            return b""
        most = PIECE if amount < 0 else amount
        try:
            piece = decoder.decode(b"", most)
            while not piece:
                coded = await self._raw(PIECE)
                piece = decoder.decode(coded, most) if coded else decoder.finish()
                if not coded:
                    break
        except Error:
            self.close()
            raise
        return piece

    async def aiter_bytes(self, size: int | None = None) -> AsyncIterator[bytes]:
        """The content in pieces as they come, or of `size` bytes each but for the last."""
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

        Errors: LocalError where it was decoded before; else those of `read`.
        """
        if self._content is not None:
            if self._decoder is not None:
                raise not_kept(self.url)
            for piece in pieces(self._content, size):
                yield piece
            return
        while piece := await self._raw(size):
            yield piece

    async def aiter_lines(self) -> AsyncIterator[str]:
        r"""The content as lines of text, without their ends (`\n`, `\r\n` or `\r`)."""
        text = io.IncrementalNewlineDecoder(
            codecs.getincrementaldecoder(self.charset)(errors="replace"), translate=True
        )
        rest = ""
        async for piece in self.aiter_bytes():
            *lines, rest = (rest + text.decode(piece)).split("\n")
            for line in lines:
                yield line
        *lines, rest = (rest + text.decode(b"", final=True)).split("\n")
        for line in lines:
            yield line
        if rest:
            yield rest

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.aiter_bytes()

    def close(self) -> None:
        """Give the connection back; content that has not come is cancelled. Idempotent."""
        self._ended = True
        self._call.pool.finish(self._call)

    async def aclose(self) -> None:
        """`close`, and see the end of what was still sending the request's content."""
        self.close()
        await self._call.stopped()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<AsyncResponse {self.status} {self.version} {self.method} {self.url}>"

    def _again(self, amount: int) -> bytes:
        """Of content that was put together what follows, up to `amount` bytes; -1: all."""
        content, at = self._content or b"", self._at
        self._at = len(content) if amount < 0 else min(at + amount, len(content))
        return content[at : self._at]

    async def _raw(self, amount: int) -> bytes:
        if self._ended or not amount:
            return b""
        self._begun = True
        call, exchange = self._call, self._exchange
        try:
            while (future := self._link.expect(exchange, DATA)) is not None:
                if not await call.pool.wait(future, call.timeouts.read):
                    self._late(call.timeouts.read)
            piece = exchange.read1(amount, 0)
        except BaseException as error:
            self.close()
            if isinstance(error, Error) and call.error is not None:
                # The request's own content failed; this is only what followed from it.
                raise call.error from None
            raise
        if not piece or (exchange.complete and not exchange.unread):
            self._ended = True
            call.pool.finish(call, complete=True)
        else:
            self._link.written()
        return piece

    def _counted(self, piece: bytes) -> bytes:
        """A piece of content that has no coding."""
        if self._left is not None:
            self._left -= len(piece)
            if self._left < 0:
                self.close()
                raise self._bounds.refuse_decoded(self.url, self.stream_id)
        return piece

    def _late(self, limit: float | None) -> NoReturn:
        raise ReadTimeout(
            f"{self.url} sent no more of its content within {limit} s: allow more with"
            " Timeouts(read=...)",
            stream_id=self.stream_id,
        )

    def _begin_decoding(self) -> Decoder | None:
        """The decoder, made when content is read first; None where nothing is to be decoded."""
        if self._decoder is not None:
            return self._decoder
        # Not kept: for ten thousand responses that is work for the garbage collector.
        fields = self._exchange.fields() if self._fields is None else self._fields
        named = [
            coding.strip().lower()
            for name, value in fields
            if len(name) == 16 and name.lower() == "content-encoding"
            for coding in value.split(",")
        ]
        codings = [coding for coding in named if coding not in {"", "identity"}]
        if not codings or not CODINGS.issuperset(codings):
            # What is not known is handed on as it is; `headers` says so.
            self._decodes = False
            self._left = self._bounds.decoded
            return None
        self._decoder = Decoder(codings, limit=self._bounds.decoded)
        return self._decoder
