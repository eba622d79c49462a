"""What a cache wants done for `AsyncClient`: its storage is awaited, or called in a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from trilane.client._flow.caching import Answered, Kept, Save, StorageCall
from trilane.client._flow.kept import KeptBase, SavedBase
from trilane.client._flow.steps import CacheStep
from trilane.client._saving import AsyncSaving, Saving

from .response import AsyncResponse

if TYPE_CHECKING:
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


class KeptAsyncResponse(KeptBase, AsyncResponse):
    """A response of the cache."""

    __slots__ = ("_pool", "_request", "_rest", "_stream", "from_cache", "revalidated")

    def __init__(self, pool: Pool, kept: Kept) -> None:
        self._pool: Pool | None = pool
        self._take(kept)

    async def _next(self, stream: Iterator[bytes] | AsyncIterator[bytes]) -> bytes:
        if isinstance(stream, AsyncIterator):
            return await anext(stream, b"")
        assert self._pool is not None  # noqa: S101 - only a pickled one has none, and no stream
        return await self._pool.to_thread(next, stream, b"")


class SavedAsyncResponse(SavedBase["AsyncSaving | InThreads"], AsyncResponse):
    """A response of a server whose content is stored as it is read."""

    __slots__ = ()

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

    async def _settle(self) -> None:
        saving, self._saving = self._saving, None
        if saving is None:
            return
        if self._error is None:
            await saving.take(b"")
        else:
            await saving.give_up()
