"""An application under Hypercorn that keeps whom its requests were for, with which cookies."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from . import application
from .process import HOST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from .authority import Leaf

    Scope = dict[str, Any]
    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]

_requests: Counter[str] = Counter()
_cookies: Counter[str] = Counter()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Any path is answered; `?cookie=a` sets that cookie, and /told says what has come so far."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    while (await receive()).get("more_body"):
        pass
    fields = dict(scope["headers"])
    headers = [(b"content-type", b"application/json")]
    answer: dict[str, Any] = {"token": "t"}
    if scope["path"] == "/told":
        answer = {"requests": dict(_requests), "cookies": dict(_cookies)}
    else:
        authority = fields.get(b"host", b"").decode()
        _requests[f"{scope['http_version']} {authority}{scope['path']}"] += 1
        _cookies[fields.get(b"cookie", b"").decode()] += 1
    names = parse_qs(scope["query_string"].decode()).get("cookie", [])
    headers += [(b"set-cookie", f"{name}=1; Path=/".encode()) for name in names]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


@dataclass(frozen=True)
class Callers:
    """Where it listens."""

    secure: int
    plain: int

    def port(self, listener: str) -> int:
        """Its port for that kind of connection."""
        return self.plain if listener in {"h1", "h2c"} else self.secure

    def url(self, listener: str, host: str, path: str) -> str:
        """A URL of it by a name that it is given."""
        scheme = "http" if listener in {"h1", "h2c"} else "https"
        return f"{scheme}://{host}:{self.port(listener)}{path}"

    def told(self) -> tuple[Counter[str], Counter[str]]:
        """Requests by version, authority and path, and by the cookies that came with them."""
        with closing(http.client.HTTPConnection(HOST, self.plain, timeout=60)) as connection:
            connection.request("GET", "/told")
            told = json.load(connection.getresponse())
        return Counter(told["requests"]), Counter(told["cookies"])


@contextmanager
def serving(folder: Path, leaf: Leaf) -> Iterator[Callers]:
    """Run it in `folder`, over TCP and QUIC, with TLS and without."""
    alpn = ("h2", "http/1.1")
    with application.serving(__name__, folder, cert=leaf.cert, key=leaf.key, alpn=alpn) as (
        secure,
        plain,
    ):
        yield Callers(secure, plain)
