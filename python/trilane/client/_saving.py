"""The content of a response on its way into a cache's storage, piece by piece as it is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import TYPE_CHECKING, Any, cast

from trilane.client._flow.caching import Feed

if TYPE_CHECKING:
    from hishel import AsyncBaseStorage, BaseStorage

    from trilane.client._flow.caching import Save


class Saving:
    """For a storage that may make its thread wait."""

    def __init__(self, step: Save) -> None:
        storage = cast("BaseStorage", step.cache.storage)
        self._feed = Feed()
        step.answer.stream = iter(self._feed)
        entry = storage.create_entry(step.asked, step.answer, step.key)
        # It takes a piece for each that it gives, and stores the response when there are no more.
        self._stream: Any = entry.response.stream

    def take(self, piece: bytes) -> None:
        """A piece was read; an empty one is the end, and the response is stored."""
        self._feed.piece = piece
        next(self._stream, None)

    def give_up(self) -> None:
        """Not all of it was read: nothing is stored."""
        if isinstance(self._stream, Generator):
            self._stream.close()


class AsyncSaving:
    """For a storage that is awaited."""

    def __init__(self, feed: Feed, stream: AsyncIterator[bytes]) -> None:
        self._feed = feed
        self._stream = stream

    @classmethod
    async def begin(cls, step: Save) -> AsyncSaving:
        """Make the entry that is hidden until its content has been saved."""
        feed = Feed()

        async def pieces() -> AsyncIterator[bytes]:
            for piece in feed:
                yield piece

        step.answer.stream = pieces()
        storage = cast("AsyncBaseStorage", step.cache.storage)
        entry = await storage.create_entry(step.asked, step.answer, step.key)
        return cls(feed, cast("AsyncIterator[bytes]", entry.response.stream))

    async def take(self, piece: bytes) -> None:
        """As `Saving.take`."""
        self._feed.piece = piece
        await anext(self._stream, None)

    async def give_up(self) -> None:
        """As `Saving.give_up`."""
        if isinstance(self._stream, AsyncGenerator):
            await self._stream.aclose()
