"""Many requests from one thread, their responses in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from .answer import Response
from .sending import Call, Sent, begin, finish

MOST_OF_HTTP_1: Final = 6
"""Requests on their way over HTTP/1.1, each on a connection of its own."""


def send_all(calls: Iterable[Call], ahead: int) -> Iterator[Response]:
    """Send them, up to `ahead` before the oldest is answered; responses come with their content."""
    on_their_way: deque[Sent] = deque()
    try:
        for call in calls:
            while True:
                # One's own requests may be what takes all the room: then the oldest has to end.
                sent = begin(call, wait=not on_their_way)
                if sent is not None:
                    break
                yield _loaded(on_their_way.popleft())
            on_their_way.append(sent)
            most = ahead if sent.entry.shared else min(ahead, MOST_OF_HTTP_1)
            while len(on_their_way) >= most:
                yield _loaded(on_their_way.popleft())
        while on_their_way:
            yield _loaded(on_their_way.popleft())
    finally:
        for sent in on_their_way:
            sent.end()


def _loaded(sent: Sent) -> Response:
    response = finish(sent)
    response.load_at_once()
    return response
