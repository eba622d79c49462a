"""Server-sent events, for a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self

from trilane.client._flow.events import MOST_REFUSED, Event, Subscription, is_refused
from trilane.client.errors import Error

if TYPE_CHECKING:
    from trilane.client._flow.request import Field
    from trilane.client._pool.response import Response


class EventStream(Iterator[Event]):
    """The events of a server, as they come. `Client.events` makes it; one thread iterates it."""

    def __init__(
        self,
        subscription: Subscription,
        ask: Callable[[list[Field]], AbstractContextManager[Response]],
    ) -> None:
        """`ask` sends the request with these fields."""
        self._subscription = subscription
        self._events = _events(subscription, ask)

    @property
    def last_event_id(self) -> str:
        """The last id that the stream has named; what a next request would resume after."""
        return self._subscription.last_event_id

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """End the stream, and give its connection back. Idempotent."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _events(
    subscription: Subscription, ask: Callable[[list[Field]], AbstractContextManager[Response]]
) -> Generator[Event, None, None]:
    while True:
        failure = None
        try:
            with ask(subscription.fields()) as response:
                refused = response.read(MOST_REFUSED) if is_refused(response) else b""
                if not subscription.begin(response, refused):
                    return
                for piece in response.iter_bytes():
                    yield from subscription.take(piece)
        except Error as error:
            failure = error
        wait = subscription.pause(failure)
        if wait is None:
            if failure is None:
                return
            raise failure
        time.sleep(wait)
