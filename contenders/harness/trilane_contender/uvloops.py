"""Event loops of uvloop in the place of asyncio's."""

from __future__ import annotations

import asyncio


def loop() -> asyncio.AbstractEventLoop:
    """A new one."""
    import uvloop  # type: ignore[import-not-found, unused-ignore] # noqa: PLC0415 - for some only

    made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return made
