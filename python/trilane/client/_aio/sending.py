"""One request, sent until it has a response or cannot have one."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from time import monotonic

from trilane.client._flow import log
from trilane.client._flow.altsvc import learn
from trilane.client._flow.preparing import Prepared
from trilane.client._flow.repeating import failed, passes_over
from trilane.client._flow.watching import Hook, Watch
from trilane.client.errors import Error

from .call import Call
from .pool import Pool
from .response import AsyncResponse


async def send(pool: Pool, prepared: Prepared, *, whole: bool) -> AsyncResponse:
    """Send the request, again where its server provably did not process it: its response, unread.

    `whole`: whether all of the response is wanted, at once.

    Raises:
        Error: any of `errors`; exceptions of the content's own pass through.
    """
    request, _, how = prepared
    if how.watch is not None and how.watched is None:
        return await _watched(pool, prepared, how.watch, whole=whole)
    began = monotonic()
    attempts = 0
    while True:
        call = Call(pool, request, how, whole=whole)
        attempts += 1
        try:
            status = await pool.head(call)
        except Error as error:
            if how.on_step is not None:
                how.on_step("failed", error)
            if call.used is None:
                raise  # There was no connection: the router has tried what there was to try.
            sent = call.exchange is not None
            wait = failed(pool, call.used, error, request, attempts, sent=sent)
            if wait is None:
                raise
            log.again(request, call.used, error, attempts)
            await call.stopped()
            # Also where the wait is 0: the loop may have to see the end of a connection.
            await pool.sleep(wait)
            continue
        exchange = call.exchange
        if how.learns and exchange is not None and exchange.has("alt-svc"):
            learn(pool, how.route.origin, exchange.fields())
        entry = call.entry
        if entry is None or not passes_over(pool, entry, status, request, attempts):
            response = AsyncResponse(call, status, prepared)
            response.took = monotonic() - began
            return response
        log.again(request, entry, None, attempts)
        pool.finish(call)
        await call.stopped()


async def _watched(pool: Pool, prepared: Prepared, wanted: Watch, *, whole: bool) -> AsyncResponse:
    """`send`, seen by those who watch."""
    prepared, watched = wanted.over(prepared)
    with watched:
        await _call(wanted.on_request, watched.request)
        watched.begin()
        response = await send(pool, prepared, whole=whole)
        try:
            watched.answered(response)
            await _call(wanted.on_response, response)
        except BaseException:
            response.close()
            raise
        return response


async def _call(hooks: Sequence[Hook], argument: object) -> None:
    for hook in hooks:
        given = hook(argument)
        if isinstance(given, Awaitable):
            await given
