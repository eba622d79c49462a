"""The ASGI application that Hypercorn serves: hello, bytes, echo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def app(scope: Message, receive: Receive, send: Send) -> None:
    """Answer by path; anything else is 404."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    body = await _body(receive)
    path: str = scope["path"]
    status = 200
    if path == "/hello":
        body = b"hello world"
    elif path.startswith("/bytes/"):
        body = bytes(int(path.removeprefix("/bytes/")))
    elif path != "/echo":
        status, body = 404, b"not here"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return b"".join(parts)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
