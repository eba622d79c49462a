"""Long streams under Hypercorn (h11, h2, aioquic, wsproto): events, echoes, WebSockets."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from hypercorn.protocol.h3 import H3Protocol

from . import application
from .process import HOST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from .authority import Leaf

    Scope = dict[str, Any]
    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]


class _Streams(dict[int, Any]):
    """Streams of Hypercorn's HTTP/3, where those that have ended take what still comes.

    Hypercorn 0.18 forgets a stream with the end of its application, and a client's last bytes on it
    are a KeyError that ends the whole QUIC server: those of each WebSocket, as its Close frame.
    """

    def __missing__(self, stream: int) -> Any:
        return self

    async def handle(self, event: object) -> None:
        """Nobody is there for it."""


def _mend(begin: Callable[..., None]) -> Callable[..., None]:
    def mended(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        self.streams = _Streams(self.streams)

    return mended


H3Protocol.__init__ = _mend(H3Protocol.__init__)  # type: ignore[method-assign]

EVENTS = b"text/event-stream"
_asked: Counter[str] = Counter()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Each path another stream."""
    if scope["type"] == "http":
        await _HTTP[scope["path"]](scope, receive, send)
    elif scope["type"] == "websocket":
        await receive()
        await _SOCKETS[scope["path"]](scope, receive, send)
    else:
        raise NotImplementedError(scope["type"])


async def _begin(send: Send, status: int = 200, kind: bytes = EVENTS) -> None:
    head = {"type": "http.response.start", "status": status}
    await send({**head, "headers": [(b"content-type", kind)]})


async def _give(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _numbers(scope: Scope, receive: Receive, send: Send) -> None:
    """Two events for each request, up to six, from behind the last that was had; then 204."""
    last = int(dict(scope["headers"]).get(b"last-event-id", b"0"))
    if last >= 6:
        await _begin(send, 204)
        await _give(send, b"", more=False)
        return
    await _begin(send, kind=b"text/event-stream; charset=utf-8")
    await _give(send, b"retry: 1\n: how long to wait\n\n")
    for number in (last + 1, last + 2):
        await _give(send, b'id: %d\nevent: number\ndata: {"n": %d}\n\n' % (number, number))
    await _give(send, b"id: 99\ndata: cut before its end", more=False)


async def _gone(scope: Scope, receive: Receive, send: Send) -> None:
    """An event, then 503 for a while, then another, then the end."""
    name = parse_qs(scope["query_string"])[b"name"][0].decode()
    _asked[name] += 1
    if _asked[name] in {2, 3}:
        await _begin(send, 503, b"text/plain")
        await _give(send, b"later", more=False)
    elif _asked[name] > 4:
        await _begin(send, 204)
        await _give(send, b"", more=False)
    else:
        await _begin(send)
        await _give(send, b"retry: 1\ndata: %d\n\n" % _asked[name], more=False)


async def _page(scope: Scope, receive: Receive, send: Send) -> None:
    await _begin(send, kind=b"text/html")
    await _give(send, b"<p>no events here", more=False)


async def _denied(scope: Scope, receive: Receive, send: Send) -> None:
    await _begin(send, 403, b"application/json")
    await _give(send, b'{"error": "no key"}', more=False)


async def _words(scope: Scope, receive: Receive, send: Send) -> None:
    """What was posted, word by word, as a language model would."""
    content = b""
    while True:
        message = await receive()
        content += message.get("body", b"")
        if not message.get("more_body"):
            break
    await _begin(send)
    for word in content.split():
        await _give(send, b"data: %b\r\n\r\n" % word)
    await _give(send, b"data: [DONE]\r\n\r\n", more=False)


async def _endless(scope: Scope, receive: Receive, send: Send) -> None:
    await _begin(send)
    left = asyncio.ensure_future(_until_left(receive))
    while not left.done():
        await _give(send, b"data: " + b"x" * 1000)
        await asyncio.sleep(0)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _lines(scope: Scope, receive: Receive, send: Send) -> None:
    await _begin(send, kind=b"application/x-ndjson")
    await _give(send, b'{"n": 1}\r\n\n{"n"')
    await _give(send, b': "\xc3\xa4"}\n[]', more=False)


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Each piece of the content at once."""
    await _begin(send, kind=b"application/octet-stream")
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if message.get("body"):
            await _give(send, message["body"])
        if not message.get("more_body"):
            break
    await _give(send, b"", more=False)


_HTTP = {
    "/numbers": _numbers,
    "/gone": _gone,
    "/page": _page,
    "/denied": _denied,
    "/words": _words,
    "/endless": _endless,
    "/lines": _lines,
    "/echo": _echo,
}


async def _talk(scope: Scope, receive: Receive, send: Send) -> None:
    """Each message back as it was."""
    offered = scope["subprotocols"]
    chosen = {"subprotocol": offered[-1]} if offered else {}
    await send({"type": "websocket.accept", **chosen})
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        content = {"bytes": message["bytes"]} if text is None else {"text": text}
        await send({"type": "websocket.send", **content})


async def _farewell(scope: Scope, receive: Receive, send: Send) -> None:
    """After the first message an end with code and reason."""
    await send({"type": "websocket.accept"})
    await receive()
    await send({"type": "websocket.send", "text": "last"})
    await send({"type": "websocket.close", "code": 4001, "reason": "enough"})


async def _ticks(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "websocket.accept"})
    for number in range(3):
        await send({"type": "websocket.send", "text": f"tick {number}"})
    await send({"type": "websocket.close", "code": 1000})


async def _refused(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "websocket.close"})


async def _lost(scope: Scope, receive: Receive, send: Send) -> None:
    """An end that nobody has announced."""
    await send({"type": "websocket.accept"})
    await receive()
    raise RuntimeError("the end of this conversation")


_SOCKETS = {
    "/talk": _talk,
    "/farewell": _farewell,
    "/ticks": _ticks,
    "/refused": _refused,
    "/lost": _lost,
}


class Streams:
    """Where it listens."""

    def __init__(self, secure: int, plain: int, ca: Path) -> None:
        self._secure = f"https://localhost:{secure}"
        self._plain = f"http://{HOST}:{plain}"
        self.ca = str(ca)

    def url(self, version: str, path: str) -> str:
        """A path, for a version of HTTP: h1 and h2c are without TLS."""
        return (self._plain if version in {"h1", "h2c"} else self._secure) + path


@contextmanager
def serving(folder: Path, leaf: Leaf) -> Iterator[Streams]:
    """Run it in `folder`, over TCP and QUIC."""
    alpn = ("h3", "h2", "http/1.1")
    with application.serving(__name__, folder, cert=leaf.cert, key=leaf.key, alpn=alpn) as (
        secure,
        plain,
    ):
        yield Streams(secure, plain, leaf.ca)
