"""What a cache wants done for `AsyncClient`: its storage is awaited, or called in a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from trilane.client._flow.caching import Answered, Kept, Save, StorageCall
from trilane.client._flow.head import Past
from trilane.client._flow.response import BaseResponse
from trilane.client._flow.steps import CacheStep
from trilane.client._flow.whole import not_read
from trilane.client._saving import AsyncSaving, Saving, lost

from .response import AsyncResponse

if TYPE_CHECKING:
    from trilane.client._flow.request import Request

    from .pool import Pool


async def done(pool: Pool, step: CacheStep) -> Any:
    """What the step asks for."""
    cache = step.cache
    if isinstance(step, StorageCall):
        function = getattr(cache.storage, step.method)
        if cache.is_asynchronous:
            return await function(*step.arguments)
        return await pool.to_thread(function, *step.arguments)
    if isinstance(step, Answered):
        return KeptAsyncResponse(pool, step.kept)
    assert isinstance(step, Save)  # noqa: S101 - there is no other step
    saving: AsyncSaving | InThreads
    if cache.is_asynchronous:
        saving = await AsyncSaving.begin(step)
    else:
        saving = InThreads(pool, await pool.to_thread(Saving, step))
    return SavedAsyncResponse.over(step.response, saving)


class InThreads:
    """A `Saving` whose storage may make its thread wait."""

    def __init__(self, pool: Pool, saving: Saving) -> None:
        self._pool = pool
        self._saving = saving

    async def take(self, piece: bytes) -> None:
        """As `Saving.take`."""
        await self._pool.to_thread(self._saving.take, piece)

    async def give_up(self) -> None:
        """As `Saving.give_up`."""
        await self._pool.to_thread(self._saving.give_up)


class KeptAsyncResponse(AsyncResponse):
    """A response of the cache."""

    __slots__ = ("_pool", "_request", "_rest", "_stream", "from_cache", "revalidated")

    def __init__(self, pool: Pool, kept: Kept) -> None:
        request, address, how = kept.prepared
        BaseResponse.__init__(
            self,
            kept.status,
            Past(kept.fields),
            address,
            how.bounds,
            None,
            None,
            decodes=how.decodes,
        )
        self._pool: Pool | None = pool
        self._rest = b""
        self._request: Request | None = None
        self._stream: Iterator[bytes] | AsyncIterator[bytes] | None = None
        self._restore(kept.state)
        self._request, self._stream = request, kept.stream

    @property
    def is_closed(self) -> bool:
        """Whether no more of its content is read."""
        return self._stream is None

    def close(self) -> None:
        """Read no more of its content. Idempotent."""
        stream, self._stream = self._stream, None
        if stream is not None and self._content is None and self._error is None:
            self._error = not_read(f"the response of {self.url}")

    async def _piece(self, amount: int) -> bytes:
        stream = self._stream
        if stream is None or not amount:
            self._expect_no_error()
            return b""
        self._begun = True
        try:
            piece = self._rest or await self._next(stream)
        except Exception as error:
            raise self._fail(lost(self.url, error)) from error
        if not piece:
            self._stream = None
        cut = len(piece) if amount < 0 else amount
        self._rest = piece[cut:]
        return piece[:cut]

    async def _next(self, stream: Iterator[bytes] | AsyncIterator[bytes]) -> bytes:
        if isinstance(stream, AsyncIterator):
            return await anext(stream, b"")
        assert self._pool is not None  # noqa: S101 - only a pickled one has none, and no stream
        return await self._pool.to_thread(next, stream, b"")

    def _request_sent(self) -> Request:
        return self._request or super()._request_sent()

    def __getstate__(self) -> dict[str, Any]:
        """As `AsyncResponse.__getstate__`, and whence it came."""
        return {**super().__getstate__(), "cached": (self.from_cache, self.revalidated)}

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        self.from_cache, self.revalidated = state["cached"]
        self._stream = self._request = None
        self._rest = b""


class SavedAsyncResponse(AsyncResponse):
    """A response of a server whose content is stored as it is read."""

    __slots__ = ()

    _saving: AsyncSaving | InThreads | None
    """What stores it, until its content has ended."""

    @classmethod
    def over(cls, response: AsyncResponse, saving: AsyncSaving | InThreads) -> SavedAsyncResponse:
        """The same response, from now on."""
        response.__class__ = cls
        assert isinstance(response, cls)  # noqa: S101 - for the type checker
        response._saving = saving  # noqa: SLF001 - it is its own
        return response

    def load(self) -> bool:
        """Whether `content` is there: it is read in pieces, each of which is stored."""
        return self._content is not None

    async def aclose(self) -> None:
        """As `AsyncResponse.aclose`; what had come complete is stored."""
        await super().aclose()
        await self._settle()

    async def _piece(self, amount: int) -> bytes:
        saving, self._saving = self._saving, None
        try:
            piece = await super()._piece(amount)
        except BaseException:
            if saving is not None:
                await saving.give_up()
            raise
        if saving is not None:
            if piece:
                await saving.take(piece)
            self._saving = saving
            if self._ended:
                await self._settle()
        return piece

    def __repr__(self) -> str:
        return super().__repr__().replace("<Saved", "<", 1)

    async def _settle(self) -> None:
        saving, self._saving = self._saving, None
        if saving is None:
            return
        if self._error is None:
            await saving.take(b"")
        else:
            await saving.give_up()

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        self._saving = None
