"""Many requests from one thread, their responses in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import monotonic
from typing import Final, NamedTuple, Never, TypeAlias

from trilane.client._flow.preparing import Prepared
from trilane.client._flow.steps import Flow
from trilane.client._pool.driving import drive, first_of
from trilane.client._pool.leasing import Pool
from trilane.client._pool.response import Response
from trilane.client._pool.sending import Sent, begin, begin_watched, finish, watch


class _Failed(NamedTuple):
    """A request that could not be sent. It is told when those before it have been answered."""

    error: Exception
    prepared: Prepared | None = None
    """None where it could not even be made."""


OnItsWay: TypeAlias = tuple[Sent | Response | _Failed, Flow | None]
Notice: TypeAlias = Callable[[Response], object]
Prepare: TypeAlias = Callable[[str], Prepared | Flow]

MOST_OF_HTTP_1: Final = 6
"""Requests on their way over HTTP/1.1, each on a connection of its own."""


def send_all(  # noqa: C901 - one request after another
    pool: Pool,
    urls: Iterable[str],
    prepare: Prepare,
    ahead: int,
    notice: Notice,
    *,
    keeps_errors: bool,
) -> Iterator[Response | Exception]:
    """Send them, up to `ahead` before the oldest is answered; responses come with their content.

    `notice` is called with each response that no flow has seen. An error is given in its place
    where one `keeps_errors`, and else raised there.
    """
    on_their_way: deque[OnItsWay] = deque()
    given = _Given(urls)

    def oldest() -> Response | Exception:
        try:
            return _loaded(pool, on_their_way.popleft(), notice)
        except Exception as error:
            if not keeps_errors:
                raise
            return error

    try:
        for url in given:
            begun, flow = _prepared(url, prepare)
            sent: Sent | Response | _Failed | None
            if isinstance(begun, Prepared):
                # One's own requests may be what takes all the room: then the oldest has to end.
                while (sent := _sent(pool, begun, wait=not on_their_way)) is None:
                    yield oldest()
            else:
                # It failed, or the cache had it.
                sent, flow = begun, None
            on_their_way.append((sent, flow))
            if isinstance(sent, _Failed) and flow is None and not keeps_errors:
                break
            few = isinstance(sent, Sent) and not sent.entry.shared
            while len(on_their_way) >= (min(ahead, MOST_OF_HTTP_1) if few else ahead):
                yield oldest()
        while on_their_way:
            yield oldest()
        if given.error is not None:
            raise given.error
    finally:
        for one, _ in on_their_way:
            if isinstance(one, Sent):
                one.end()
                if one.prepared.how.watched is not None:
                    one.prepared.how.watched.over(None)


class _Given:
    """The URLs of an iterable up to its end, or up to an `error` of it."""

    def __init__(self, urls: Iterable[str]) -> None:
        self.error: Exception | None = None
        self._urls = iter(urls)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self._urls)
        except StopIteration:
            raise
        except Exception as error:
            # It is raised behind the responses before it.
            self.error = error
            raise StopIteration from error


def _prepared(url: str, prepare: Prepare) -> tuple[Prepared | Response | _Failed, Flow | None]:
    """The request for a URL, or what there is in its place, and its flow."""
    try:
        made = prepare(url)
        flow = None if isinstance(made, Prepared) else made
        begun = made if isinstance(made, Prepared) else first_of(made)
        if isinstance(begun, Prepared) and begun.how.watch is not None:
            begun, _ = watch(begun, begun.how.watch)
    except Exception as error:  # noqa: BLE001 - it is raised, or given, in its place
        return _Failed(error), None
    return begun, flow


def _sent(pool: Pool, prepared: Prepared, *, wait: bool) -> Sent | _Failed | None:
    """The request on its way, or why it is not; None: it would have to `wait`, and may not."""
    watched = prepared.how.watched
    try:
        if watched is None:
            return begin(pool, prepared, wait=wait, began=monotonic())
        return begin_watched(pool, prepared, watched, wait=wait)
    except Exception as error:  # noqa: BLE001 - as above
        return _Failed(error, prepared)


def _loaded(pool: Pool, item: OnItsWay, notice: Notice) -> Response:
    sent, flow = item
    if isinstance(sent, Response):
        response = sent
    elif isinstance(sent, _Failed):
        if flow is None or sent.prepared is None:
            raise sent.error
        response = drive(pool, flow, (sent.prepared, partial(_fail, sent.error)))
    elif flow is not None:
        response = drive(pool, flow, (sent.prepared, partial(finish, sent)))
    else:
        response = finish(sent)
        notice(response)
    response.load_at_once()
    return response


def _fail(error: Exception) -> Never:
    raise error
