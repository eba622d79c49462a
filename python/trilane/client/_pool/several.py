"""Many requests from one thread, their responses in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Final, TypeAlias

from trilane.client._flow.preparing import Prepared
from trilane.client._flow.steps import Flow
from trilane.client._pool.driving import drive, first_of
from trilane.client._pool.leasing import Pool
from trilane.client._pool.response import Response
from trilane.client._pool.sending import Sent, begin, begin_watched, finish, watch

OnItsWay: TypeAlias = tuple[Sent | Response, Flow | None]
Notice: TypeAlias = Callable[[Response], object]

MOST_OF_HTTP_1: Final = 6
"""Requests on their way over HTTP/1.1, each on a connection of its own."""


def send_all(  # noqa: C901, PLR0912 - one request after another
    pool: Pool, requests: Iterable[Prepared | Flow], ahead: int, notice: Notice
) -> Iterator[Response]:
    """Send them, up to `ahead` before the oldest is answered; responses come with their content.

    `notice` is called with each response that no flow has seen.
    """
    on_their_way: deque[OnItsWay] = deque()
    try:
        for begun in requests:
            flow = None if isinstance(begun, Prepared) else begun
            prepared = begun if isinstance(begun, Prepared) else first_of(begun)
            if not isinstance(prepared, Prepared):
                # The cache had it.
                on_their_way.append((prepared, None))
                if len(on_their_way) >= ahead:
                    yield _loaded(pool, on_their_way.popleft(), notice)
                continue
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
        for one, _ in on_their_way:
            if isinstance(one, Response):
                continue
            one.end()
            if one.prepared.how.watched is not None:
                one.prepared.how.watched.over(None)


def _loaded(pool: Pool, item: OnItsWay, notice: Notice) -> Response:
    sent, flow = item
    if isinstance(sent, Response):
        response = sent
    elif flow is not None:
        response = drive(pool, flow, sent)
    else:
        response = finish(sent)
        notice(response)
    response.load_at_once()
    return response
