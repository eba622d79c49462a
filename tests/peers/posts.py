"""What the listings of the posts about hyper asked for: a site, and a shop of 3,000 books.

The site is at `localhost`, the shop at `127.0.0.1`. Both compress what may be compressed.
"""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import application

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from .authority import Leaf

PAGES = 60
BOOKS = 3000


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer GET."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    while (await receive()).get("more_body"):
        pass
    fields = dict(scope["headers"])
    place = fields[b"host"] if b"host" in fields else fields[b":authority"]
    shop = place.startswith(b"127.0.0.1")
    content = (_book if shop else _page)(scope["path"], scope["query_string"].decode())
    answer = [(b"content-type", b"application/json" if shop else b"text/html")]
    if b"gzip" in fields.get(b"accept-encoding", b""):
        content = gzip.compress(content)
        answer.append((b"content-encoding", b"gzip"))
    answer.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": answer})
    await send({"type": "http.response.body", "body": content})


def _page(path: str, _: str) -> bytes:
    number = int(path.rpartition("-")[2]) if "-" in path else 0
    linked = range(number, min(number + 20, PAGES))
    links = [f'<p><a href="/page-{each + 1}">page {each + 1}</a></p>' for each in linked]
    return "\n".join([f"<h1>{path}</h1>", *links]).encode()


def _book(path: str, query: str) -> bytes:
    if path == "/":
        return json.dumps([str(number) for number in range(BOOKS)]).encode()
    return json.dumps({"id": query.removeprefix("id="), "title": "A Book"}).encode()


@contextmanager
def serving(folder: Path, leaf: Leaf) -> Iterator[int]:
    """Run it in `folder`: its port with TLS."""
    alpn = ("h2", "http/1.1")
    more = BOOKS + PAGES
    with application.serving(
        __name__, folder, cert=leaf.cert, key=leaf.key, alpn=alpn, requests=more
    ) as (secure, _):
        yield secure
