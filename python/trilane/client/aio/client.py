"""`AsyncClient`: requests by URL for the tasks of one event loop."""

from __future__ import annotations

import asyncio
import functools
import json as json_codec
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from trilane._core import Tls
from trilane.client.altsvc import Scope
from trilane.client.errors import ClientClosed, LocalError
from trilane.client.origins import Address, Origin, parse
from trilane.client.pool import _DEFAULTS
from trilane.client.proxies import Proxies
from trilane.client.request import Field, Fields, Request, pairs, with_defaults
from trilane.client.routing import Policy, Proxy, Route
from trilane.client.timeouts import TimeoutGiven, Timeouts, timeouts
from trilane.client.tls import Certificate, Verify, tls_of
from trilane.client.whole import MOST_CONTENT, Bounds

from .pool import Pool
from .response import AsyncResponse
from .sending import send
from .uploading import AsyncContent, AsyncUpload


class AsyncOptions(TypedDict, total=False):
    """What a request may have beside method, URL, fields and content."""

    timeout: TimeoutGiven
    """`Timeouts`, seconds for each of its four, or (connect, read)."""
    trailers: Sequence[tuple[str, str]]
    """Fields that follow the content."""
    expect_continue: bool
    """Whether content waits, up to a second, for `100 Continue`."""
    decode: bool
    """False leaves gzip and others as they are."""


