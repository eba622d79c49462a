"""What `AsyncClient` has for long streams: server-sent events and WebSockets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from trilane.client._flow.request import Field
from trilane.client._flow.streams import StreamingClient

from .driving import Ask
from .pool import Pool
from .response import AsyncResponse
from .sending import send
from .uploading import AsyncContent

if TYPE_CHECKING:
    from trilane.client._flow.events import Subscription
    from trilane.client._flow.websocket import Talk

    from .events import AsyncEventStream
    from .websocket import AsyncWebSocket


class Streams(
    StreamingClient[
        Coroutine[Any, Any, AsyncResponse],
        AbstractAsyncContextManager[AsyncResponse],
        AsyncContent,
        "AsyncEventStream",
        AbstractAsyncContextManager["AsyncWebSocket"],
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
        ask: Ask = send,
    ) -> AsyncResponse:
        """The response to a request, and what it leads to; each is sent by `ask`."""

    def _events(
        self,
        subscription: Subscription,
        ask: Callable[[list[Field]], AbstractAsyncContextManager[AsyncResponse]],
    ) -> AsyncEventStream:
        from .events import AsyncEventStream  # noqa: PLC0415 - for those who ask

        async def sleep(seconds: float) -> None:
            await self._pool_here().sleep(seconds)

        return AsyncEventStream(subscription, ask, sleep)

    @asynccontextmanager
    async def _websocket(
        self, talk: Talk, url: str, options: Mapping[str, Any]
    ) -> AsyncIterator[AsyncWebSocket]:
        from .websocket import connect  # noqa: PLC0415 - an extra

        answered = partial(self._answered, "GET", url, options, whole=False)
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
