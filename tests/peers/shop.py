"""A shop under Hypercorn that takes no visitor for another: an application that keeps sessions."""

from __future__ import annotations

import json
import secrets
from collections import Counter
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

_sessions: dict[str, tuple[str, str]] = {}
"""Token and item of each session."""
_counts: Counter[str] = Counter()
_users: set[str] = set()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """POST /login, then GET /items/N with the token and the cookie of that login, then /cart."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    fields = dict(scope["headers"])
    status, more, answer = _answer(scope["path"], fields, body)
    _counts[f"{scope['path'].split('/')[1]} {status}"] += 1
    content = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _answer(
    path: str, fields: dict[bytes, bytes], body: bytes
) -> tuple[int, list[tuple[bytes, bytes]], dict[str, Any]]:
    cookies = dict(
        pair.split("=", 1) for pair in fields.get(b"cookie", b"").decode().split("; ") if pair
    )
    if path == "/counts":
        return 200, [], {"counts": dict(_counts), "users": sorted(_users)}
    if path == "/login":
        return _log_in(cookies, json.loads(body)["user"])
    token, item = _sessions.get(cookies.get("sid", ""), ("", ""))
    if fields.get(b"authorization", b"").decode() != f"Bearer {token}" or not token:
        return 403, [], {"error": "no session of this token"}
    if "elsewhere" in cookies:
        return 400, [], {"error": "a cookie of another path"}
    answer: dict[str, Any] | None = None
    if path == f"/items/{item}":
        answer = {"item": int(item), "state": "in stock"}
    elif path == "/cart" and json.loads(body) == {"item": item, "count": 2}:
        answer = {"state": "full"}
    return (200, [], answer) if answer else (404, [], {"error": path})


def _log_in(
    cookies: dict[str, str], user: str
) -> tuple[int, list[tuple[bytes, bytes]], dict[str, Any]]:
    if cookies:
        return 409, [], {"error": f"a new visitor has the cookies {sorted(cookies)}"}
    _users.add(user)
    session, token = secrets.token_hex(8), secrets.token_urlsafe(12)
    item = str(secrets.randbelow(10**9))
    _sessions[session] = (token, item)
    more = [
        (b"set-cookie", f"sid={session}; Path=/; HttpOnly".encode()),
        (b"set-cookie", b"elsewhere=1; Path=/nowhere"),
        (b"location", f"/items/{item}".encode()),
    ]
    return 201, more, {"token": token, "ok": True}


@dataclass(frozen=True)
class Shop:
    """Where it listens."""

    secure: int
    plain: int
    ca: str

    def url(self, listener: str) -> str:
        """Its origin for that kind of connection."""
        if listener in {"h1", "h2c"}:
            return f"http://{HOST}:{self.plain}"
        return f"https://{HOST}:{self.secure}"


@contextmanager
def serving(folder: Path, leaf: Leaf) -> Iterator[Shop]:
    """Run it in `folder`, over TCP and QUIC, with TLS and without."""
    alpn = ("h2", "http/1.1")
    with application.serving(__name__, folder, cert=leaf.cert, key=leaf.key, alpn=alpn) as (
        secure,
        plain,
    ):
        yield Shop(secure, plain, str(leaf.ca))
