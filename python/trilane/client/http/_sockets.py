"""HTTP over a socket that Python holds: the native codec without its own input and output.

Code written for `http.client` sets `HTTPConnection.sock` to a socket of its own making (a Unix
socket, one that a SOCKS library opened, one that `ssl` wrapped, a fake one in a test), or hands a
socket to `HTTPResponse`. Such a socket needs `sendall` and `makefile` and nothing else. HTTP/1.1 is
read so that never a byte is taken of what follows a message: the socket may be handed on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from trilane import _core
from trilane.client._flow.request import Field
from trilane.client.errors import IncompleteBody, ProxyError

_LINE = 1 << 16
_BLOCK = 1 << 16


class SocketLike(Protocol):
    """What a socket must have, at the least."""

    def sendall(self, data: bytes, /) -> object:
        """Sends all of it or raises OSError."""

    @property
    def makefile(self) -> Callable[..., Any]:
        """Makes, given the mode `rb`, a file that reads from the socket."""

    def close(self) -> object:
        """Lets go of it."""


class SocketConnection:
    """One connection over a socket of Python's, with the methods of `_core.Connection`."""

    def __init__(
        self,
        sock: SocketLike,
        *,
        authority: str = "localhost",
        scheme: str = "http",
        version: str = "h1",
    ) -> None:
        self.sock = sock
        self.version = version
        self.codec = _core.Connection.memory(version, authority=authority, scheme=scheme)
        self.proxy_fields: list[tuple[str, str]] | None = None
        """Of the answer by which a proxy made the tunnel; whoever asked it sets them."""
        self._file: Any = None
        self._running: list[SocketExchange] = []
        self._closed = False

    @property
    def file(self) -> Any:
        """The file that reads from the socket, made when the first byte is wanted."""
        if self._file is None:
            self._file = self.sock.makefile("rb")
        return self._file

    @file.setter
    def file(self, file: Any) -> None:
        self._file = file

    @property
    def capacity(self) -> int:
        """How many requests `submit` takes now."""
        return self.codec.capacity

    @property
    def outstanding(self) -> int:
        """How many responses are still to come, or to come to their end."""
        return sum(not one.native.watch(_core.END) for one in self._running)

    @property
    def is_closing(self) -> bool:
        """Whether it takes no more requests, now or later."""
        return self._closed or self.codec.is_closing

    def is_alive(self) -> bool:
        """Whether it can still be used, as far as is known: the socket is not looked at."""
        return not self.is_closing

    def submit(
        self,
        method: str,
        target: str,
        fields: Sequence[Field],
        body: bytes | None = None,
        *,
        authority: str | None = None,
        streaming: bool = False,
        length: int | None = None,
        raw: bool = False,
    ) -> SocketExchange:
        """Sends a request; see `_core.Connection.submit`."""
        exchange = SocketExchange(
            self,
            method,
            self.codec.submit(
                method,
                target,
                fields,
                body,
                authority=authority,
                streaming=streaming,
                length=length,
                raw=raw,
            ),
        )
        self._running = [one for one in self._running if not one.native.watch(_core.END)]
        self._running.append(exchange)
        exchange.send_output()
        return exchange

    def send_output(self) -> None:
        """Writes what the codec has made."""
        if output := self.codec.output():
            self.sock.sendall(output)

    def pump(self, exchange: SocketExchange, most: int = _BLOCK) -> None:
        """Reads once, as far as bytes of this response can be: at most `most` of its content."""
        self.send_output()
        data = self._read_h1(exchange, most) if self.version == "h1" else self._receive()
        if data:
            self.codec.receive(data)
        else:
            self.codec.eof()
        self.send_output()

    def _read_h1(self, exchange: SocketExchange, most: int) -> bytes:
        file = self.file
        left = exchange.left()
        if left is None:
            # The head, and chunked content with its trailers, end in a line feed: reading by lines
            # takes nothing of what follows.
            return bytes(file.readline(_LINE + 1))
        size = min(left, most, _BLOCK)
        data = bytes(file.read1(size) if hasattr(file, "read1") else file.read(size))
        exchange.fed += len(data)
        return data

    def _receive(self) -> bytes:
        receive = getattr(self.sock, "recv", None)
        return bytes(receive(_BLOCK) if receive is not None else self.file.read1(_BLOCK))

    def make_room(self, _timeout: float | None) -> bool:
        """Reads until one more request fits; False when nothing that is wanted can be read."""
        while not self.capacity and not self.is_closing:
            waiting = [
                one for one in self._running if not one.complete and one.native.unread < 4 * _BLOCK
            ]
            if not waiting:
                return False
            self.pump(waiting[0])
        return True

    def tunnel(
        self, host: str, port: int, fields: Sequence[Field]
    ) -> tuple[int, str, list[tuple[str, str]]]:
        """Asks the proxy at the other end for a tunnel (RFC 9110 §9.3.6) and gives its answer.

        Afterwards this connection is spent: make another one on the same socket.

        Raises:
            ProxyError: an OSError; any answer but a 2xx.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        exchange = self.submit("CONNECT", address, fields, authority=address)
        status = exchange.head()
        if not 200 <= status <= 299:
            exchange.cancel()
            msg = f"Tunnel connection failed: {status} {exchange.reason}"
            raise ProxyError(msg, error_code=status)
        return status, exchange.reason, exchange.fields()

    def close(self) -> None:
        """Lets go of the socket. A response that somebody has, and is reading, keeps its file."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(OSError):
                self.send_output()
            self.sock.close()
        if not any(one.began and not one.native.watch(_core.END) for one in self._running):
            self.close_file()

    def close_file(self) -> None:
        """Lets go of the file, too: nothing can be read after this."""
        if self._file is not None:
            self._file.close()


