"""What a cache wants done for `Client`: its storage is called, and gives and takes responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trilane.client._flow.caching import Answered, Kept, Save, StorageCall
from trilane.client._flow.head import Past
from trilane.client._flow.response import BaseResponse, result_of
from trilane.client._flow.steps import CacheStep
from trilane.client._flow.whole import not_read
from trilane.client._pool.response import Response
from trilane.client._saving import Saving, lost


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


class KeptResponse(Response):
    """A response of the cache."""

    __slots__ = ("_rest", "_stream", "from_cache", "revalidated")

    def __init__(self, kept: Kept) -> None:
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
        self._request, self._how = request, how
        self._rest = b""
        self._stream: Iterator[bytes] | None = None
        self._restore(kept.state)
        self._stream = iter(kept.stream)

    @property
    def is_closed(self) -> bool:
        """Whether no more of its content is read."""
        return self._stream is None

    def close(self) -> None:
        """Read no more of its content. Idempotent."""
        stream, self._stream = self._stream, None
        if stream is not None and self._content is None and self._error is None:
            self._error = not_read(f"the response of {self.url}")

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """As `Response.readinto`."""
        return _into(self, buffer)

    def _read_all(self) -> bytes:
        return result_of(self._together(-1))

    def _raw(self, amount: int) -> bytes:
        stream = self._stream
        if stream is None or not amount:
            self._expect_no_error()
            return b""
        self._begun = True
        try:
            piece = self._rest or next(stream, b"")
        except Exception as error:
            raise self._fail(lost(self.url, error)) from error
        if not piece:
            self._stream = None
        cut = len(piece) if amount < 0 else amount
        self._rest = piece[cut:]
        return piece[:cut]

    def __getstate__(self) -> dict[str, Any]:
        """As `Response.__getstate__`, and whence it came."""
        return {**super().__getstate__(), "cached": (self.from_cache, self.revalidated)}

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        self.from_cache, self.revalidated = state["cached"]
        self._stream = None
        self._rest = b""


class SavedResponse(Response):
    """A response of a server whose content is stored as it is read."""

    __slots__ = ()

    _saving: Saving | None
    """What stores it, until its content has ended."""

    @classmethod
    def over(cls, response: Response, saving: Saving) -> SavedResponse:
        """The same response, from now on."""
        response.__class__ = cls
        assert isinstance(response, cls)  # noqa: S101 - for the type checker
        response._saving = saving  # noqa: SLF001 - it is its own
        return response

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

    def __repr__(self) -> str:
        return super().__repr__().replace("<Saved", "<", 1)

    def _settle(self) -> None:
        saving, self._saving = self._saving, None
        if saving is None:
            return
        if self._error is None:
            saving.take(b"")
        else:
            saving.give_up()

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        self._saving = None


def _into(response: Response, buffer: bytearray | memoryview) -> int:
    view = memoryview(buffer).cast("B")
    piece = response.read1(view.nbytes)
    view[: len(piece)] = piece
    return len(piece)
