"""The response, in the shape of `http.client.HTTPResponse`, over HTTP/1.1, HTTP/2 and HTTP/3."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from http.client import HTTPMessage, ResponseNotReady
from sys import is_finalizing
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from trilane._core import Exchange as NativeExchange
from trilane.client._flow.whole import WITHOUT_CONTENT, not_read
from trilane.client.errors import IncompleteBody
from trilane.client.http._message import message

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from trilane._core import Connection, Exchange
    from trilane.client.http._pipeline import Pipeline
    from trilane.client.http._sockets import SocketConnection, SocketExchange, SocketLike

T = TypeVar("T")

VERSIONS: Final = {"h1.0": 10, "h1": 11, "h2": 20, "h3": 30}
_BLOCK: Final = 1 << 16
_LARGE: Final = 1 << 20


class Wait:
    """How long one wait of a connection and its responses may last, in seconds."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds


class HTTPResponse(io.BufferedIOBase):
    """One response: status, fields, and the content as a file.

    Made by `HTTPConnection.get_response`, or from any socket-like object as `http.client` allows:
    then `begin` reads the head. Content is given as it was sent, not decoded.
    """

    status: int
    code: int
    url: str | None = None
    debuglevel = 0

    # Defaults here and not in __init__: most responses change few of them.
    _own = False
    _wait = Wait(None)
    _owner: Pipeline | None = None
    _headers: HTTPMessage | None = None
    _msg: Any = None
    _closing: Connection | SocketConnection | None = None
    _begun = False
    _ended = False
    _given_up = False
    _ahead = b""
    _at = 0
    _taken = 0

    def __init__(
        self,
        sock: Exchange | SocketExchange | SocketLike,
        debuglevel: int = 0,
        method: str | None = None,
        url: str | None = None,
    ) -> None:
        if type(sock) is not NativeExchange and hasattr(sock, "makefile"):
            from trilane.client.http._sockets import response_on  # noqa: PLC0415 - only for sockets

            self._exchange = cast("Exchange", response_on(cast("SocketLike", sock), method))
            self._own = True
        else:
            self._exchange = cast("Exchange", sock)
        if debuglevel:
            self.debuglevel = debuglevel
        if url is not None:
            self.url = url
        self._method = method

    def attach(
        self,
        owner: Pipeline,
        wait: Wait,
        status: int,
        closing: Connection | SocketConnection | None,
    ) -> None:
        """Tells whose response it is, who wants to know when it has been read, and its status.

        `closing` is its connection, where that takes no more requests and ends with this one.
        """
        self._owner = owner
        self._wait = wait
        self._closing = closing
        self.code = self.status = status
        self._begun = self.debuglevel <= 0

    def begin(self) -> None:
        """Waits for the head. Called again it does nothing.

        Raises:
            errors.RemoteError: the connection was lost or the head is not HTTP.
            errors.ReadTimeout: nothing came in time; it may be called again.

        """
        if self._begun:
            return
        self.code = self.status = self._exchange.head(self._wait.seconds)
        self._begun = True
        if self.debuglevel > 0:
            self._print_head()

    def _print_head(self) -> None:
        if self.version <= 11:
            line = f"HTTP/{self.version / 10} {self.status} {self.reason}".rstrip()
            print("reply:", repr(line + "\r\n"))
        else:
            print("reply:", repr(f"HTTP/{self.version // 10} {self.status}"))
        for name, value in self._exchange.fields():
            print("header:", name + ":", value)

    # The head

    @property
    def version(self) -> int:
        """10, 11, 20 or 30."""
        return VERSIONS[self._exchange.version]

    @property
    def headers(self) -> HTTPMessage:
        """The fields: case-insensitive, several of a name apart by `get_all`."""
        if self._headers is None:
            if not self._begun:
                # What http.client gives; its type is not a promise worth a check by every caller.
                return cast("HTTPMessage", None)
            self._headers = message(self._exchange.fields())
        return self._headers

    @headers.setter
    def headers(self, headers: HTTPMessage) -> None:
        self._headers = headers

    @property
    def msg(self) -> Any:
        """The same as `headers`, unless it was set: `urllib.request` puts the reason there."""
        return self.headers if self._msg is None else self._msg

    @msg.setter
    def msg(self, msg: Any) -> None:
        self._msg = msg

    @property
    def reason(self) -> str:
        """The phrase of the status line; empty in HTTP/2 and HTTP/3, which have none."""
        return self._exchange.reason if self._begun else ""

    @property
    def informational(self) -> list[tuple[int, HTTPMessage]]:
        """The 1xx responses that came before this one, with their fields."""
        return [(status, message(fields)) for status, fields in self._exchange.informational]

    @property
    def trailers(self) -> HTTPMessage:
        """The fields after the content; empty until it has arrived to its end."""
        return message(self._exchange.trailers())

    @property
    def stream_id(self) -> int:
        """The id on the wire; for HTTP/1.1 a number from 1."""
        return self._exchange.stream_id

    @property
    def length(self) -> int | None:
        """Bytes of content still to be read, or None where that is not known."""
        if self._ended or self._has_no_content():
            return 0
        whole = self._exchange.content_length
        return None if whole is None else whole - self._taken + len(self._ahead) - self._at

    @property
    def chunked(self) -> bool:
        """Whether the content came in chunks (HTTP/1.1)."""
        return "chunked" in (self.getheader("transfer-encoding") or "").lower()

    @property
    def will_close(self) -> bool:
        """Whether the connection ends with this response (HTTP/1)."""
        options = (self.getheader("connection") or "").lower()
        if self.version >= 20:
            return False
        if "close" in options or (self.version == 10 and "keep-alive" not in options):
            return True
        return not self._has_no_content() and self.length is None and not self.chunked

    def _has_no_content(self) -> bool:
        return self._method == "HEAD" or (self._begun and self.status in WITHOUT_CONTENT)

    def getheader(self, name: str, default: T | None = None) -> str | T | None:
        """The values of a field joined by `, `, or `default`.

        Raises:
            ResponseNotReady: `begin` has not been called.

        """
        if self.headers is None:
            raise ResponseNotReady
        values: Any = self.headers.get_all(name) or default
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            return cast("str | T | None", values)
        return ", ".join(cast("Iterable[str]", values))

    def getheaders(self) -> list[tuple[str, str]]:
        """The fields as they came.

        Raises:
            ResponseNotReady: `begin` has not been called.

        """
        if self.headers is None:
            raise ResponseNotReady
        return list(self.headers.items())

    def info(self) -> HTTPMessage:
        """The same as `headers`."""
        return self.headers

    def geturl(self) -> str | None:
        """The URL, where `urllib.request` has set it."""
        return self.url

    def getcode(self) -> int:
        """The same as `status`."""
        return self.status

    # The content

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
        """What follows the end; an error where content was given up, which is no end."""
        if self._given_up:
            raise not_read(f"the response to request {self.stream_id}")
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

    # As a file

    def __iter__(self) -> HTTPResponse:
        return self

    def readable(self) -> bool:
        """True."""
        return True

    @property
    def fp(self) -> Any:
        """None when all has been read; else the file that a socket of Python's is read by."""
        if self._ended:
            return None
        connection = getattr(self._exchange, "connection", None)
        return self if connection is None else connection.file

    @fp.setter
    def fp(self, file: Any) -> None:
        cast("SocketExchange", self._exchange).connection.file = file

    def fileno(self) -> int:
        """The descriptor of the connection, of use after a CONNECT over plain HTTP/1.1.

        Raises:
            io.UnsupportedOperation: the response has been read to its end or closed.

        """
        connection = getattr(self._exchange, "connection", None)
        if connection is not None:
            return int(connection.file.fileno())
        if self._closing is not None:
            return int(cast("Connection", self._closing).fileno())
        if self._owner is None:
            msg = "the response has been read or closed: it has no descriptor any more"
            raise io.UnsupportedOperation(msg)
        return self._owner.fileno()

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

    def __del__(self, is_finalizing: Callable[[], bool] = is_finalizing) -> None:
        # In place of that of io, which closes every file once more, and costs more than a response.
        # And not in an interpreter that ends: a daemon thread may have ended with the lock.
        if (not self._ended or self._own) and not is_finalizing():
            self.close()

    def close(self) -> None:
        """Lets go; content that is still to come is given up as `cancel` does. Idempotent."""
        super().close()
        exchange = getattr(self, "_exchange", None)
        if exchange is None:
            return
        if not self._ended:
            self._leave()
        if self._own:
            cast("SocketExchange", exchange).connection.close_file()
