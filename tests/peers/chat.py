"""WebSockets under Hypercorn (h2 and wsproto): an echo, ticks, and several ways to close."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import application
from .process import HOST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from .authority import Leaf

    Scope = dict[str, Any]
    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Each path another conversation."""
    if scope["type"] != "websocket":
        raise NotImplementedError(scope["type"])
    await receive()
    if scope["path"] == "/closed":
        await send({"type": "websocket.close"})
        return
    await send({"type": "websocket.accept"})
    await _TALKS[scope["path"]](receive, send)


async def _echo(receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        content = {name: message[name] for name in ("text", "bytes") if message.get(name)}
        await send({"type": "websocket.send", **content})


async def _ticks(receive: Receive, send: Send) -> None:
    await receive()
    for number in range(4):
        await send({"type": "websocket.send", "text": f"tick {number}"})
    await send({"type": "websocket.close", "code": 1000})
    # The session stays until the client has left it.
    await receive()


async def _endless(receive: Receive, send: Send) -> None:
    left = asyncio.ensure_future(receive())
    while not left.done():
        await send({"type": "websocket.send", "text": "tick"})
        await asyncio.sleep(0)


async def _busy(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1013, "reason": "busy"})
    await receive()


async def _silent(receive: Receive, send: Send) -> None:
    while (await receive())["type"] == "websocket.receive":
        pass


_TALKS = {
    "/echo": _echo,
    "/ticks": _ticks,
    "/endless": _endless,
    "/busy": _busy,
    "/silent": _silent,
}


@dataclass(frozen=True)
class Chat:
    """Where it listens."""

    secure: int
    plain: int
    ca: str

    def arguments(self, listener: str, path: str) -> tuple[str, ...]:
        """What a load of the path types, over `h2` or `h2c`."""
        if listener == "h2c":
            return ("--h2c", f"ws://{HOST}:{self.plain}{path}")
        return ("--h2", "--cacert", self.ca, f"wss://{HOST}:{self.secure}{path}")


@contextmanager
def serving(folder: Path, leaf: Leaf) -> Iterator[Chat]:
    """Run it in `folder`, over TCP, with TLS and without."""
    alpn = ("h2", "http/1.1")
    with application.serving(__name__, folder, cert=leaf.cert, key=leaf.key, alpn=alpn) as (
        secure,
        plain,
    ):
        yield Chat(secure, plain, str(leaf.ca))
