"""A small HTTP proxy: tunnels by CONNECT, whole requests in absolute form; it can ask who it is."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .chaos import Chaos, serve


@dataclass
class Seen:
    """What a proxy was asked for."""

    server: Chaos
    lines: list[str] = field(default_factory=list)
    """First line of each request."""
    authorizations: list[str | None] = field(default_factory=list)
    """The field proxy-authorization of each request."""

    @property
    def address(self) -> str:
        """Its URL."""
        return self.server.base


@contextmanager
def proxy(*, authorization: str | None = None, refuse: int | None = None) -> Iterator[Seen]:
    """Run one. It wants `authorization`, where given, or answers 407; `refuse` is its status."""
    lines: list[str] = []
    authorizations: list[str | None] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").split("\r\n")
        fields = dict(part.lower().split(": ", 1) for part in rest if part)
        given = next(
            (part.split(": ", 1)[1] for part in rest if part.lower().startswith("proxy-auth")), None
        )
        lines.append(line)
        authorizations.append(given)
        status = refuse or (407 if authorization is not None and given != authorization else None)
        if status is not None:
            writer.write(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        method, target, _ = line.split(" ")
        url = urllib.parse.urlsplit(f"//{target}" if method == "CONNECT" else target)
        upstream = await asyncio.open_connection(url.hostname, url.port or 80)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 tests\r\n\r\n")
        else:
            path = url.path + (f"?{url.query}" if url.query else "")
            kept = [part for part in rest if part and not part.lower().startswith("proxy-")]
            upstream[1].write("\r\n".join([f"{method} {path} HTTP/1.1", *kept, "", ""]).encode())
            assert fields["host"] == url.netloc.lower()
        await _join((reader, writer), upstream)

    with serve(script) as server:
        yield Seen(server, lines, authorizations)


async def _join(
    one: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    other: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Copy both ways until either side ends."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    copies = [
        asyncio.ensure_future(copy(one[0], other[1])),
        asyncio.ensure_future(copy(other[0], one[1])),
    ]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Before anything is waited for: it may be cancelled there.
        other[1].transport.abort()
        for each in copies:
            each.cancel()
        await asyncio.gather(*copies, return_exceptions=True)
        await asyncio.gather(other[1].wait_closed(), return_exceptions=True)
        await asyncio.sleep(0)
