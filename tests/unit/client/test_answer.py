"""How long a `Response` waits: each wait for more has the whole limit, whatever came before."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from trilane.client.answer import Response
from trilane.client.sending import Sending
from trilane.client.timeouts import Timeouts

PIECES = [b"hello", b" ", b"world"]


class Exchange:
    """Content that comes in pieces; it notes what each wait was allowed."""

    version, stream_id, reason, informational, unread = "h1", 1, "OK", (), 0

    def __init__(self) -> None:
        self.left = list(PIECES)
        self.limits: list[float | None] = []

    @property
    def complete(self) -> bool:
        return not self.left

    def read1(self, _amount: int, limit: float | None) -> bytes:
        self.limits.append(limit)
        return self.left.pop(0)

    def fields(self) -> list[tuple[str, str]]:
        return []

    def trailers(self) -> list[tuple[str, str]]:
        return []


def _response() -> tuple[Response, Exchange]:
    exchange = Exchange()
    sent: Any = Mock()
    sent.exchange, sent.entry.inherited = exchange, False
    how = Sending(Mock(), Mock(), Timeouts(read=7.0))
    sent.call = (Mock(method="GET"), Mock(), how)
    return Response(sent, 200), exchange


def test_the_read_limit_is_for_each_wait() -> None:
    for read in (
        lambda response: response.content,
        lambda response: response.read(11),
        b"".join,
        lambda response: b"".join(response.iter_raw()),
    ):
        response, exchange = _response()
        assert read(response) == b"hello world"
        assert exchange.limits == [7.0] * len(PIECES)
