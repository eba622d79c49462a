"""The content of a response as a file, for `HTTPResponse`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from trilane.client._flow.whole import Whole, not_read
from trilane.client.errors import IncompleteBody

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

    from trilane._core import Connection, Exchange
    from trilane.client.http._pipeline import Pipeline
    from trilane.client.http._sockets import SocketConnection

_BLOCK: Final = 1 << 16
_LARGE: Final = 1 << 20


class Wait:
    """How long one wait of a connection and its responses may last, in seconds."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds


class ContentFile(io.BufferedIOBase):
    """The content of a response, as it was sent. The subclass has the exchange."""

    _exchange: Exchange
    # Defaults here and not in __init__: most responses change few of them.
    _wait = Wait(None)
    _owner: Pipeline | None = None
    _closing: Connection | SocketConnection | None = None
    _ended = False
    _given_up = False
    _ahead = b""
    _at = 0
    _taken = 0

    def __iter__(self) -> Self:
        return self

    def readable(self) -> bool:
        """True."""
        return True

    def read(self, amt: int | None = None, /) -> bytes:
        """The content that is left, or up to `amt` bytes, fewer only at the end.

        Raises:
            errors.IncompleteBody: the connection ended first; `partial` has what arrived.
            errors.ReadTimeout: nothing came in time; reading may go on.
            errors.LocalError: it was closed, or cancelled, before all of it had been read.
        """
        if self._ended:
            return self._nothing()
        if amt is None or amt < 0:
            ahead = self._take_ahead() if self._ahead else b""
            if self._is_large():
                return self._fetch_all(ahead)
            try:
                data = self._exchange.read(-1, self._wait.seconds)
            except IncompleteBody as error:
                self._complete(error, ahead)
                raise
            except BaseException:
                self._put_back(ahead)
                raise
            self._taken += len(data)
            self._end()
            return ahead + data if ahead else data
        data = self._take_ahead(amt) if self._ahead else b""
        if len(data) < amt:
            data = self._fetch(amt - len(data), data)
        self._look_for_end()
        return data

    def _is_large(self) -> bool:
        """Whether more may come than is copied at once, once it is there."""
        exchange = self._exchange
        length = exchange.content_length
        return not exchange.complete and (length is None or length > _LARGE)

    def _fetch_all(self, ahead: bytes) -> bytes:
        """Reads to the end into one buffer, which grows with what comes; as `_fetch`."""
        whole = Whole(None)
        whole.add(ahead)
        try:
            while piece := self._exchange.read1(_LARGE, self._wait.seconds):
                self._taken += len(piece)
                whole.add(piece)
        except IncompleteBody as error:
            self._complete(error, whole.together())
            raise
        except BaseException:
            self._put_back(whole.together())
            raise
        self._end()
        return whole.together()

    def _fetch(self, amount: int, ahead: bytes) -> bytes:
        """Reads up to `amount` bytes after those that it is given.

        Memory grows with what comes and not with what was asked for. What came before an error is
        given before it: the error is for the next call. After a timeout nothing is lost.

        Raises:
            IncompleteBody: the connection ended, and nothing had come.
        """
        parts = [ahead] if ahead else []
        while amount > 0:
            size = min(amount, _LARGE)
            try:
                part = self._exchange.read(size, self._wait.seconds)
            except IncompleteBody:
                part = self._there(size)
                if not part and not parts:
                    raise
            except BaseException:
                self._put_back(b"".join(parts))
                raise
            self._taken += len(part)
            parts.append(part)
            amount -= len(part)
            if len(part) < size:
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _there(self, most: int) -> bytes:
        """Up to so many bytes of those that have arrived."""
        parts: list[bytes] = []
        while self._exchange.unread and (left := most - sum(map(len, parts))):
            parts.append(self._exchange.read1(left, 0))
        return b"".join(parts)

    def _complete(self, error: IncompleteBody, ahead: bytes) -> None:
        """Says in the error what has arrived and what has not, and ends the response."""
        rest = self._there(self._exchange.unread)
        whole = self._exchange.content_length
        error.partial = ahead + rest
        error.expected = None if whole is None else whole - self._taken - len(rest)
        self._end()

    def read1(self, n: int | None = -1, /) -> bytes:
        """What is there, up to `n` bytes; waits only for the first; `b""` at the end.

        Raises:
            errors.Error: as `read`.
        """
        amount = -1 if n is None else n
        if self._ended or not amount:
            return self._nothing()
        if self._ahead:
            data = self._take_ahead(amount)
        else:
            data = self._exchange.read1(amount, self._wait.seconds)
            self._taken += len(data)
            if not data:
                self._end()
        self._look_for_end()
        return data

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills the buffer, unless the end comes first, and gives how many bytes it has now.

        Raises:
            errors.IncompleteBody: the connection ended first; `partial` has what arrived.
            errors.Error: as `read`.
        """
        if self._ended:
            return len(self._nothing())
        view = memoryview(buffer).cast("B")
        filled = 0
        if self._ahead:
            data = self._take_ahead(len(view))
            filled = len(data)
            view[:filled] = data
        while filled < len(view):
            try:
                count = self._exchange.readinto(view[filled:], self._wait.seconds)
            except IncompleteBody as error:
                self._complete(error, bytes(view[:filled]))
                raise
            except BaseException:
                self._put_back(bytes(view[:filled]))
                raise
            if not count:
                self._end()
                return filled
            self._taken += count
            filled += count
        self._look_for_end()
        return filled

    def readinto1(self, buffer: Buffer, /) -> int:
        """Fills some of the buffer with what is there; waits only for the first byte."""
        view = memoryview(buffer).cast("B")
        data = self.read1(len(view))
        view[: len(data)] = data
        return len(data)

    def peek(self, n: int = -1, /) -> bytes:  # noqa: ARG002 - at least a byte, whatever is asked
        """Some of what comes next, without taking it; `b""` at the end."""
        if self._ended:
            return self._nothing()
        if not self._ahead:
            self._look_ahead()
        return self._ahead[self._at :]

    def readline(self, limit: int | None = -1, /) -> bytes:
        """Up to and with the next line feed, at most `limit` bytes; `b""` at the end.

        Raises:
            errors.Error: as `read`.
        """
        wanted = -1 if limit is None else limit
        if self._ended:
            return self._nothing()
        parts: list[bytes] = []
        while wanted and not self._ended:
            try:
                if not self._ahead and not self._look_ahead():
                    break
            except BaseException:
                self._put_back(b"".join(parts))
                raise
            newline = self._ahead.find(b"\n", self._at) + 1
            size = newline - self._at if newline else len(self._ahead) - self._at
            if wanted > 0:
                size = min(size, wanted)
                wanted -= size
            part = self._take_ahead(size)
            parts.append(part)
            if part.endswith(b"\n"):
                break
        self._look_for_end()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _look_ahead(self) -> bool:
        """Fetches bytes to look at; False at the end."""
        ahead = self._exchange.read1(_BLOCK, self._wait.seconds)
        self._ahead, self._at = ahead, 0
        self._taken += len(self._ahead)
        if not self._ahead:
            self._end()
        return bool(self._ahead)

    def _take_ahead(self, amount: int = -1) -> bytes:
        stop = len(self._ahead) if amount < 0 else min(self._at + amount, len(self._ahead))
        data = self._ahead[self._at : stop]
        if stop == len(self._ahead):
            self._ahead = b""
            self._at = 0
        else:
            self._at = stop
        return data

    def _put_back(self, data: bytes) -> None:
        """Has it read again: the wait for more was given up."""
        self._ahead, self._at = data + self._ahead[self._at :], 0

    def _look_for_end(self) -> None:
        if (
            not self._ended
            and not self._ahead
            and self._exchange.complete
            and not self._exchange.unread
        ):
            self._end()

    def _nothing(self) -> bytes:
        """What follows the end; an error where content was given up before its end."""
        if self._given_up:
            raise not_read(f"the response to request {self._exchange.stream_id}")
        return b""

    def _leave(self) -> None:
        """Nobody will read what is left, if anything is."""
        exchange = self._exchange
        self._given_up = bool(self._ahead or exchange.unread or not exchange.complete)
        if not exchange.complete:
            exchange.cancel()
        self._ahead = b""
        self._end()

    def _end(self) -> None:
        """The last byte has been read, or nobody will: the next request may take its turn."""
        self._ended = True
        owner = self._owner
        if owner is not None:
            self._owner = None
            owner.advance()
        closing = self._closing
        if closing is not None:
            self._closing = None
            if not closing.outstanding:
                closing.close()

    def is_stalled(self, limit: int) -> bool:
        """Whether content is to come, and `limit` bytes or more wait to be read before it."""
        exchange = self._exchange
        return not self._ended and not exchange.complete and exchange.unread >= limit

    def isclosed(self) -> bool:
        """Whether all of the content has been read, or given up."""
        return self._ended

    def cancel(self) -> None:
        """Gives the rest of the content up: the stream alone, in HTTP/1.1 the connection."""
        if not self._ended:
            self._leave()
