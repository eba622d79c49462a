"""A server that answers no request before so many of them are under way together.

It is an ASGI application under Hypercorn, which allows 10 streams on a connection of HTTP/2 here,
and whose aioquic allows 128 on one of HTTP/3.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import application
from .authority import Leaf

CALLS = {"h2": 18, "h3": 140}
"""By version: more than a connection has streams for, and fewer than two have."""
_ROUNDS = itertools.count()
_arrived: Counter[str] = Counter()
_enough: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer `/ROUND/COUNT`, once so many of the round have come."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    _, which, count = scope["path"].split("/")
    while (await receive()).get("more_body"):
        pass
    _arrived[which] += 1
    if _arrived[which] == int(count):
        _enough[which].set()
    await _enough[which].wait()
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


class Held:
    """The running server."""

    def __init__(self, base: str, ca: str) -> None:
        self.base = base
        self.ca = ca

    def url(self, count: int) -> str:
        """What is answered to nobody before so many ask for it."""
        return f"{self.base}/{next(_ROUNDS)}/{count}"


@contextmanager
def serving(folder: Path, leaf: Leaf) -> Iterator[Held]:
    """Run it in `folder`."""
    alpn = ["h2", "http/1.1"]
    with application.serving(
        __name__, folder, cert=leaf.cert, key=leaf.key, alpn=alpn, streams=10
    ) as ports:
        yield Held(f"https://localhost:{ports[0]}", str(leaf.ca))
