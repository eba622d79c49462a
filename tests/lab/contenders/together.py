"""A server that answers no request before so many of them are under way together.

It is the ASGI application `app` under Hypercorn, because that speaks HTTP/2 and HTTP/3. Whoever
sends its requests one after the other gets no answer at all.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import application
from peers.process import HOST

AT_ONCE = 6
BODIES = {"hello": b"hello world", "large": bytes(20_000), "nowhere": b"not here"}

_arrived: Counter[str] = Counter()
_enough: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer `/ROUND/NAME` with the body of that name, once `AT_ONCE` of the round have come.

    Those that come after them are answered at once. httpcore2 2.16 hands out no response that has
    come while another of its requests waits for the connection's next bytes: it sends its next
    request only when that one is answered, so to wait for six again could be to wait forever.
    """
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    _, which, name = scope["path"].split("/")
    # To its end: Hypercorn forgets an answered request, and its whole HTTP/3 server dies of a FIN
    # that comes later.
    while (await receive()).get("more_body"):
        pass
    _arrived[which] += 1
    enough = _enough[which]
    if _arrived[which] == AT_ONCE:
        enough.set()
    await enough.wait()
    status, body = 404 if name == "nowhere" else 200, BODIES[name]
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@dataclass
class Together:
    """The running server."""

    secure: int
    plain: int
    cacert: str
    rounds: Iterator[int]

    def port(self, version: str) -> int:
        """Where it speaks the version."""
        return self.plain if version == "h2c" else self.secure

    def origin(self, version: str, port: int) -> str:
        """Its origin, if it were on that port."""
        return f"{'http' if version == 'h2c' else 'https'}://{HOST}:{port}"

    def paths(self) -> dict[str, bytes]:
        """Paths that nobody else waits at, with their bodies; the last has no page."""
        number = next(self.rounds)
        return {f"/{number}/{name}": body for name, body in BODIES.items()}


@contextmanager
def serving(folder: Path, *, cert: Path, key: Path, cacert: str) -> Iterator[Together]:
    """Run it in `folder`, over TLS and without."""
    with application.serving(__name__, folder, cert=cert, key=key, alpn=["h2"]) as (secure, plain):
        yield Together(secure, plain, cacert, itertools.count())