class AsyncClient:
    """An HTTP client for HTTP/1.1, HTTP/2 and HTTP/3, for any number of tasks on one event loop.

    Tasks share connections: one for all requests to an origin that speaks HTTP/2 or HTTP/3. Beyond
    what the server and `max_per_origin` allow, requests wait in the order in which they came. A
    task that is cancelled, or times out, resets its own stream only. A request that the server
    provably did not process is sent again. There are no redirects and no cookies: HTTPX has them,
    on `trilane.client.httpx.AsyncTransport`.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, by name
        self,
        *,
        versions: Sequence[str] = ("h3", "h2", "h1"),
        verify: Verify = True,
        cert: Certificate = None,
        tls: Tls | None = None,
        timeout: TimeoutGiven = ...,
        headers: Fields | None = None,
        proxies: Mapping[str, str | Proxy] | Proxy | str | None = "environment",
        max_connections: int = 100,
        max_per_origin: int | None = None,
        idle_timeout: float = 60.0,
        alternatives: Scope = "same-host",
        race: bool = False,
        max_content: int | None = MOST_CONTENT,
        max_decoded: int | None = None,
        source: tuple[str, int] | None = None,
        unix: str | None = None,
    ) -> None:
        """May be called outside of a loop; the first request decides which loop it is for.

        The settings are those of `trilane.client.Client`. With `max_per_origin=1` all tasks share
        one connection, and wait for its streams where the server allows fewer than there are tasks.

        Errors: ValueError for settings out of range; InvalidRequest for a proxy of another kind.
        """
        self._timeouts = timeouts(timeout, Timeouts())
        self._fields = with_defaults(_DEFAULTS, pairs(headers))
        self._believes = headers is not None
        self._bounds = Bounds.of(max_content, max_decoded)
        self._policy = Policy(
            versions=tuple(versions),
            max_connections=max_connections,
            max_per_origin=max_connections if max_per_origin is None else max_per_origin,
            idle_s=idle_timeout,
            alternatives=alternatives,
            race_unannounced=race,
            unix=unix,
        )
        self._learns = "h3" in self._policy.versions and alternatives != "off"
        self._tls = functools.partial(tls_of, verify, cert) if tls is None else lambda: tls
        self._source = source
        self._proxies = Proxies.of(proxies)
        self._routes: dict[Origin, Route] = {}
        self._pool: Pool | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Fields | None = None,
        content: AsyncContent = None,
        json: Any = None,
        **options: Unpack[AsyncOptions],
    ) -> AsyncResponse:
        """Send a request and read its response, content and all.

        content: bytes, str (in UTF-8), a file, or an iterable of bytes, asynchronous or not, which
            is sent as it comes. Files are read in threads; an ordinary iterable runs on the loop.
        json: sent instead of `content`, with its content-type.
        options: see `AsyncOptions`.

        Errors: every one of `trilane.client.errors`; exceptions of the content's own pass through.
        """
        address = parse(url)
        request = self._prepare(method, address, headers, content, json)
        response = await self._send(request, address, None, options, whole=True)
        await response.load_at_once()
        return response

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Fields | None = None,
        content: AsyncContent = None,
        json: Any = None,
        **options: Unpack[AsyncOptions],
    ) -> AsyncIterator[AsyncResponse]:
        """A context with a response whose content has not been read; it ends with the context.

        Content of the request that is still being sent goes on meanwhile, so both directions can
        stream at once. Arguments and errors are those of `request`.
        """
        address = parse(url)
        request = self._prepare(method, address, headers, content, json)
        response = await self._send(request, address, None, options)
        async with response:
            yield response

    async def send(
        self,
        method: str,
        url: str,
        fields: Sequence[Field] = (),
        content: AsyncContent = None,
        *,
        target: str | None = None,
        **options: Unpack[AsyncOptions],
    ) -> AsyncResponse:
        """For adapters: send exactly these fields, and leave the content unread and undecoded.

        Nothing is added to the fields but what frames the message, and what the proxy is to be
        told. `target` replaces path and query of the URL, which go out as `origins.parse` has them.
        The caller awaits `aclose()` of the response.
        """
        address = parse(url)
        request = _request(method, address, fields, content)
        request.believe()
        options.setdefault("decode", False)
        return await self._send(request, address, target, options)

    def get(self, url: str, **options: Unpack[_WithHeaders]) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("GET", url)`."""
        return self.request("GET", url, **options)

    def head(self, url: str, **options: Unpack[_WithHeaders]) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("HEAD", url)`."""
        return self.request("HEAD", url, **options)

    def options(
        self, url: str, **options: Unpack[_WithHeaders]
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("OPTIONS", url)`."""
        return self.request("OPTIONS", url, **options)

    def delete(
        self, url: str, **options: Unpack[_WithHeaders]
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("DELETE", url)`."""
        return self.request("DELETE", url, **options)

    def post(
        self, url: str, content: AsyncContent = None, **options: Unpack[_WithJson]
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("POST", url)`."""
        return self.request("POST", url, content=content, **options)

    def put(
        self, url: str, content: AsyncContent = None, **options: Unpack[_WithJson]
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("PUT", url)`."""
        return self.request("PUT", url, content=content, **options)

    def patch(
        self, url: str, content: AsyncContent = None, **options: Unpack[_WithJson]
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("PATCH", url)`."""
        return self.request("PATCH", url, content=content, **options)

    @property
    def connections(self) -> list[tuple[str, str]]:
        """The open connections: origin and version of each."""
        if self._pool is None:
            return []
        return [(str(entry.route.origin), entry.version) for entry in self._pool.router.entries]

    def network_changed(self) -> None:
        """Forget which alternatives of HTTP/3 were announced or broken, unless they persist."""
        if self._pool is not None:
            self._pool.router.alternatives.network_changed()

    def close(self) -> None:
        """Close every connection, on the loop's thread. Requests under way fail. Idempotent."""
        self._closed = True
        pool, self._pool = self._pool, None
        # A loop that is closed has let go of its sockets, and the connections close with us.
        if pool is not None and not pool.loop.is_closed():
            pool.close()

    async def aclose(self) -> None:
        """`close`, and let the tasks that waited see it."""
        if self._pool is not None:
            self.close()
            await asyncio.sleep(0)
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _prepare(
        self,
        method: str,
        address: Address,
        headers: Fields | None,
        content: AsyncContent,
        json: Any,
    ) -> Request:
        """The request with the client's fields."""
        fields = self._fields
        given = pairs(headers) if headers else []
        if json is not None:
            content = json_codec.dumps(json, separators=(",", ":"))
            given = with_defaults([("content-type", "application/json")], given)
        if address.authorization is not None:
            given = with_defaults([("authorization", address.authorization)], given)
        if given:
            fields = with_defaults(fields, given)
        request = _request(method, address, fields, content)
        if given or self._believes:
            request.believe()
        return request

    async def _send(
        self,
        request: Request,
        address: Address,
        target: str | None,
        options: AsyncOptions,
        *,
        whole: bool = False,
    ) -> AsyncResponse:
        pool = self._pool_here()
        origin = address.origin
        route = self._routes.get(origin) or self._route(origin)
        if target is not None:
            request.target = target
        if route.forwards and route.proxy is not None:
            if target is None:
                request.target = address.url
            request.add(route.proxy.fields)
        limits = self._timeouts
        decodes = True
        if options:
            if options.get("expect_continue"):
                request.expect_continue()
            request.follow(options.get("trailers", ()))
            limits = timeouts(options.get("timeout", ...), limits)
            decodes = options.get("decode", True)
        learns = self._learns and origin.scheme == "https" and route.proxy is None
        call, status = await send(pool, route, request, limits, learns=learns, whole=whole)
        return AsyncResponse(call, status, address=address, decodes=decodes, bounds=self._bounds)

    def _route(self, origin: Origin) -> Route:
        # Bounded, for crawlers.
        if len(self._routes) >= 1024:
            self._routes.clear()
        route = self._routes[origin] = Route.to(origin, self._proxies.choose(origin))
        return route

    def _pool_here(self) -> Pool:
        """The connections, which live on one loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise LocalError(
                "no event loop of asyncio is running: AsyncClient is for asyncio, not for Trio"
            ) from None
        pool = self._pool
        if pool is None:
            if self._closed:
                raise ClientClosed("the client is closed: make a new one")
            pool = self._pool = Pool(loop, self._policy, self._tls, self._source)
        elif pool.loop is not loop:
            state = "that has been closed" if pool.loop.is_closed() else "that runs elsewhere"
            raise LocalError(
                f"this AsyncClient belongs to an event loop {state}: make one client per loop,"
                " inside of it"
            )
        return pool


def _request(
    method: str, address: Address, fields: Sequence[Field], content: AsyncContent
) -> Request:
    if not isinstance(content, AsyncIterable):
        return Request(method, address.target, address.authority, fields, content)
    request = Request(method, address.target, address.authority, fields)
    request.body, request.upload = None, AsyncUpload(content)
    return request


class _WithHeaders(AsyncOptions, total=False):
    headers: Fields | None


class _WithJson(_WithHeaders, total=False):
    json: Any
