"""What `AsyncClient` has for long streams: server-sent events and WebSockets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from trilane.client._flow.client import BaseClient
from trilane.client._flow.request import Field, Fields
from trilane.client._flow.timeouts import TimeoutGiven

from .driving import Ask, send_timed
from .pool import Pool
from .response import AsyncResponse
from .uploading import AsyncContent

if TYPE_CHECKING:
    from .events import AsyncEventStream
    from .websocket import AsyncWebSocket


class Streams(
    BaseClient[
        Coroutine[Any, Any, AsyncResponse],
        AbstractAsyncContextManager[AsyncResponse],
        AsyncContent,
    ]
):
    """Streams over the pool of a client."""

    _http_1: Pool | None = None
    """For WebSockets of servers that take none in the other versions."""

    @abstractmethod
    def _pool_here(self) -> Pool:
        """The connections, which live on one loop."""

    @abstractmethod
    async def _answered(
        self,
        method: str,
        url: str,
        options: Mapping[str, Any],
        *,
        whole: bool,
        ask: Ask = send_timed,
    ) -> AsyncResponse:
        """The response to a request, and what it leads to; each is sent by `ask`."""

    def events(
        self,
        url: str,
        *,
        method: str = "GET",
        content: AsyncContent = None,
        headers: Fields | None = None,
        reconnect: bool | None = None,
        **options: Any,
    ) -> AsyncEventStream:
        """Server-sent events (the event stream of the HTML standard), as they come.

        An asynchronous iterator, and a context that ends it. Nothing is sent before the first event
        is asked for. When the stream ends, or its connection is lost, it is asked for again after
        the time that the server says (3 seconds where it says none, 60 at most), with
        `Last-Event-ID`; after that more and more rarely, and ten times in a row. Status 204 ends
        it. The read timeout is how long the stream may be silent.

        method, content: for servers that answer a POST with events, as those of language models do.
        reconnect: whether it is asked for again. By default a GET without content is, and nothing
            else: a request with content may do something.
        options: as of `stream`: `json`, `timeout` and others.

        Raises:
            StreamRefused: the answer is no stream of events: another status or content-type.
            LimitExceeded: an event is longer than `max_content`.
            ValueError: content is to be sent again that can be sent once only.
            Error, TypeError: as `stream`.
        """
        from trilane.client._flow.events import (  # noqa: PLC0415 - for those who ask
            Subscription,
            has_content,
        )

        from .events import AsyncEventStream  # noqa: PLC0415

        subscription = Subscription(
            url,
            headers,
            reconnect=reconnect,
            is_plain=method == "GET" and content is None and not has_content(options),
            content=content if options.get("files") is None else options["files"],
        )

        def ask(fields: list[Field]) -> AbstractAsyncContextManager[AsyncResponse]:
            return self.stream(method, url, headers=fields, content=content, **options)

        async def sleep(seconds: float) -> None:
            await self._pool_here().sleep(seconds)

        return AsyncEventStream(subscription, ask, sleep)

    @asynccontextmanager
    async def websocket(
        self,
        url: str,
        *,
        subprotocols: Sequence[str] = (),
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,  # noqa: ASYNC109 - as `Client`
        compression: bool = True,
        max_size: int | None = 16 * 1024 * 1024,
        ping_interval: float | None = 20.0,
    ) -> AsyncIterator[AsyncWebSocket]:
        """A context with a WebSocket (RFC 6455), which is closed with it.

        It is opened on a connection of the client: by Upgrade in HTTP/1.1, and on a stream beside
        others in HTTP/2 (RFC 8441) and HTTP/3 (RFC 9220). Where a server takes none there, it gets
        a connection of HTTP/1.1. It needs the library `websockets`: `trilane[websocket]`.

        url: of `wss` or `ws`; `https` and `http` mean the same. What the client has for
            each request applies: base_url, headers, cookies, auth and params.
        subprotocols: names that the server may choose from, the preferred first.
        timeout: as of `request`; `read` is for the handshake alone, `write` for each message.
        compression: whether permessage-deflate is offered (RFC 7692).
        max_size: bytes that a message may have, decompressed; None: any amount. A larger one ends
            the WebSocket with code 1009.
        ping_interval: seconds of silence after which a task that receives sends a Ping, and after
            as many again gives up; None: never.

        Raises:
            StreamRefused: the server opens no WebSocket; `content` has what it said.
            VersionUnavailable: it takes none in the versions that the client may speak.
            ImportError: the library is missing.
            Error: any of `trilane.client.errors`.
        """
        from trilane.client._flow.websocket import Talk, http_url  # noqa: PLC0415 - an extra

        from .websocket import connect  # noqa: PLC0415

        talk = Talk(
            url,
            subprotocols=subprotocols,
            compression=compression,
            max_size=max_size,
            ping_interval=ping_interval,
        )
        options = (
            {"headers": headers} if timeout is ... else {"headers": headers, "timeout": timeout}
        )
        answered = partial(self._answered, "GET", http_url(url), options, whole=False)
        socket = await connect(answered, self._pool_of_http_1, talk)
        async with socket:
            yield socket

    def _pool_of_http_1(self) -> Pool | None:
        settings = self._settings
        if "h1" not in settings.policy.versions:
            return None
        if self._http_1 is None:
            policy = settings.policy._replace(versions=("h1",))
            pool = self._pool_here()
            self._http_1 = type(pool)(pool.loop, policy, settings.tls, settings.source)
        return self._http_1
