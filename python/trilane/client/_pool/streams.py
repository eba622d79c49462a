"""What `Client` has for long streams: server-sent events and WebSockets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from trilane.client._flow.content import Content
from trilane.client._flow.request import Field
from trilane.client._flow.streams import StreamingClient
from trilane.client._pool.driving import Ask
from trilane.client._pool.leasing import Pool
from trilane.client._pool.response import Response
from trilane.client._pool.sending import send

if TYPE_CHECKING:
    from trilane.client._flow.events import Subscription
    from trilane.client._flow.websocket import Talk
    from trilane.client._pool.events import EventStream
    from trilane.client._pool.websocket import WebSocket


class Streams(
    StreamingClient[
        Response,
        AbstractContextManager[Response],
        Content,
        "EventStream",
        AbstractContextManager["WebSocket"],
    ]
):
    """Streams over the pool of a client."""

    _pool: Pool
    _http_1: Pool | None = None
    """For WebSockets of servers that take none in the other versions."""

    def _events(
        self,
        subscription: Subscription,
        ask: Callable[[list[Field]], AbstractContextManager[Response]],
    ) -> EventStream:
        from trilane.client._pool.events import EventStream  # noqa: PLC0415 - for those who ask

        return EventStream(subscription, ask)

    @contextmanager
    def _websocket(self, talk: Talk, url: str, options: Mapping[str, Any]) -> Iterator[WebSocket]:
        from trilane.client._pool.websocket import connect  # noqa: PLC0415 - an extra

        answered = partial(self._answered, "GET", url, options, whole=False)
        with connect(answered, self._pool_of_http_1, talk) as socket:
            yield socket

    @abstractmethod
    def _answered(
        self,
        method: str,
        url: str,
        options: Mapping[str, Any],
        *,
        whole: bool,
        ask: Ask = send,
    ) -> Response:
        """The response to a request, and what it leads to; each is sent by `ask`."""

    def _pool_of_http_1(self) -> Pool | None:
        settings = self._settings
        if "h1" not in settings.policy.versions:
            return None
        if self._http_1 is None:
            policy = settings.policy._replace(versions=("h1",))
            self._http_1 = Pool(policy, settings.tls, settings.source)
        return self._http_1
