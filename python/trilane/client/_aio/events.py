"""Server-sent events, for a task."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Self

from trilane.client._flow.events import MOST_REFUSED, Event, Subscription, is_refused
from trilane.client.errors import Error

if TYPE_CHECKING:
    from trilane.client._flow.request import Field

    from .response import AsyncResponse


class AsyncEventStream(AsyncIterator[Event]):
    """The events of a server, as they come. `AsyncClient.events` makes it; one task iterates it."""

    def __init__(
        self,
        subscription: Subscription,
        ask: Callable[[list[Field]], AbstractAsyncContextManager[AsyncResponse]],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """`ask` sends the request with these fields; `sleep` waits so many seconds."""
        self._subscription = subscription
        self._events = _events(subscription, ask, sleep)

    @property
    def last_event_id(self) -> str:
        """The last id that the stream has named; what a next request would resume after."""
        return self._subscription.last_event_id

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """End the stream, and give its connection back. Idempotent."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _events(
    subscription: Subscription,
    ask: Callable[[list[Field]], AbstractAsyncContextManager[AsyncResponse]],
    sleep: Callable[[float], Awaitable[None]],
) -> AsyncGenerator[Event, None]:
    while True:
        failure = None
        try:
            async with ask(subscription.fields()) as response:
                refused = await response.read(MOST_REFUSED) if is_refused(response) else b""
                if not subscription.begin(response, refused):
                    return
                async for piece in response.aiter_bytes():
                    for event in subscription.take(piece):
                        yield event
        except Error as error:
            failure = error
        wait = subscription.pause(failure)
        if wait is None:
            if failure is None:
                return
            raise failure
        await sleep(wait)
