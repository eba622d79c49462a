"""One request, sent until it has a response or cannot have one."""

from __future__ import annotations

import asyncio

from trilane.client.errors import ConnectionClosed, Error
from trilane.client.request import Request
from trilane.client.retry import asks_elsewhere, misdirected, pause
from trilane.client.routing import Route
from trilane.client.timeouts import Timeouts

from .call import Call
from .pool import Pool


async def send(
    pool: Pool, route: Route, request: Request, limits: Timeouts, *, learns: bool, whole: bool
) -> tuple[Call, int]:
    """Send the request, again where its server provably did not process it; gives the status.

    `learns`: whether `alt-svc` is wanted; `whole`: whether all of the response is, at once.

    Errors: every one of `errors`; exceptions of the content's own pass through.
    """
    attempts = 0
    while True:
        call = Call(pool, route, request, limits, whole=whole)
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
        if learns and call.exchange is not None:
            call.fields = call.exchange.fields()
            pool.learn(route.origin, call.fields)
        entry = call.entry
        if entry is None or not misdirected(status, alternative=entry.alternative is not None):
            return call, status
        pool.misdirected(entry)
        if not asks_elsewhere(attempts, replayable=request.replayable):
            return call, status
        pool.finish(call)
