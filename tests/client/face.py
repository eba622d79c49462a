"""One face for both clients, so that a test of what they do asks either in the same words.

`LoopClient` is an `AsyncClient` on a loop in a thread of its own, with the methods of `Client`:
each submits a coroutine and waits for it. So any number of threads may ask it, as with a `Client`.
What only one of them has is tested apart: `aio` for asyncio, `pool/test_blocking.py` for threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from trilane.client._aio import AsyncClient, AsyncResponse
from trilane.client._aio.events import AsyncEventStream
from trilane.client._aio.websocket import AsyncWebSocket
from trilane.client._flow.events import Event
from trilane.client._flow.watching import Timings, Traffic
from trilane.client._pool import Client
from trilane.client._pool.response import Response
from trilane.client.fields import Headers

Result = TypeVar("Result")


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.unexpected: list[dict[str, Any]] = []
        """What the loop had to report: exceptions that nobody was told of."""
        self.loop.set_exception_handler(lambda _, context: self.unexpected.append(context))
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """What the coroutine gives, or raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call it in the loop's thread."""

        async def calling() -> Result:
            return function(*arguments)

        return self.run(calling())

    def iterate(self, items: AsyncIterator[Result]) -> Iterator[Result]:
        """What the asynchronous iterator gives."""

        async def following() -> tuple[Result, ...]:
            try:
                return (await anext(items),)
            except StopAsyncIteration:
                return ()

        while found := self.run(following()):
            yield found[0]

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class LoopResponse:
    """An `AsyncResponse` with the methods of `Response`."""

    def __init__(self, thread: LoopThread, response: AsyncResponse) -> None:
        self._thread = thread
        self.asynchronous = response
        self.status = response.status
        self.method = response.method
        self.url = response.url
        self.version = response.version
        self.stream_id = response.stream_id

    @property
    def reason(self) -> str:
        return self.asynchronous.reason

    @property
    def fields(self) -> list[tuple[str, str]]:
        return self.asynchronous.fields

    @property
    def headers(self) -> Headers:
        return self.asynchronous.headers

    @property
    def trailers(self) -> Headers:
        return self.asynchronous.trailers

    @property
    def informational(self) -> list[tuple[int, list[tuple[str, str]]]]:
        return self.asynchronous.informational

    @property
    def peer(self) -> tuple[str, int] | None:
        return self.asynchronous.peer

    @property
    def local(self) -> tuple[str, int] | None:
        return self.asynchronous.local

    @property
    def tls_info(self) -> dict[str, Any] | None:
        return self.asynchronous.tls_info

    @property
    def timings(self) -> Timings | None:
        return self.asynchronous.timings

    @property
    def traffic(self) -> Traffic | None:
        return self.asynchronous.traffic

    @property
    def is_success(self) -> bool:
        return self.asynchronous.is_success

    @property
    def is_closed(self) -> bool:
        return self.asynchronous.is_closed

    @property
    def charset(self) -> str:
        return self.asynchronous.charset

    @property
    def content(self) -> bytes:
        return self._thread.run(self.asynchronous.aread())

    @property
    def text(self) -> str:
        return self.asynchronous.text

    def json(self) -> Any:
        return self.asynchronous.json()

    def read(self, amount: int = -1) -> bytes:
        return self._thread.run(self.asynchronous.read(amount))

    def read1(self, amount: int = -1) -> bytes:
        return self._thread.run(self.asynchronous.read1(amount))

    def iter_bytes(self, size: int | None = None) -> Iterator[bytes]:
        return self._iterate(self.asynchronous.aiter_bytes(size))

    def iter_raw(self, size: int = 65_536) -> Iterator[bytes]:
        return self._iterate(self.asynchronous.aiter_raw(size))

    def iter_lines(self) -> Iterator[str]:
        return self._iterate(self.asynchronous.aiter_lines())

    def iter_json_lines(self) -> Iterator[Any]:
        return self._iterate(self.asynchronous.aiter_json_lines())

    def iter_events(self) -> Iterator[Event]:
        return self._iterate(self.asynchronous.aiter_events())

    def __iter__(self) -> Iterator[bytes]:
        return self._iterate(aiter(self.asynchronous))

    def raise_for_status(self) -> Self:
        self.asynchronous.raise_for_status()
        return self

    def __getattr__(self, name: str) -> Any:
        """What does not wait is the same for both."""
        return getattr(self.asynchronous, name)

    def close(self) -> None:
        self._thread.run(self.asynchronous.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self.asynchronous)

    def _iterate(self, items: AsyncIterator[Result]) -> Iterator[Result]:
        return self._thread.iterate(items)


