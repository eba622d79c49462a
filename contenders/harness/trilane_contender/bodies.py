"""Bodies that are not held in memory: what every contender that streams does with them."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable

PIECE = 1 << 16
"""How much is asked for at a time, in bytes, where the library lets the caller say."""


def counted(pieces: Iterable[bytes]) -> int:
    """Read a body to its end and throw it away; its length."""
    return sum(map(len, pieces))


async def counted_async(pieces: AsyncIterable[bytes]) -> int:
    """The same in an event loop."""
    size = 0
    async for piece in pieces:
        size += len(piece)
    return size
