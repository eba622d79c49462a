"""Responses as hyper has them: fields in bytes, content decoded unless it is asked for as sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from trilane.client._flow.response import CODINGS
from trilane.client.hyper._headers import HTTPHeaderMap

if TYPE_CHECKING:
    from typing import Self

    from trilane._core import Decoder
    from trilane.client.http import HTTPResponse

_PIECE: Final = 64 * 1024


class HTTP11Response:
    """One response: status, fields, and the content as it is read."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.status
        """The status code."""
        self.reason = response.reason
        """The phrase of the status line; empty in HTTP/2, which has none."""
        self.headers = HTTPHeaderMap(response.getheaders())
        self._response = response
        # What was read to get at the trailers.
        self._ahead = b""
        self._decoder: Decoder | None = None
        codings = [coding.decode("latin-1") for coding in self.headers.get(b"content-encoding", [])]
        coded = [coding.lower() for coding in codings if coding.lower() != "identity"]
        if coded and CODINGS.issuperset(coded):
            from trilane._core import Decoder  # noqa: PLC0415 - most responses need none

            self._decoder = Decoder(coded)

    @property
    def trailers(self) -> HTTPHeaderMap:
        """The fields after the content; what is left of that is read for them, and kept.

        Raises:
            errors.Error: as `read`.
        """
        if not self._response.isclosed():
            self._ahead += self._response.read()
        return HTTPHeaderMap(self._response.trailers.items())

    def read(self, amt: int | None = None, decode_content: bool = True) -> bytes:
        """The content that is left, or some of it, up to `amt` bytes.

        decode_content: whether gzip, deflate, br and zstd are undone.

        Raises:
            errors.IncompleteBody: the connection ended first.
            errors.ReadTimeout: nothing came in time.
            errors.DecodingError: it is not in the coding that it is said to be in.
        """
        decoder = self._decoder if decode_content else None
        if decoder is None:
            return self._sent(amt)
        if amt is None:
            return decoder.decode(self._sent(None)) + self._finish(decoder)
        data = decoder.decode(b"", amt)
        while not data and amt:
            coded = self._sent(_PIECE)
            data = decoder.decode(coded, amt) if coded else self._finish(decoder)
            if not coded:
                break
        return data

    def read_chunked(self, decode_content: bool = True) -> Iterator[bytes]:
        """The content in pieces, as they come.

        Raises:
            errors.Error: as `read`.
        """
        decoder = self._decoder if decode_content else None
        while piece := self._some():
            data = piece if decoder is None else decoder.decode(piece)
            if data:
                yield data
        rest = b"" if decoder is None else self._finish(decoder)
        if rest:
            yield rest

    def _finish(self, decoder: Decoder) -> bytes:
        """What the decoder still has at the end of the content; it is not asked again."""
        self._decoder = None
        return decoder.finish()

    def _sent(self, amount: int | None) -> bytes:
        """The content as it was sent: all that is left, or `amount` bytes, fewer at the end."""
        ahead = self._ahead
        if amount is None:
            self._ahead = b""
            return ahead + self._response.read()
        if not ahead:
            return self._response.read(amount)
        self._ahead = ahead[amount:]
        return ahead[:amount]

    def _some(self) -> bytes:
        if self._ahead:
            return self._sent(_PIECE)
        return self._response.read1(_PIECE)

    def fileno(self) -> int:
        """The descriptor of the connection.

        Raises:
            io.UnsupportedOperation: the response has been read to its end or closed.
        """
        return self._response.fileno()

    def close(self) -> None:
        """Give up what is left: of HTTP/2 the stream alone, of HTTP/1.1 the connection."""
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status}>"


class HTTP20Response(HTTP11Response):
    """A response over HTTP/2."""

    @property
    def stream_id(self) -> int:
        """The id of its stream."""
        return self._response.stream_id