class LoopEvents:
    """An `AsyncEventStream` with the methods of `EventStream`."""

    def __init__(self, thread: LoopThread, stream: AsyncEventStream) -> None:
        self._thread = thread
        self.asynchronous = stream
        self._events = thread.iterate(stream)

    @property
    def last_event_id(self) -> str:
        return self.asynchronous.last_event_id

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        self._thread.run(self.asynchronous.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LoopSocket:
    """An `AsyncWebSocket` with the methods of `WebSocket`, for any number of threads."""

    def __init__(self, thread: LoopThread, socket: AsyncWebSocket) -> None:
        self._thread = thread
        self.asynchronous = socket

    def __getattr__(self, name: str) -> Any:
        return getattr(self.asynchronous, name)

    def send(self, message: Any) -> None:
        self._thread.run(self.asynchronous.send(message))

    def ping(self, data: bytes = b"") -> None:
        self._thread.run(self.asynchronous.ping(data))

    def recv(self, timeout: float | None = None) -> str | bytes:
        return self._thread.run(self.asynchronous.recv(timeout))

    def __iter__(self) -> Iterator[str | bytes]:
        return self._thread.iterate(aiter(self.asynchronous))

    def close(self, code: int = 1000, reason: str = "") -> None:
        self._thread.run(self.asynchronous.close(code, reason))


class LoopClient:
    """An `AsyncClient` with the methods of `Client`."""

    def __init__(self, thread: LoopThread, **settings: Any) -> None:
        self.thread = thread
        self.asynchronous = AsyncClient(**settings)

    def request(self, method: str, url: str, **options: Any) -> LoopResponse:
        return self._wait(self.asynchronous.request(method, url, **options))

    def send(self, method: str, url: str, *arguments: Any, **options: Any) -> LoopResponse:
        return self._wait(self.asynchronous.send(method, url, *arguments, **options))

    @contextmanager
    def stream(self, method: str, url: str, **options: Any) -> Iterator[LoopResponse]:
        context = self.asynchronous.stream(method, url, **options)
        response = self.thread.run(_entered(context))
        caught: BaseException | None = None
        try:
            yield LoopResponse(self.thread, response)
        except BaseException as error:
            caught = error
            raise
        finally:
            kind = None if caught is None else type(caught)
            trace = None if caught is None else caught.__traceback__
            self.thread.run(_left(context, kind, caught, trace))

    def events(self, url: str, **options: Any) -> LoopEvents:
        return LoopEvents(self.thread, self.asynchronous.events(url, **options))

    @contextmanager
    def websocket(self, url: str, **options: Any) -> Iterator[LoopSocket]:
        context = self.asynchronous.websocket(url, **options)
        socket = self.thread.run(_entered(context))
        caught: BaseException | None = None
        try:
            yield LoopSocket(self.thread, socket)
        except BaseException as error:
            caught = error
            raise
        finally:
            kind = None if caught is None else type(caught)
            trace = None if caught is None else caught.__traceback__
            self.thread.run(_left(context, kind, caught, trace))

    def get(self, url: str, **options: Any) -> LoopResponse:
        return self._wait(self.asynchronous.get(url, **options))

    def head(self, url: str, **options: Any) -> LoopResponse:
        return self._wait(self.asynchronous.head(url, **options))

    def options(self, url: str, **options: Any) -> LoopResponse:
        return self._wait(self.asynchronous.options(url, **options))

    def delete(self, url: str, **options: Any) -> LoopResponse:
        return self._wait(self.asynchronous.delete(url, **options))

    def post(self, url: str, content: Any = None, **options: Any) -> LoopResponse:
        return self._wait(self.asynchronous.post(url, content, **options))

    def put(self, url: str, content: Any = None, **options: Any) -> LoopResponse:
        return self._wait(self.asynchronous.put(url, content, **options))

    def patch(self, url: str, content: Any = None, **options: Any) -> LoopResponse:
        return self._wait(self.asynchronous.patch(url, content, **options))

    def __getattr__(self, name: str) -> Any:
        """The settings are the same for both."""
        return getattr(self.asynchronous, name)

    @property
    def connections(self) -> list[tuple[str, str]]:
        return self.thread.call(lambda: self.asynchronous.connections)

    def network_changed(self) -> None:
        self.thread.call(self.asynchronous.network_changed)

    def close(self, *, abort: bool = True) -> None:
        """It always aborts: what is under way belongs to tasks, which can be awaited before."""
        assert abort
        self.thread.run(self.asynchronous.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _wait(self, coroutine: Coroutine[Any, Any, AsyncResponse]) -> LoopResponse:
        return LoopResponse(self.thread, self.thread.run(coroutine))


async def _entered(context: Any) -> Any:
    return await context.__aenter__()


async def _left(context: Any, *caught: Any) -> None:
    await context.__aexit__(*caught)


AnyClient: TypeAlias = Client | LoopClient
AnyResponse: TypeAlias = Response | LoopResponse
MakeClient: TypeAlias = Callable[..., AnyClient]
Each: TypeAlias = tuple[AnyClient, str, str]
"""A client, the version that it alone speaks, and the base URL of a server for that."""
