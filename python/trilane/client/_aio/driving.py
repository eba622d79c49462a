"""What a client does for one call on an event loop: a `Flow` is driven, by the loop."""

from __future__ import annotations

from typing import Any, Protocol

from trilane.client._flow.preparing import Prepared
from trilane.client._flow.steps import Drain, Flow, Load, Step
from trilane.client.errors import Error

from .pool import Pool
from .response import AsyncResponse
from .sending import send


class Ask(Protocol):
    """Sends one request: its response, content unread."""

    async def __call__(self, pool: Pool, prepared: Prepared, *, whole: bool) -> AsyncResponse:
        """`whole`: whether all of the response is wanted, at once."""


async def drive(pool: Pool, flow: Flow, *, whole: bool, ask: Ask = send) -> AsyncResponse:
    """The response that a flow comes to, its content unread where it does not want it.

    Its requests are sent by `ask`.

    Raises:
        Error: any of `errors`; exceptions of the content's own pass through.
    """
    try:
        step: Step = next(flow)
        while True:
            try:
                result = await _done(pool, step, ask, whole=whole)
            except Error as error:
                step = flow.throw(error)
            else:
                step = flow.send(result)
    except StopIteration as end:
        response: AsyncResponse = end.value
        return response
    finally:
        flow.close()


async def _done(pool: Pool, step: Step, ask: Ask, *, whole: bool) -> Any:
    if isinstance(step, Prepared):
        return await ask(pool, step, whole=whole)
    if isinstance(step, float):
        await pool.sleep(step)
    elif isinstance(step, Load):
        if not step.response.load():
            await step.response.load_at_once()
    elif isinstance(step, Drain):
        await step.response.drain(step.most)
    else:
        from .caching import done  # noqa: PLC0415 - only with cache=

        return await done(pool, step)
    return None
