"""What a cache wants done for `Client`: its storage is called, and gives and takes responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trilane.client._flow.caching import Answered, Kept, Save, StorageCall
from trilane.client._flow.kept import KeptBase, SavedBase
from trilane.client._flow.response import result_of
from trilane.client._flow.steps import CacheStep
from trilane.client._pool.response import Response
from trilane.client._saving import Saving


def done(step: CacheStep) -> Any:
    """What the step asks for.

    Raises:
        TypeError: the storage is for event loops.
    """
    cache = step.cache
    if cache.is_asynchronous:
        raise TypeError(
            f"{type(cache.storage).__name__} can only be awaited: give Client a storage that is"
            " not asynchronous, such as hishel.SqliteStorage"
        )
    if isinstance(step, StorageCall):
        return getattr(cache.storage, step.method)(*step.arguments)
    if isinstance(step, Answered):
        return KeptResponse(step.kept)
    assert isinstance(step, Save)  # noqa: S101 - there is no other step
    return SavedResponse.over(step.response, Saving(step))


class KeptResponse(KeptBase, Response):
    """A response of the cache."""

    __slots__ = ("_rest", "_stream", "from_cache", "revalidated")

    def __init__(self, kept: Kept) -> None:
        self._take(kept)
        self._how = kept.prepared.how

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """As `Response.readinto`."""
        return _into(self, buffer)

    def _read_all(self) -> bytes:
        return result_of(self._together(-1))

    def _raw(self, amount: int) -> bytes:
        return result_of(self._piece(amount))

    async def _next(self, stream: Iterator[bytes]) -> bytes:
        return next(stream, b"")


class SavedResponse(SavedBase[Saving], Response):
    """A response of a server whose content is stored as it is read."""

    __slots__ = ()

    def load_at_once(self) -> None:
        """As `Response.load_at_once`: it is read in pieces, each of which is stored."""
        try:
            self.load()
        finally:
            self.close()

    def close(self) -> None:
        """As `Response.close`; what had come complete is stored."""
        super().close()
        self._settle()

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """As `Response.readinto`."""
        return _into(self, buffer)

    def _read_all(self) -> bytes:
        return result_of(self._together(-1))

    def _raw(self, amount: int) -> bytes:
        # The end of the content closes, and the last piece has to come before.
        saving, self._saving = self._saving, None
        try:
            piece = super()._raw(amount)
        except BaseException:
            if saving is not None:
                saving.give_up()
            raise
        if saving is not None:
            if piece:
                saving.take(piece)
            self._saving = saving
            if self._exchange is None:
                self._settle()
        return piece

    def _settle(self) -> None:
        saving, self._saving = self._saving, None
        if saving is None:
            return
        if self._error is None:
            saving.take(b"")
        else:
            saving.give_up()


def _into(response: Response, buffer: bytearray | memoryview) -> int:
    view = memoryview(buffer).cast("B")
    piece = response.read1(view.nbytes)
    view[: len(piece)] = piece
    return len(piece)
