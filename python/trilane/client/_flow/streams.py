"""What `Client` and `AsyncClient` have for long streams: server-sent events and WebSockets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trilane.client._flow.client import Answer, BaseClient, Context
from trilane.client._flow.options import ContentGiven
from trilane.client._flow.origins import http_url
from trilane.client._flow.request import Field, Fields
from trilane.client._flow.timeouts import TimeoutGiven, timeouts

if TYPE_CHECKING:
    from trilane.client._flow.events import Subscription
    from trilane.client._flow.websocket import Talk

EventsGiven = TypeVar("EventsGiven")
SocketContext = TypeVar("SocketContext")


class StreamingClient(
    BaseClient[Answer, Context, ContentGiven],
    Generic[Answer, Context, ContentGiven, EventsGiven, SocketContext],
):
    """Streams over the pool of a client."""

    def events(
        self,
        url: str,
        *,
        method: str = "GET",
        content: ContentGiven | None = None,
        headers: Fields | None = None,
        reconnect: bool | None = None,
        **options: Any,
    ) -> EventsGiven:
        """Server-sent events (the event stream of the HTML standard), as they come.

        An iterator, of `AsyncClient` an asynchronous one, and a context that ends it. Nothing is
        sent before the first event is asked for. When the stream ends, or its connection is lost,
        it is asked for again after the time that the server says (3 seconds where it says none, 60
        at most), with `Last-Event-ID`. As long as no event comes the pauses grow, and after ten
        failures in a row the last one is raised. Status 204 ends it, and so do an event that is too
        long and content that cannot be decoded. The read timeout is how long the stream may be
        silent, `Timeouts(total=...)` how long all of it may take.

        method, content: for servers that answer a POST with events, as those of language models do.
        reconnect: whether it is asked for again. By default a GET without content is, and nothing
            else: a request with content may do something.
        options: as of `stream`: `json`, `timeout` and others.

        Raises:
            StreamRefused: the answer is no stream of events: another status or content-type.
            LimitExceeded: an event is longer than `max_content`.
            TotalTimeout: the time for the whole stream is over.
            ValueError: content is to be sent again that can be sent once only.
            Error, TypeError: as `stream`.
        """
        from trilane.client._flow.events import (  # noqa: PLC0415 - for those who ask
            Subscription,
            has_content,
        )

        subscription = Subscription(
            url,
            headers,
            reconnect=reconnect,
            is_plain=method == "GET" and content is None and not has_content(options),
            content=content if options.get("files") is None else options["files"],
            limits=timeouts(options.pop("timeout", ...), self._settings.limits),
        )

        def ask(fields: list[Field]) -> Context:
            given = {**options, "timeout": subscription.limits}
            return self.stream(method, url, headers=fields, content=content, **given)

        return self._events(subscription, ask)

    def websocket(
        self,
        url: str,
        *,
        subprotocols: Sequence[str] = (),
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        compression: bool = True,
        max_size: int | None = 16 * 1024 * 1024,
        ping_interval: float | None = 20.0,
    ) -> SocketContext:
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
        ping_interval: seconds of silence after which whoever receives sends a Ping, and after as
            many again gives up; None: never.

        Raises:
            StreamRefused: the server opens no WebSocket; `content` has what it said.
            VersionUnavailable: it takes none in the versions that the client may speak.
            ImportError: the library is missing.
            Error: any of `trilane.client.errors`.
        """
        from trilane.client._flow.websocket import Talk  # noqa: PLC0415 - an extra

        talk = Talk(
            url,
            subprotocols=subprotocols,
            compression=compression,
            max_size=max_size,
            ping_interval=ping_interval,
        )
        options: dict[str, Any] = {"headers": headers, "websocket": True}
        if timeout is not ...:
            options["timeout"] = timeout
        return self._websocket(talk, http_url(url), options)

    @abstractmethod
    def _events(
        self, subscription: Subscription, ask: Callable[[list[Field]], Context]
    ) -> EventsGiven:
        """The events; `ask` sends the request with these fields besides."""

    @abstractmethod
    def _websocket(self, talk: Talk, url: str, options: Mapping[str, Any]) -> SocketContext:
        """A context with the WebSocket that is opened by a GET of this URL."""
