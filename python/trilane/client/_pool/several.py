"""Many requests from one thread, their responses in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from trilane.client._flow.preparing import Prepared
from trilane.client._pool.leasing import Pool
from trilane.client._pool.response import Response
from trilane.client._pool.sending import Sent, begin, begin_watched, finish, watch

MOST_OF_HTTP_1: Final = 6
"""Requests on their way over HTTP/1.1, each on a connection of its own."""


def send_all(pool: Pool, requests: Iterable[Prepared], ahead: int) -> Iterator[Response]:
    """Send them, up to `ahead` before the oldest is answered; responses come with their content."""
    on_their_way: deque[Sent] = deque()
    try:
        for prepared in requests:
            watched, wanted = None, prepared.how.watch
            if wanted is not None:
                prepared, watched = watch(prepared, wanted)  # noqa: PLW2901 - the same request
            while True:
                # One's own requests may be what takes all the room: then the oldest has to end.
                if watched is None:
                    sent = begin(pool, prepared, wait=not on_their_way)
                else:
                    sent = begin_watched(pool, prepared, watched, wait=not on_their_way)
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
            if sent.prepared.how.watched is not None:
                sent.prepared.how.watched.over(None)


def _loaded(sent: Sent) -> Response:
    response = finish(sent)
    response.load_at_once()
    return response
