"""Responses of either client to content that a test writes down, without a connection."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeAlias
from unittest.mock import Mock

from trilane.client._aio.response import AsyncResponse
from trilane.client._flow.head import Past
from trilane.client._flow.preparing import How, Prepared
from trilane.client._flow.timeouts import Timeouts
from trilane.client._flow.whole import Bounds
from trilane.client._pool.response import Response

Step: TypeAlias = bytes | BaseException
NO_BOUNDS = Bounds()


class Scripted:
    """An exchange whose content comes in pieces, of which one may be an exception.

    `limits` notes what each wait was allowed. Pieces that `lie` there have all come before.
    """

    version, stream_id, reason, quiet = "h1", 1, "OK", 0.0

    def __init__(
        self, steps: Sequence[Step], fields: Sequence[tuple[str, str]] = (), *, lie: bool = False
    ) -> None:
        self._left = list(steps)
        self._fields = list(fields)
        self._lie = lie
        self.informational: list[tuple[int, list[tuple[str, str]]]] = []
        self.limits: list[float | None] = []
        lengths = [value for name, value in fields if name == "content-length"]
        self.content_length = int(lengths[0]) if lengths else None

    @property
    def complete(self) -> bool:
        return self._lie or not self._left

    @property
    def unread(self) -> int:
        return len(b"".join(self._there())) if self._lie else 0

    def _there(self) -> list[bytes]:
        return [piece for piece in self._left if isinstance(piece, bytes)]

    def read(self, _amount: int, _limit: float | None) -> bytes:
        content = b"".join(self._there())
        self._left.clear()
        return content

    def read1(self, amount: int, limit: float | None) -> bytes:
        self.limits.append(limit)
        if not self._left:
            return b""
        step = self._left[0]
        if isinstance(step, BaseException):
            # Not itself: what reads may add to it.
            raise copy.copy(step)
        piece = step if amount < 0 else step[:amount]
        self._left[0] = step[len(piece) :]
        if not self._left[0]:
            del self._left[0]
        return piece

    def fields(self) -> list[tuple[str, str]]:
        return list(self._fields)

    def has(self, name: str) -> bool:
        return any(given.lower() == name for given, _ in self._fields)

    def sections(self) -> Past:
        return Past(list(self._fields), self.reason, self.informational, self.trailers())

    def trailers(self) -> list[tuple[str, str]]:
        return []

    def cancel(self) -> None:
        pass


class Asynchronous:
    """An `AsyncResponse` with the methods of `Response`: nothing that it awaits is not there."""

    def __init__(self, response: AsyncResponse) -> None:
        self._response = response

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._response, name)
        if not asyncio.iscoroutinefunction(found):
            return found
        return lambda *arguments, **options: _run(found(*arguments, **options))

    @property
    def content(self) -> bytes:
        content: bytes = _run(self._response.aread())
        return content

    @property
    def text(self) -> str:
        _run(self._response.aread())
        return self._response.text

    def iter_bytes(self, size: int | None = None) -> Iterator[bytes]:
        return _iterate(self._response.aiter_bytes(size))

    def iter_raw(self, size: int = 65_536) -> Iterator[bytes]:
        return _iterate(self._response.aiter_raw(size))

    def iter_lines(self) -> Iterator[str]:
        return _iterate(self._response.aiter_lines())

    def iter_json_lines(self) -> Iterator[Any]:
        return _iterate(self._response.aiter_json_lines())

    def iter_events(self) -> Iterator[Any]:
        return _iterate(self._response.aiter_events())


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def _iterate(items: AsyncIterator[Any]) -> Iterator[Any]:
    while True:
        try:
            yield _run(anext(items))  # type: ignore[arg-type]
        except StopAsyncIteration:
            return


def blocking(
    exchange: Scripted, bounds: Bounds = NO_BOUNDS, *, decodes: bool = True, method: str = "GET"
) -> Any:
    """A `Response`."""
    sent: Any = Mock()
    sent.exchange, sent.entry.inherited = exchange, False
    sent.is_sending, sent.failure.return_value = False, None
    sent.why_stalled.return_value = None
    sent.prepared = _prepared(bounds, decodes=decodes, method=method)
    return Response(sent, 200)


def asynchronous(
    exchange: Scripted, bounds: Bounds = NO_BOUNDS, *, decodes: bool = True, method: str = "GET"
) -> Any:
    """An `AsyncResponse`, behind the face of a `Response`."""
    call: Any = Mock(error=None, exchange=exchange, sending=None, stalled=None)
    call.request.method = method
    call.timeouts = Timeouts(read=7.0)
    call.link.expect.return_value = None
    prepared = _prepared(bounds, decodes=decodes, method=method)
    return Asynchronous(AsyncResponse(call, 200, prepared))


def _prepared(bounds: Bounds, *, decodes: bool, method: str) -> Prepared:
    how = How(Mock(), Timeouts(read=7.0), decodes=decodes, bounds=bounds)
    return Prepared(Mock(method=method), Mock(url="http://a/"), how)


Make: TypeAlias = Callable[..., Any]
KINDS: dict[str, Make] = {"blocking": blocking, "asyncio": asynchronous}
