"""Which loop runs here, and the kind of pool for it."""

from __future__ import annotations

import asyncio
import sys

from trilane.client.errors import LocalError

from .pool import Pool


def running() -> asyncio.AbstractEventLoop:
    """The loop of the task that asks: asyncio's, or what stands for one in a run of Trio.

    Raises:
        LocalError: there is none.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        # Imported where Trio is: others need not have it.
        from .on_trio import TrioLoop  # noqa: PLC0415

        return TrioLoop.current()
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise LocalError(
            "no event loop is running: AsyncClient is for tasks of asyncio or of Trio"
        ) from None


def pool_for(loop: asyncio.AbstractEventLoop) -> type[Pool]:
    """The kind of pool for what `running` gave."""
    if "trio" in sys.modules:
        from .on_trio import TrioLoop, TrioPool  # noqa: PLC0415 - as above

        if isinstance(loop, TrioLoop):
            return TrioPool
    return Pool
