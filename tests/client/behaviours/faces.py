"""The three interfaces of the client, in the same few words."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from client.face import AnyClient, LoopClient, LoopThread
from client.waits import PATIENCE_S
from trilane.client._flow.timeouts import Timeouts
from trilane.client._pool import Client
from trilane.client.errors import Timeout
from trilane.client.http import HTTPConnection

Fields: TypeAlias = Sequence[tuple[str, str]]
FACES = ("blocking", "asyncio", "http.client")


@dataclass(frozen=True)
class Asks:
    """A request. `content` may be a function that makes it anew for each cell."""

    method: str = "GET"
    path: str = ""
    content: Any = None
    fields: tuple[tuple[str, str], ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()
    expects: bool = False
    """Whether the content waits for the server's 100 (Continue)."""
    read_s: float = PATIENCE_S
    """Seconds to wait for the next of the response."""


@dataclass(frozen=True)
class Seen:
    """A response as the caller sees it; names of fields in lower case, several values joined."""

    status: int
    version: str
    reason: str
    fields: dict[str, str]
    content: bytes
    trailers: dict[str, str]
    informational: list[tuple[int, dict[str, str]]]
    request_id: int


class Face(ABC):
    """An interface of the client, speaking one version."""

    takes_asynchronous = False
    """Whether content may come by an asynchronous iterable."""

    def __init__(self, version: str) -> None:
        self.version = version

    @abstractmethod
    def ask(self, url: str, asks: Asks) -> Seen:
        """Send a request, and read all of its response."""

    @abstractmethod
    def begin(self, url: str, asks: Asks) -> AbstractContextManager[Any]:
        """Send a request, and give its response when the head has come: what it does is `read`."""

    @abstractmethod
    def together(self, urls: list[str]) -> list[bytes]:
        """The content of all of them, asked for at once."""

    @abstractmethod
    def close(self) -> None:
        """Close the client, whatever it is at."""

    def content(self, blocks: Callable[[], Iterable[bytes]]) -> Any:
        """Content that comes in blocks, in the way of this interface."""
        return _slowly(blocks()) if self.takes_asynchronous else iter(blocks())


async def _slowly(blocks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for block in blocks:
        await asyncio.sleep(0)
        yield block


class Pooled(Face):
    """A `Client`, or an `AsyncClient` on a loop in a thread of its own."""

    def __init__(self, version: str, client: AnyClient) -> None:
        super().__init__(version)
        self.client = client
        self.takes_asynchronous = isinstance(client, LoopClient)

    def ask(self, url: str, asks: Asks) -> Seen:
        response = self.client.request(
            asks.method,
            url,
            content=asks.content,
            headers=list(asks.fields),
            trailers=list(asks.trailers),
            expect_continue=asks.expects,
            timeout=_limits(asks),
        )
        return Seen(
            response.status,
            response.version,
            response.reason,
            _joined(response.fields),
            response.content,
            _joined(list(response.trailers.items())),
            [(status, _joined(fields)) for status, fields in response.informational],
            response.stream_id,
        )

    def begin(self, url: str, asks: Asks) -> AbstractContextManager[Any]:
        return self.client.stream(
            asks.method,
            url,
            content=asks.content,
            headers=list(asks.fields),
            timeout=_limits(asks),
        )

    def together(self, urls: list[str]) -> list[bytes]:
        with ThreadPoolExecutor(len(urls)) as threads:
            return list(threads.map(lambda url: self.client.get(url).content, urls))

    def close(self) -> None:
        self.client.close(abort=True)


def _limits(asks: Asks) -> Timeouts:
    return Timeouts(PATIENCE_S, asks.read_s, PATIENCE_S, PATIENCE_S)


class Shaped(Face):
    """An `HTTPConnection`, which has one connection at a time."""

    def __init__(self, version: str, base: str, ca: str) -> None:
        super().__init__(version)
        parts = urlsplit(base)
        assert parts.hostname is not None
        self.connection = HTTPConnection(
            parts.hostname,
            parts.port,
            secure=parts.scheme == "https",
            versions=(version,),
            ca=ca,
            timeout=PATIENCE_S,
        )

    def ask(self, url: str, asks: Asks) -> Seen:
        with self.begin(url, asks) as response:
            content = response.read()
            return Seen(
                response.status,
                {11: "h1", 20: "h2", 30: "h3"}[response.version],
                response.reason,
                _joined(response.getheaders()),
                content,
                _joined(response.trailers.items()),
                [(status, _joined(fields.items())) for status, fields in response.informational],
                response.stream_id,
            )

    @contextmanager
    def begin(self, url: str, asks: Asks) -> Iterator[Any]:
        if self.connection.sock is None:
            self.connection.connect()
        self.connection.sock.settimeout(asks.read_s)
        fields = dict(asks.fields)
        if asks.expects:
            fields["Expect"] = "100-continue"
        target = url.removeprefix(urlsplit(url)._replace(path="", query="").geturl())
        ident = self.connection.request(
            asks.method, target, asks.content, fields, trailers=asks.trailers
        )
        try:
            response = self.connection.get_response(ident)
        except Timeout:
            # It could be waited for again: whoever does not, gives it up.
            self.connection.cancel(ident)
            raise
        with response:
            yield response

    def together(self, urls: list[str]) -> list[bytes]:
        ids = [self.connection.request("GET", urlsplit(url).path) for url in urls]
        contents = [self.connection.get_response(ident).read() for ident in reversed(ids)]
        return contents[::-1]

    def close(self) -> None:
        self.connection.close()


def _joined(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in fields:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def make(name: str, version: str, bases: Mapping[str, str], ca: str, loop: LoopThread) -> Face:
    """The interface of that name, for a server."""
    if name == "http.client":
        return Shaped(version, bases[version], ca)
    settings: dict[str, Any] = {"versions": (version,), "verify": ca, "timeout": PATIENCE_S}
    if name == "asyncio":
        return Pooled(version, LoopClient(loop, **settings))
    return Pooled(version, Client(**settings))
