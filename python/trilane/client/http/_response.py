"""The response, in the shape of `http.client.HTTPResponse`, over HTTP/1.1, HTTP/2 and HTTP/3."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from http.client import HTTPMessage, ResponseNotReady
from sys import is_finalizing
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from trilane._core import Exchange as NativeExchange
from trilane.client._flow.whole import WITHOUT_CONTENT
from trilane.client.http._content import ContentFile, Wait

if TYPE_CHECKING:
    from trilane._core import Connection, Exchange
    from trilane.client.http._pipeline import Pipeline
    from trilane.client.http._sockets import SocketConnection, SocketExchange, SocketLike

T = TypeVar("T")

VERSIONS: Final = {"h1.0": 10, "h1": 11, "h2": 20, "h3": 30}
VERSION_NAMES: Final = {"h1.0": "HTTP/1.0", "h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"}


def message(fields: list[tuple[str, str]]) -> HTTPMessage:
    """A case-insensitive, multi-valued view of `fields`, which it takes as its own.

    The parser of `email` is left out: the fields have been parsed and checked, and it costs more
    than the rest of a response.
    """
    made = HTTPMessage()
    made._headers = fields  # type: ignore[attr-defined] # noqa: SLF001 - as email.message.Message does
    return made


class HTTPResponse(ContentFile):
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
    _headers: HTTPMessage | None = None
    _msg: Any = None
    _begun = False

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
        """Tells the request it answers, what to call when it has been read, and its status.

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

    def _read_status(self) -> tuple[int, int, str]:
        """Version, status and reason; the fields are lines of `fp` then.

        urllib3 asks for these where it repairs tunnels through proxies of older Pythons.
        """
        self.begin()
        lines = (f"{name}: {value}\r\n" for name, value in self._exchange.fields())
        self.fp = io.BytesIO("".join((*lines, "\r\n")).encode("latin-1"))
        return self.version, self.status, self.reason

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

    def __repr__(self) -> str:
        status = f"{self.status} {self.reason}".rstrip() if self._begun else "not begun"
        return f"<{type(self).__name__} {self._method or 'of a socket'}, {status}>"

    # As a file

    @property
    def fp(self) -> Any:
        """None when all has been read; else the file that a socket of Python's is read by.

        Raises:
            AttributeError: the response of a connection came in chunks, which nobody else may take
                from that file. Who asks whether there is one, as urllib3 does, calls `read` then.
        """
        if not self._own and self.chunked:
            raise AttributeError("fp: chunks are read by the response itself")
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
