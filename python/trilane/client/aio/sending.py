"""One request, sent until it has a response or cannot have one."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from trilane._core import Exchange
from trilane.client.errors import ClientClosed, ConnectionClosed, Error
from trilane.client.request import Request
from trilane.client.retry import pause
from trilane.client.routing import Route
from trilane.client.timeouts import Timeouts

from .call import Call
from .link import Link
from .pool import Pool

_MISDIRECTED: Final = 421


class Answer(NamedTuple):
    """The head of a response, and what its content will come from."""

    call: Call
    link: Link
    exchange: Exchange
    status: int
    fields: list[tuple[str, str]] | None
    """Where they were needed; else the exchange has them."""


async def send(
    pool: Pool, route: Route, request: Request, limits: Timeouts, *, learns: bool
) -> Answer:
    """Send the request, again where its server provably did not process it.

    `learns`: whether `alt-svc` is wanted.

    Errors: every one of `errors`; exceptions of the content's own pass through.
    """
    attempts = 0
    while True:
        call = Call(pool, route, request, limits)
        attempts += 1
        try:
            status = await pool.head(call)
        except Error as error:
            if call.link is None:
                raise  # There was no connection: the router has tried what there was to try.
            if isinstance(error, ConnectionClosed):
                pool.broken(call.link)
            wait = pause(error, request.method, attempts, replayable=request.replayable)
            if wait is None or pool.router.is_closed:
                raise
            await call.stopped()
            # Also where the wait is 0: the loop may have to see the end of a connection.
            await asyncio.sleep(wait)
            continue
        link, exchange = call.link, call.exchange
        if link is None or exchange is None:
            raise ClientClosed("the client was closed while a request waited")
        fields = None
        if learns:
            fields = exchange.fields()
            pool.learn(route.origin, fields)
        if status == _MISDIRECTED and pool.misdirected(link) and request.replayable:
            # RFC 9110 §15.5.20: not this server's business, so ask the origin itself.
            pool.finish(call)
            continue
        return Answer(call, link, exchange, status, fields)
