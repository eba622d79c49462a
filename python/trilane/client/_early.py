"""Content of a response that comes while the request is still being sent.

A thread that sends does not read, and a server that echoes takes no more when nobody reads: the
native part keeps 64 MiB for a thread that writes, and then stops reading. So what has come is taken
between the blocks of the upload, and given first when the response is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilane.client import errors
from trilane.client._flow.content import BLOCK

if TYPE_CHECKING:
    from trilane._core import Exchange
    from trilane.client._flow.content import Block

_MUCH: Final = 1024 * 1024
"""Bytes that are left where they are: answers that come early are mostly short. Also what a read
of any amount is given at once."""


class Early:
    """An exchange whose request is being sent; it has everything that an exchange has."""

    def __init__(self, exchange: Any, url: str, most: int | None) -> None:
        """`url` is for messages; `most` is how many bytes are kept, None: any amount.

        `exchange` is one of `_core`, or has its methods.
        """
        self._exchange: Exchange = exchange
        self._url = url
        self._most = most
        self._kept = bytearray()
        self.is_over = False
        """Whether more has come than is kept."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    @property
    def settled(self) -> Any:
        """The exchange itself, where it still has everything that has come."""
        return self if self._kept else self._exchange

    @property
    def unread(self) -> int:
        """Bytes of content that have arrived and were not read."""
        return len(self._kept) + self._exchange.unread

    def write(self, block: Block, timeout: float | None) -> None:
        """Send content, and take what has come meanwhile.

        Raises:
            LimitExceeded: that is more than is kept.
            Error: as the exchange.
        """
        view = memoryview(block).cast("B")
        for at in range(0, view.nbytes, BLOCK):
            self._exchange.write(view[at : at + BLOCK], timeout)
            if self._exchange.unread >= _MUCH:
                self._take()

    def _take(self) -> None:
        exchange = self._exchange
        self._kept += exchange.read1(-1, 0)
        if self._most is not None and len(self._kept) > self._most:
            self.is_over = True
            raise errors.LimitExceeded(
                f"{self._url} has answered with more than max_content={self._most} bytes before all"
                " of the request's content was sent: read them meanwhile, by"
                " stream() of Client or AsyncClient, or allow more with Client(max_content=...)",
                stream_id=exchange.stream_id,
            )

    def read(self, amount: int, timeout: float | None) -> bytes:
        """Wait for `amount` bytes, fewer only at the end; -1: all. An error takes nothing."""
        kept = len(self._kept)
        if 0 <= amount <= kept:
            return self._first(amount)
        rest = self._exchange.read(max(amount - kept, -1), timeout)
        return self._first(kept) + rest if kept else rest

    def read1(self, amount: int, timeout: float | None) -> bytes:
        """What is there, up to `amount` bytes, -1: much of it; b"" at the end."""
        if not self._kept:
            return self._exchange.read1(amount, timeout)
        return self._first(_MUCH if amount < 0 else amount)

    def readinto(self, view: memoryview, timeout: float | None) -> int:
        """Copy what is there, and give how much it is: 0 at the end."""
        if not self._kept:
            return self._exchange.readinto(view, timeout)
        data = self._first(view.nbytes)
        view[: len(data)] = data
        return len(data)

    def _first(self, amount: int) -> bytes:
        """Take up to so many bytes of what is kept."""
        data = bytes(self._kept[:amount])
        del self._kept[:amount]
        return data
