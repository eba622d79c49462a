"""`AsyncClient`: requests by URL for the tasks of one event loop, or of one run of Trio."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from trilane.client._flow.content import Content, Upload
from trilane.client._flow.preparing import Prepared
from trilane.client.errors import ClientClosed, LocalError

from .driving import Ask, drive
from .pool import Pool
from .response import AsyncResponse
from .running import pool_for, running
from .sending import send
from .streams import Streams
from .uploading import AsyncContent, AsyncUpload


class AsyncClient(Streams):
    """An HTTP client for HTTP/1.1, HTTP/2 and HTTP/3, for any number of tasks on one event loop.

    The loop is asyncio's, uvloop's, or a run of Trio.

    Tasks share connections: one for all requests to an origin that speaks HTTP/2 or HTTP/3. Beyond
    what the server and `max_per_origin` allow, requests wait in the order in which they came. A
    task that is cancelled, or times out, resets its own stream only. A request that the server
    provably did not process is sent again. Cookies are kept; redirects are followed where
    `follow_redirects` says so.

    It may be made outside of a loop: the first request decides which one it is for.
    """

    def _begin(self) -> None:
        # The first request decides which loop it is for.
        self._pool: Pool | None = None
        self._closed = False

    def _whole(
        self, method: str, url: str, options: Mapping[str, Any]
    ) -> Coroutine[Any, Any, AsyncResponse]:
        return self._answered(method, url, options, whole=True)

    async def _answered(
        self,
        method: str,
        url: str,
        options: Mapping[str, Any],
        *,
        whole: bool,
        ask: Ask = send,
    ) -> AsyncResponse:
        pool, session = self._pool_here(), self._session
        begun = session.begin(method, url, options, whole=whole)
        if isinstance(begun, Prepared):
            response = await ask(pool, begun, whole=whole)
            session.notice(response)
        else:
            response = await drive(pool, begun, whole=whole, ask=ask)
        if whole and not response.load():
            await response.load_at_once()
        return response

    async def _opened(self, prepare: Callable[[], Prepared]) -> AsyncResponse:
        return await send(self._pool_here(), prepare(), whole=False)

    @asynccontextmanager
    async def _context(
        self, method: str, url: str, options: Mapping[str, Any]
    ) -> AsyncIterator[AsyncResponse]:
        async with await self._answered(method, url, options, whole=False) as response:
            yield response

    @staticmethod
    def _sendable(content: AsyncContent) -> Content | Upload:
        return AsyncUpload(content) if isinstance(content, AsyncIterable) else content

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
        pools = self._pool, self._http_1
        self._pool = self._http_1 = None
        for pool in pools:
            # A loop that is closed has let go of its sockets, and the connections close with us.
            if pool is not None and not pool.loop.is_closed():
                pool.close()

    async def aclose(self) -> None:
        """`close`, and let the tasks that waited see it."""
        pool = self._pool
        if pool is not None:
            self.close()
            if not pool.loop.is_closed():
                await pool.sleep(0)
        self._closed = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self.connections)} connections>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _pool_here(self) -> Pool:
        """The connections, which live on one loop."""
        loop, pool = running(), self._pool
        if pool is None:
            if self._closed:
                raise ClientClosed("the client is closed: make a new one")
            settings = self._settings
            kind = pool_for(loop)
            pool = self._pool = kind(loop, settings.policy, settings.tls, settings.source)
        elif pool.loop is not loop:
            state = "that has been closed" if pool.loop.is_closed() else "that runs elsewhere"
            raise LocalError(
                f"this AsyncClient belongs to an event loop {state}: make one client per loop,"
                " inside of it"
            )
        return pool
