"""Content that is put together in memory, and how much it may be."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from trilane.client import errors
from trilane.client.errors import DecodingError, LocalError

if TYPE_CHECKING:
    from trilane._core import Exchange
    from trilane.client._early import Early
    from trilane.client.errors import LimitExceeded

MOST_CONTENT: Final = 1 << 30
"""1 GiB: more than any document that is used as one object, and less than the memory of a machine.

What is larger is a download, for which there is `stream`.
"""
_AT_ONCE: Final = 1024 * 1024
WITHOUT_CONTENT: Final = frozenset({204, 304})
"""Statuses whose responses have no content (RFC 9110 §6.4.1)."""


class Bounds(NamedTuple):
    """How much content of one response is taken, in bytes; None: any amount."""

    whole: int | None = None
    """Of what is put together in memory."""
    decoded: int | None = None
    """Of what is decoded, or would be if it were coded, also where it is read in pieces."""

    @classmethod
    def of(cls, max_content: int | None, max_decoded: int | None) -> Bounds:
        """The bounds of a client.

        Raises:
            ValueError: one is below 0.
        """
        for name, most in (("max_content", max_content), ("max_decoded", max_decoded)):
            if most is not None and most < 0:
                raise ValueError(f"{name}={most}: give bytes from 0 on, or None for no limit")
        return cls(max_content, max_decoded)

    def refuse(self, url: str, stream_id: int) -> LimitExceeded:
        """The error for content that is too much to be put together."""
        return errors.LimitExceeded(
            f"the content of {url} is more than max_content={self.whole} bytes: read it in pieces"
            " from stream(), or allow more with Client(max_content=...)",
            stream_id=stream_id,
        )

    def refuse_decoded(self, url: str, stream_id: int) -> DecodingError:
        """The error for content that has no coding, and is more than may be decoded."""
        return DecodingError(
            f"the content of {url} is more than max_decoded={self.decoded} bytes: allow more with"
            " Client(max_decoded=...)",
            stream_id=stream_id,
        )

    def refuse_line(self, url: str, stream_id: int) -> LimitExceeded:
        """The error for a line of text that is too long to be kept until it ends."""
        return errors.LimitExceeded(
            f"a line of the content of {url} is longer than max_content={self.whole} characters:"
            " read it in pieces, or allow more with Client(max_content=...)",
            stream_id=stream_id,
        )

    def refuse_event(self, url: str, stream_id: int) -> LimitExceeded:
        """The error for an event that is too long to be kept until it ends."""
        return errors.LimitExceeded(
            f"an event of {url} is longer than max_content={self.whole} bytes: allow more with"
            " Client(max_content=...)",
            stream_id=stream_id,
        )

    def announces_too_much(self, exchange: Exchange | Early, method: str, status: int) -> bool:
        """Whether the head of a response announces more than may be put together."""
        # RFC 9110 §8.6: these tell how much it would be.
        none = exchange.complete or method == "HEAD" or status in WITHOUT_CONTENT
        return self.whole is not None and not none and (exchange.content_length or 0) > self.whole


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    """Content that was put together, in pieces of `size` bytes but for the last."""
    return (content[at : at + size] for at in range(0, len(content), size))


def not_read(what: str) -> LocalError:
    """The error for content that is wanted after its response was closed without all of it."""
    return LocalError(
        f"{what} was closed before all of its content had been read, and the rest was given up:"
        " read it first"
    )


class Whole:
    """Pieces of content that are put together, up to a limit."""

    __slots__ = ("_first", "_left", "_rest")

    def __init__(self, most: int | None) -> None:
        self._left = most
        self._first = b""
        self._rest: io.BytesIO | None = None

    @property
    def wanted(self) -> int:
        """Bytes to read next: where the limit is near, one more than it leaves."""
        return _AT_ONCE if self._left is None else min(_AT_ONCE, self._left + 1)

    def add(self, piece: bytes) -> bool:
        """Whether the piece is within the limit, and was taken."""
        if self._left is not None:
            self._left -= len(piece)
            if self._left < 0:
                return False
        if self._rest is not None:
            self._rest.write(piece)
        elif self._first:
            # Not a list: of pieces of one byte it would be forty times as large as they are.
            self._rest = io.BytesIO()
            self._rest.write(self._first)
            self._rest.write(piece)
            self._first = b""
        else:
            self._first = piece
        return True

    def together(self) -> bytes:
        """What was taken."""
        return self._first if self._rest is None else self._rest.getvalue()