class SocketExchange:
    """One request and its response, with the methods of `_core.Exchange` that block.

    The socket's own timeout counts for each of its calls; `timeout` is for waits between them.
    """

    def __init__(self, connection: SocketConnection, method: str, native: _core.Exchange) -> None:
        self.connection = connection
        self.native = native
        self.method = method
        self.fed = 0
        """Bytes of content that were given to the codec, where they are counted."""
        self.began = False
        """Whether somebody was given its head."""
        self._content: bool | None = None
        self._broken = False
        self._seen = 0

    def __getattr__(self, name: str) -> Any:
        """What is the same without a socket."""
        return getattr(self.native, name)

    @property
    def upload_open(self) -> bool:
        """Whether the peer still takes content."""
        return not self._broken and self.native.upload_open

    def left(self) -> int | None:
        """How many bytes of content may be read at once; None while only lines may be."""
        if self._content is None:
            if not self.native.watch(_core.HEAD):
                return None
            # Whether it is bytes as they are, and not in chunks.
            names = (name.lower() for name, _ in self.native.fields())
            self._content = "transfer-encoding" not in names
        if not self._content:
            return None
        length = self.native.content_length
        return _BLOCK if length is None else length - self.fed

    def head(self, timeout: float | None = None) -> int:  # noqa: ARG002 - the socket's holds
        """Waits for the final response head and gives the status."""
        while not self.native.watch(_core.HEAD):
            self.connection.pump(self)
        status = self.native.head(0)
        self.began = True
        return status

    def wait_informational(self, timeout: float | None = None) -> int | None:
        """The next 1xx status, or None when the final head is there."""
        sock: Any = self.connection.sock
        deadline = None if timeout is None else time.monotonic() + timeout
        while len(self.native.informational) <= self._seen and not self.native.watch(_core.HEAD):
            if deadline is None or not hasattr(sock, "settimeout"):
                self.connection.pump(self)
                continue
            before = sock.gettimeout()
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                self.connection.pump(self)
            finally:
                sock.settimeout(before)
        self._seen += 1
        return self.native.wait_informational(0)

    def read1(self, amount: int = -1, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """What is there; waits only for the first byte; `b""` at the end."""
        while not self.native.watch(_core.DATA):
            self.connection.pump(self, amount if amount > 0 else _BLOCK)
        return self.native.read1(amount, 0)

    def read(self, amount: int = -1, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """Up to `amount` bytes, fewer only at the end; -1: all that follows."""
        if amount < 0:
            while not self.native.watch(_core.END):
                self.connection.pump(self)
            return self.native.read(-1, 0)
        blocks: list[bytes] = []
        while amount:
            try:
                block = self.read1(amount)
            except IncompleteBody:
                if blocks:
                    # What came before the error is given before it.
                    break
                raise
            if not block:
                break
            blocks.append(block)
            amount -= len(block)
        return b"".join(blocks)

    def readinto(
        self,
        buffer: bytearray | memoryview,
        timeout: float | None = None,  # noqa: ARG002
    ) -> int:
        """Fills some of the buffer with what is there."""
        block = self.read1(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def send_output(self) -> None:
        """Writes what the codec has made. A peer that reads no more may have answered already."""
        if self._broken:
            return
        try:
            self.connection.send_output()
        except (BrokenPipeError, ConnectionResetError):
            self._broken = True

    def write(self, data: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Sends content; in HTTP/2 it waits for the peer's window."""
        while self.upload_open and not self.native.watch(_core.WRITABLE):
            self.connection.pump(self)
        if self.upload_open:
            self.native.write(data, 0)
            self.send_output()

    def finish(
        self,
        trailers: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,  # noqa: ARG002
    ) -> None:
        """Ends the content of the request."""
        if self.upload_open:
            self.native.finish(trailers, 0)
            self.send_output()

    def cancel(self) -> None:
        """Gives the response up; in HTTP/1.1 the connection with it."""
        if self.complete:
            return
        self.native.cancel()
        with contextlib.suppress(OSError):
            self.connection.send_output()
        if self.connection.version == "h1":
            self.connection.close()
            self.connection.close_file()


def response_on(sock: SocketLike, method: str | None) -> SocketExchange:
    """A response that arrives on `sock`, wherever its request was sent from."""
    connection = SocketConnection(_Silent(sock))
    return connection.submit(method or "GET", "*" if method == "OPTIONS" else "/", ())


class _Silent:
    """A socket that is read but not written to, and that is somebody else's to close."""

    def __init__(self, sock: SocketLike) -> None:
        self._sock = sock

    def sendall(self, data: bytes) -> None:
        """Nothing: the request was sent by somebody else."""

    def makefile(self, mode: str) -> Any:
        return self._sock.makefile(mode)

    def close(self) -> None:
        """Nothing: the file is closed, the socket is not ours."""
