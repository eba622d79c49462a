"""`AsyncClient`: requests by URL for the tasks of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Never, Self

from trilane._core import Tls
from trilane.client.errors import ClientClosed, LocalError
from trilane.client.flow.altsvc import Scope
from trilane.client.flow.content import Content, Upload
from trilane.client.flow.lanes import VERSIONS, Proxy
from trilane.client.flow.preparing import Prepared, Settings
from trilane.client.flow.request import Field, Fields, pairs
from trilane.client.flow.timeouts import TimeoutGiven
from trilane.client.flow.whole import MOST_CONTENT
from trilane.client.keywords import refusal
from trilane.client.tls import Certificate, Verify

from .pool import Pool
from .response import AsyncResponse
from .sending import send
from .uploading import AsyncContent, AsyncUpload


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
        versions: Sequence[str] = VERSIONS,
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
        **unknown: Never,
    ) -> None:
        """May be called outside of a loop; the first request decides which loop it is for.

        The settings are those of `trilane.client.Client`. With `max_per_origin=1` all tasks share
        one connection, and wait for its streams where the server allows fewer than there are tasks.

        Errors: ValueError for settings out of range; InvalidRequest for a proxy of another kind;
        TypeError for other settings, with what to write instead.
        """
        if unknown:
            raise refusal(AsyncClient, "__init__", unknown)
        self._settings = Settings(
            versions=versions,
            verify=verify,
            cert=cert,
            tls=tls,
            timeout=timeout,
            headers=headers,
            proxies=proxies,
            max_connections=max_connections,
            max_per_origin=max_per_origin,
            idle_timeout=idle_timeout,
            alternatives=alternatives,
            race=race,
            max_content=max_content,
            max_decoded=max_decoded,
            source=source,
            unix=unix,
        )
        self._pool: Pool | None = None
        self._closed = False

    async def request(  # noqa: PLR0913 - each is an option of its own, by name
        self,
        method: str,
        url: str,
        *,
        headers: Fields | None = None,
        content: AsyncContent = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,  # noqa: ASYNC109 - for each wait, not for all
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        decode: bool = True,
        **unknown: Never,
    ) -> AsyncResponse:
        """Send a request and read its response, content and all.

        content: bytes, str (in UTF-8), a file, or an iterable of bytes, asynchronous or not, which
            is sent as it comes. Files are read in threads; an ordinary iterable runs on the loop.
        json: sent instead of `content`, with its content-type.
        timeout: `Timeouts`, seconds for each of its four, or (connect, read); else the client's.
        trailers: fields that follow the content.
        expect_continue: whether content waits, up to a second, for `100 Continue`.
        decode: False leaves gzip and others as they are.

        Errors: every one of `trilane.client.errors`; exceptions of the content's own pass through;
        TypeError for other keywords, with what to write instead.
        """
        if unknown:
            raise refusal(AsyncClient, "request", unknown)
        options = timeout, trailers, expect_continue, None, decode
        prepared = self._settings.prepare(
            method, url, pairs(headers), _sendable(content), json, options
        )
        response = await self._send(prepared, whole=True)
        await response.load_at_once()
        return response

    @asynccontextmanager
    async def stream(  # noqa: PLR0913 - as `request`
        self,
        method: str,
        url: str,
        *,
        headers: Fields | None = None,
        content: AsyncContent = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,  # noqa: ASYNC109 - for each wait, not for all
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        decode: bool = True,
        **unknown: Never,
    ) -> AsyncIterator[AsyncResponse]:
        """A context with a response whose content has not been read; it ends with the context.

        Content of the request that is still being sent goes on meanwhile, so both directions can
        stream at once. Arguments and errors are those of `request`.
        """
        if unknown:
            raise refusal(AsyncClient, "stream", unknown)
        options = timeout, trailers, expect_continue, None, decode
        prepared = self._settings.prepare(
            method, url, pairs(headers), _sendable(content), json, options
        )
        async with await self._send(prepared) as response:
            yield response

    async def send(  # noqa: PLR0913 - as `request`
        self,
        method: str,
        url: str,
        fields: Sequence[Field] = (),
        content: AsyncContent = None,
        *,
        target: str | None = None,
        timeout: TimeoutGiven = ...,  # noqa: ASYNC109 - for each wait, not for all
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        decode: bool = False,
        **unknown: Never,
    ) -> AsyncResponse:
        """For adapters: send exactly these fields, and leave the content unread and undecoded.

        Nothing is added to the fields but what frames the message, and what the proxy is to be
        told. `target` replaces path and query of the URL, which go out as `origins.parse` has them.
        The caller awaits `aclose()` of the response.
        """
        if unknown:
            raise refusal(AsyncClient, "send", unknown)
        options = timeout, trailers, expect_continue, None, decode
        prepared = self._settings.exactly(method, url, fields, _sendable(content), target, options)
        return await self._send(prepared)

    def get(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        decode: bool = True,
        **unknown: Never,
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("GET", url)`."""
        if unknown:
            raise refusal(AsyncClient, "get", unknown)
        return self.request("GET", url, headers=headers, timeout=timeout, decode=decode)

    def head(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        decode: bool = True,
        **unknown: Never,
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("HEAD", url)`."""
        if unknown:
            raise refusal(AsyncClient, "head", unknown)
        return self.request("HEAD", url, headers=headers, timeout=timeout, decode=decode)

    def options(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        decode: bool = True,
        **unknown: Never,
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("OPTIONS", url)`."""
        if unknown:
            raise refusal(AsyncClient, "options", unknown)
        return self.request("OPTIONS", url, headers=headers, timeout=timeout, decode=decode)

    def delete(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        decode: bool = True,
        **unknown: Never,
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("DELETE", url)`."""
        if unknown:
            raise refusal(AsyncClient, "delete", unknown)
        return self.request("DELETE", url, headers=headers, timeout=timeout, decode=decode)

    def post(
        self,
        url: str,
        content: AsyncContent = None,
        *,
        headers: Fields | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        decode: bool = True,
        **unknown: Never,
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("POST", url)`."""
        if unknown:
            raise refusal(AsyncClient, "post", unknown)
        return self.request(
            "POST",
            url,
            headers=headers,
            content=content,
            json=json,
            timeout=timeout,
            trailers=trailers,
            expect_continue=expect_continue,
            decode=decode,
        )

    def put(
        self,
        url: str,
        content: AsyncContent = None,
        *,
        headers: Fields | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        decode: bool = True,
        **unknown: Never,
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("PUT", url)`."""
        if unknown:
            raise refusal(AsyncClient, "put", unknown)
        return self.request(
            "PUT",
            url,
            headers=headers,
            content=content,
            json=json,
            timeout=timeout,
            trailers=trailers,
            expect_continue=expect_continue,
            decode=decode,
        )

    def patch(
        self,
        url: str,
        content: AsyncContent = None,
        *,
        headers: Fields | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        decode: bool = True,
        **unknown: Never,
    ) -> Coroutine[Any, Any, AsyncResponse]:
        """`request("PATCH", url)`."""
        if unknown:
            raise refusal(AsyncClient, "patch", unknown)
        return self.request(
            "PATCH",
            url,
            headers=headers,
            content=content,
            json=json,
            timeout=timeout,
            trailers=trailers,
            expect_continue=expect_continue,
            decode=decode,
        )

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

    async def _send(self, prepared: Prepared, *, whole: bool = False) -> AsyncResponse:
        call, status = await send(self._pool_here(), prepared, whole=whole)
        return AsyncResponse(call, status, prepared)

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
            settings = self._settings
            pool = self._pool = Pool(loop, settings.policy, settings.tls, settings.source)
        elif pool.loop is not loop:
            state = "that has been closed" if pool.loop.is_closed() else "that runs elsewhere"
            raise LocalError(
                f"this AsyncClient belongs to an event loop {state}: make one client per loop,"
                " inside of it"
            )
        return pool


def _sendable(content: AsyncContent) -> Content | Upload:
    """Content as `Settings` takes it."""
    if content is None or not isinstance(content, AsyncIterable):
        return content
    return AsyncUpload(content)
