"""What a client does for one call in a thread: a `Flow` is driven, by sockets and by sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from trilane.client._flow.preparing import Prepared
from trilane.client._flow.steps import CacheStep, Drain, Flow, Load, Step
from trilane.client._pool.leasing import Pool
from trilane.client._pool.response import Response
from trilane.client._pool.sending import send
from trilane.client.errors import Error

Ask: TypeAlias = Callable[[Pool, Prepared], Response]
"""Sends one request: its response, content unread."""
Begun: TypeAlias = tuple[Prepared, Callable[[], Response]]
"""A request that was begun, and what finishes it."""


def drive(pool: Pool, flow: Flow, begun: Begun | None = None, *, ask: Ask = send) -> Response:
    """The response that a flow comes to, its content unread where it does not want it.

    `begun` is its first request where that was begun; others are sent by `ask`.

    Raises:
        Error: any of `errors`; exceptions of the content's own pass through.
    """
    result: Any = None
    try:
        step: Step = next(flow) if begun is None else begun[0]
        while True:
            try:
                result = _done(pool, step, ask) if begun is None else begun[1]()
            except Error as error:
                step = flow.throw(error)
            else:
                step = flow.send(result)
            begun = None
    except StopIteration as end:
        response: Response = end.value
        return response
    finally:
        flow.close()


def _done(pool: Pool, step: Step, ask: Ask) -> Any:
    if isinstance(step, Prepared):
        return ask(pool, step)
    if isinstance(step, float):
        time.sleep(step)
    elif isinstance(step, Load):
        step.response.load_at_once()
    elif isinstance(step, Drain):
        step.response.drain(step.most)
    else:
        return _cache_step(step)
    return None


def first_of(flow: Flow) -> Prepared | Response:
    """The request that a flow begins with, or the response that it has without one."""
    try:
        step: Step = next(flow)
        while isinstance(step, CacheStep):
            step = flow.send(_cache_step(step))
    except StopIteration as end:
        response: Response = end.value
        return response
    # What comes first is a request: a pause or a redirect needs a response.
    assert isinstance(step, Prepared)  # noqa: S101
    return step


def _cache_step(step: CacheStep) -> Any:
    from trilane.client._pool.caching import done  # noqa: PLC0415 - only with cache=

    return done(step)
