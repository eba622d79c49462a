"""Many requests from one thread, their responses in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Final, TypeAlias

from trilane.client._flow.preparing import Prepared
from trilane.client._flow.steps import Flow
from trilane.client._pool.driving import drive
from trilane.client._pool.leasing import Pool
from trilane.client._pool.response import Response
from trilane.client._pool.sending import Sent, begin, begin_watched, finish, watch

OnItsWay: TypeAlias = tuple[Sent, Flow | None]
Notice: TypeAlias = Callable[[Response], object]

MOST_OF_HTTP_1: Final = 6
"""Requests on their way over HTTP/1.1, each on a connection of its own."""


def send_all(
    pool: Pool, requests: Iterable[Prepared | Flow], ahead: int, notice: Notice
) -> Iterator[Response]:
    """Send them, up to `ahead` before the oldest is answered; responses come with their content.

    `notice` is called with each response that no flow has seen.
    """
    on_their_way: deque[OnItsWay] = deque()
    try:
        for begun in requests:
            flow = None if isinstance(begun, Prepared) else begun
            prepared = begun if isinstance(begun, Prepared) else next(begun)
            # What comes first is a request: a pause or a redirect needs a response.
            assert isinstance(prepared, Prepared)  # noqa: S101
            watched, wanted = None, prepared.how.watch
            if wanted is not None:
                prepared, watched = watch(prepared, wanted)
            while True:
                # One's own requests may be what takes all the room: then the oldest has to end.
                if watched is None:
                    sent = begin(pool, prepared, wait=not on_their_way, began=monotonic())
                else:
                    sent = begin_watched(pool, prepared, watched, wait=not on_their_way)
                if sent is not None:
                    break
                yield _loaded(pool, on_their_way.popleft(), notice)
            on_their_way.append((sent, flow))
            most = ahead if sent.entry.shared else min(ahead, MOST_OF_HTTP_1)
            while len(on_their_way) >= most:
                yield _loaded(pool, on_their_way.popleft(), notice)
        while on_their_way:
            yield _loaded(pool, on_their_way.popleft(), notice)
    finally:
        for sent, _ in on_their_way:
            sent.end()
            if sent.prepared.how.watched is not None:
                sent.prepared.how.watched.over(None)


def _loaded(pool: Pool, item: OnItsWay, notice: Notice) -> Response:
    sent, flow = item
    if flow is not None:
        response = drive(pool, flow, sent)
    else:
        response = finish(sent)
        notice(response)
    response.load_at_once()
    return response
