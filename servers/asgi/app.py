"""The ASGI application that Hypercorn, Granian and Uvicorn serve: the same for all of them.

It answers as the embedded server does. TRILANE_BOOKS and TRILANE_WWW name files that hold that
server's content: `books.json` and the folder of its pages.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Answer = tuple[int, bytes, bytes]
"""Status, content type, body."""

_TEXT, _JSON, _HTML = b"text/plain;charset=utf-8", b"application/json", b"text/html; charset=utf-8"
_OCTETS = b"application/octet-stream"
_SIZE = re.compile(r"(\d{1,10})([kmg]?)")
_TIME = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(us|ms|s|m)")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
_LARGEST = 1 << 26
_LONGEST_S = 600.0


def _dump(value: Any) -> bytes:
    # As the embedded server writes it: its bytes are what clients check.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class Content:
    """What is served, read once."""

    def __init__(self, books: Path, www: Path) -> None:
        stock = json.loads(books.read_bytes())
        self.index = (www / "books").read_bytes()
        self.books = {name.encode(): _dump(book) for name, book in stock.items()}
        self.pattern = (www / "bytes" / str(1 << 20)).read_bytes()
        site = www / "site"
        self.pages = {page.name: page.read_bytes() for page in site.iterdir()}
        self.pages[""] = self.pages.pop("index.html")

    def bytes_of(self, size: int) -> bytes:
        """The first bytes of a pattern that repeats after 1 MiB."""
        whole, part = divmod(size, len(self.pattern))
        return self.pattern * whole + self.pattern[:part]


_CONTENT = Content(Path(os.environ["TRILANE_BOOKS"]), Path(os.environ["TRILANE_WWW"]))


async def app(scope: Message, receive: Receive, send: Send) -> None:
    """Answer one request."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    if scope["type"] != "http":
        raise ValueError(f"this application serves http, not {scope['type']}")
    body = await _body(receive)
    status, kind, answer = await _answer(scope, body)
    if scope["method"] == "HEAD":
        length, answer = len(answer), b""
    else:
        length = len(answer)
    headers = [(b"content-type", kind), (b"content-length", b"%d" % length)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def _answer(scope: Message, body: bytes) -> Answer:
    path: str = scope["path"]
    _, first, *rest = path.split("/", 2)
    argument = rest[0] if rest else None
    match first, argument:
        case (("" | "hello"), None):
            answer = 200, _TEXT, b"hello world"
        case "echo", None:
            answer = 200, dict(scope["headers"]).get(b"content-type", _OCTETS), body
        case "bytes", str():
            answer = _bytes(argument)
        case "delay", str():
            answer = await _delay(argument)
        case "headers", None:
            answer = 200, _JSON, _arrived(scope)
        case "books", None:
            answer = 200, _JSON, _CONTENT.index
        case "book", None:
            ids = parse_qs(scope["query_string"]).get(b"id", [b""])
            answer = _found(_JSON, _CONTENT.books.get(ids[0]))
        case "site", _:
            answer = _found(_HTML, _CONTENT.pages.get(argument or ""))
        case _:
            answer = _found(_JSON, None)
    return answer


def _found(kind: bytes, body: bytes | None) -> Answer:
    return (200, kind, body) if body else (404, _JSON, _dump({"error": "not found"}))


def _bytes(size: str) -> Answer:
    found = _SIZE.fullmatch(size)
    length = int(found[1]) * _UNITS[found[2]] if found else _LARGEST + 1
    if length > _LARGEST:
        return 400, _JSON, _dump({"error": "bad size", "expected": "a number up to 64m, as 16k"})
    return 200, _OCTETS, _CONTENT.bytes_of(length)


async def _delay(time: str) -> Answer:
    found = _TIME.fullmatch(time)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else _LONGEST_S + 1
    if seconds > _LONGEST_S:
        return 400, _JSON, _dump({"error": "bad time", "expected": "a time up to 10m, as 50ms"})
    await asyncio.sleep(seconds)
    return 200, _TEXT, f"waited {time}\n".encode()


def _arrived(scope: Message) -> bytes:
    version = {"1.0": "h1.0", "1.1": "h1", "2": "h2", "2.0": "h2", "3": "h3"}
    query = scope["query_string"].decode("latin-1")
    got = version.get(scope["http_version"], scope["http_version"])
    return _dump(
        {
            "method": scope["method"],
            "path": scope["path"] + (f"?{query}" if query else ""),
            "version": "h2c" if got == "h2" and scope["scheme"] == "http" else got,
            "fields": [
                [name.decode("latin-1"), value.decode("latin-1")]
                for name, value in scope["headers"]
            ],
        }
    )


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
