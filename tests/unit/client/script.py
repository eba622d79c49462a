"""Servers that a test writes down, for whole requests of either client without a network."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias
from unittest.mock import Mock, patch
from urllib.parse import urlsplit

from trilane._core import DATA, INFORMATIONAL, WRITABLE
from trilane.client import Client, ConnectionClosed, Error, ReadTimeout
from trilane.client._aio import AsyncClient
from trilane.client._flow.timeouts import Timeouts
from trilane.client.http import HTTPSConnection

from .fake import FakeConnecting, FakeConnection
from .replies import Scripted, Step


class Answer(Scripted):
    """An exchange that is answered at once."""

    token = 0
    upload_open = True

    def __init__(
        self,
        status: int,
        fields: Sequence[tuple[str, str]] = (),
        content: bytes = b"",
        *,
        then: Error | None = None,
        refuses: Error | None = None,
        fails: Error | None = None,
        informational: Sequence[int] = (),
    ) -> None:
        """`then` is why no more content comes, `refuses` why none of the request's is taken.

        `fails` is why there is no response at all.
        """
        steps: list[Step] = [content] if content else []
        super().__init__([*steps, then] if then else steps, fields, lie=then is None)
        self.status = status
        self.informational = [(each, []) for each in informational]
        self.refuses = refuses
        self.fails = fails
        self.written = b""
        """What was taken of the request's content."""
        self._told = 0

    def wait_informational(self, _timeout: float | None) -> int | None:
        self._told += 1
        return next((status for status, _ in self.informational[self._told - 1 :]), None)

    def head(self, _timeout: float | None) -> int:
        if self.fails is not None:
            raise copy.copy(self.fails)
        return self.status

    def watch(self, what: int) -> bool:
        return what != DATA or not self._left or not isinstance(self._left[0], ReadTimeout)

    def write(self, block: Any, _timeout: float | None) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.written += bytes(block)

    def finish(self, _trailers: object, _timeout: float | None) -> None:
        pass


class Silence(Answer):
    """An exchange whose answer waits for the content, and does not come without."""

    def __init__(self) -> None:
        super().__init__(0, fails=ReadTimeout("nothing came"))
        self._over = False

    def watch(self, what: int) -> bool:
        return what in {WRITABLE, INFORMATIONAL} or self._over

    def cancel(self) -> None:
        self._over = True


Outcome: TypeAlias = Answer | Error


class Connection(FakeConnection):
    """A connection whose requests get what the script says, which may be an error of `submit`."""

    capacity = 100
    local = tls_info = proxy_fields = None

    def __init__(self, server: Server, version: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.version = version
        self.arguments = arguments
        self.alive = True
        self._server = server

    def is_alive(self) -> bool:
        return self.alive

    def submit(self, *request: Any, **_: Any) -> Any:
        method, target, fields = request[:3]
        self._server.requests.append((self, method, target, list(fields)))
        step = self._server.steps.pop(0)
        if isinstance(step, Error):
            self.is_closing = isinstance(step, ConnectionClosed)
            raise step
        return step

    def close(self) -> None:
        if not self.closed:
            super().close()


class Server:
    """What the connections of a client are answered, one request after the other."""

    def __init__(self, *steps: Outcome, version: str = "h2") -> None:
        self.steps = list(steps)
        self.version = version
        self.connections: list[Connection] = []
        self.requests: list[tuple[Connection, str, str, list[Any]]] = []

    def connect(self, host: str, port: int, *, wait: bool = True, **arguments: Any) -> Any:
        version = "h3" if "h3" in arguments["versions"] else self.version
        arguments |= {"host": host, "port": port}
        self.connections.append(Connection(self, version, arguments))
        connection = self.connections[-1]
        return connection if wait else FakeConnecting(connection)


class Blocking:
    """A `Client` of a server."""

    def __init__(self, **settings: Any) -> None:
        self.client = Client(proxies=None, verify=False, **settings)

    def request(self, *arguments: Any, **options: Any) -> Any:
        return self.client.request(*arguments, **options)

    def close(self) -> None:
        self.client.close(abort=True)


class Asyncio:
    """An `AsyncClient` of a server, and its loop."""

    def __init__(self, **settings: Any) -> None:
        self.client = AsyncClient(proxies=None, verify=False, **settings)
        self._loop = asyncio.new_event_loop()

    def request(self, *arguments: Any, **options: Any) -> Any:
        return self._loop.run_until_complete(self.client.request(*arguments, **options))

    def close(self) -> None:
        self._loop.run_until_complete(self.client.aclose())
        self._loop.close()


class Shape:
    """An `HTTPSConnection` of a server, in the words of a `Client`."""

    def __init__(self) -> None:
        self._connection = HTTPSConnection("example.org")

    def request(
        self,
        method: str,
        url: str,
        *,
        content: bytes | Iterable[bytes] | None = None,
        expect_continue: bool = False,
        timeout: Timeouts | None = None,
    ) -> Any:
        if timeout is not None:
            self._connection.timeout = timeout.read
        headers = {"expect": "100-continue"} if expect_continue else {}
        self._connection.request(method, urlsplit(url).path, content, headers)
        response = self._connection.getresponse()
        # The content is read once in this shape.
        return Mock(status=response.status, content=response.read())

    def close(self) -> None:
        self._connection.close()


CLIENTS: dict[str, Any] = {"blocking": Blocking, "asyncio": Asyncio}
FACES: dict[str, Any] = {**CLIENTS, "http.client": Shape}


@contextmanager
def client_of(kind: str, server: Server, **settings: Any) -> Iterator[Any]:
    """A client of the kind whose connections all go to the server."""
    with (
        patch("trilane.client._pool.leasing.connect", server.connect),
        patch("trilane.client._aio.connecting.connect", server.connect),
        patch("trilane._core.connect", server.connect),
    ):
        client = FACES[kind](**settings)
        try:
            yield client
        finally:
            client.close()
