"""Responses that a cache gives or stores, but for waiting: what both faces decide alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from trilane.client._flow.head import Past
from trilane.client._flow.response import BaseResponse
from trilane.client._flow.whole import not_read
from trilane.client.errors import LocalError

if TYPE_CHECKING:
    from trilane.client._flow.caching import Kept
    from trilane.client._flow.request import Request

Storing = TypeVar("Storing")


class KeptBase(BaseResponse):
    """A response of the cache. A subclass has the slots, and what takes a piece of its stream."""

    if not TYPE_CHECKING:  # The checker would miss the slots that subclasses have.
        __slots__ = ()

    _request: Request
    _rest: bytes
    """What was taken of the stream and not yet read."""
    _stream: Iterator[bytes] | AsyncIterator[bytes] | None
    """The storage's pieces of the content; None where no more is read."""

    def _take(self, kept: Kept) -> None:
        """Become what the cache has."""
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
            default_encoding=how.default_encoding,
        )
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
            raise self._fail(self._lost(error)) from error
        if not piece:
            self._stream = None
        cut = len(piece) if amount < 0 else amount
        self._rest = piece[cut:]
        return piece[:cut]

    def _lost(self, error: Exception) -> LocalError:
        """The error for stored content that cannot be read to its end."""
        return LocalError(f"the stored content of {self.url} was lost while it was read: {error}")

    @abstractmethod
    async def _next(self, stream: Any) -> bytes:
        """The next piece of the storage's stream; b"" at its end."""

    def _request_sent(self) -> Request:
        return self._request

    def __getstate__(self) -> dict[str, Any]:
        """What pickle keeps of any response, and whence it came."""
        return {**super().__getstate__(), "cached": (self.from_cache, self.revalidated)}

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)  # type: ignore[safe-super] # the face's response has it
        self.from_cache, self.revalidated = state["cached"]
        self._stream = None
        self._rest = b""


class SavedBase(BaseResponse, Generic[Storing]):
    """A response of a server whose content is stored as it is read."""

    if not TYPE_CHECKING:  # The checker would miss the slots that subclasses have.
        __slots__ = ()

    _saving: Storing | None
    """What stores it, until its content has ended."""

    @classmethod
    def over(cls, response: BaseResponse, saving: Storing) -> Self:
        """The same response, from now on."""
        response.__class__ = cls
        assert isinstance(response, cls)  # noqa: S101 - for the type checker
        response._saving = saving  # noqa: SLF001 - it is its own
        return response

    def __repr__(self) -> str:
        return super().__repr__().replace("<Saved", "<", 1)

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)  # type: ignore[safe-super] # the face's response has it
        self._saving = None
