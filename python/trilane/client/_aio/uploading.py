"""Content of a request that is written while its response may already come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeAlias

from trilane._core import HEAD, INFORMATIONAL, WRITABLE, Exchange
from trilane.client._flow.content import BLOCK, Block, Content, Upload
from trilane.client._flow.request import Request
from trilane.client._flow.timeouts import write_timeout
from trilane.client._flow.uploading import consent_until, wants_content
from trilane.client.errors import WriteTimeout

from .link import Link

if TYPE_CHECKING:
    from .call import Call
    from .pool import Pool

AsyncContent: TypeAlias = Content | AsyncIterable[Block | str]
"""What the blocking client takes, and asynchronous iterables."""


class AsyncUpload(Upload):
    """Content that an asynchronous iterable gives."""

    __slots__ = ("_source",)

    def __init__(self, source: AsyncIterable[Block | str]) -> None:
        super().__init__((), None)
        self._source = source

    @property
    def replayable(self) -> bool:
        """Whether it can be sent (again)."""
        return not self.started

    async def pieces(self) -> AsyncGenerator[Block, None]:
        """The content; no block is empty."""
        self.started = True
        blocks = aiter(self._source)
        try:
            async for block in blocks:
                piece = block.encode() if isinstance(block, str) else block
                if len(piece):
                    yield piece
        finally:
            if isinstance(blocks, AsyncGenerator):
                # Where it is left early, its own `finally` runs now, not when it is collected.
                await blocks.aclose()


async def send(call: Call, link: Link, exchange: Exchange) -> None:
    """Write the content of the call's request, unless the server wants no more of it."""
    request = call.request
    if request.expects and not await _is_wanted(call, link, exchange):
        return
    counts = request.progress is not None
    if counts:
        request.count(0, request.total)
    async with aclosing(_pieces(call.pool, request)) as pieces:
        async for piece in pieces:
            view = memoryview(piece).cast("B")
            for at in range(0, view.nbytes, BLOCK):
                await _room(call, link, exchange)
                if not exchange.upload_open:
                    return
                _expect_time(call, exchange)
                exchange.write(view[at : at + BLOCK], 0)
                link.written()
                if counts:
                    request.count(len(view[at : at + BLOCK]), request.total)
    await _room(call, link, exchange)
    if exchange.upload_open:
        exchange.finish(request.trailers, 0)
        link.written()
        call.sent = True


async def _pieces(pool: Pool, request: Request) -> AsyncGenerator[Block, None]:
    upload = request.upload
    if isinstance(upload, AsyncUpload):
        with request.callers_own():
            async with aclosing(upload.pieces()) as pieces:
                async for piece in pieces:
                    yield piece
        return
    blocks = request.blocks()
    if upload is None or not upload.is_file:
        for piece in blocks:
            yield piece
            # An iterable that never waits would keep the loop from all other tasks.
            await pool.sleep(0)
        return
    while (block := await pool.to_thread(next, blocks, None)) is not None:
        yield block


def _expect_time(call: Call, exchange: Exchange) -> None:
    """Raise where the time for the whole request is over, also if there is room."""
    if call.timeouts.is_over():
        raise _late(call, exchange)


def _late(call: Call, exchange: Exchange) -> WriteTimeout:
    origin, method, limit = str(call.route.origin), call.request.method, call.timeouts.write
    return write_timeout(origin, method, limit, exchange.stream_id)


async def _room(call: Call, link: Link, exchange: Exchange) -> None:
    """Wait until the connection takes content, or the request is over."""
    while (future := link.expect(exchange, WRITABLE, reads=False)) is not None:
        if not await call.pool.wait(future, call.timeouts.write):
            raise _late(call, exchange)


async def _is_wanted(call: Call, link: Link, exchange: Exchange) -> bool:
    """Whether the server wants the content: it says so, or nothing for a while."""
    loop = call.pool.loop
    until = consent_until(loop.time(), call.timeouts.read)
    while all(wants_content(status) is None for status, _ in exchange.informational):
        future = link.expect(exchange, INFORMATIONAL, reads=False)
        if future is None:  # The response itself.
            return exchange.watch(HEAD) and bool(wants_content(exchange.head(0)))
        if not await call.pool.wait(future, max(until - loop.time(), 0.0)):
            return True
    return True
