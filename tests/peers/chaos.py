"""Servers that misbehave on purpose, one script each: `H1` here, `h2_chaos` for HTTP/2.

A script is a coroutine that owns one accepted connection. `serve` runs it for every connection that
comes, in a thread of its own, until the context ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator

from .peer import cleartext, secure
from .process import HOST

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n"
_BODY = b"hello world"
_BLOCK = b"x" * 16384
# Seconds that a TLS handshake may take; the limit only ends a hang.
_HANDSHAKE_S = 10.0


class Chaos:
    """A listening script: its address, and how many connections came."""

    def __init__(self, script: Script, security: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._security = security
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))
        self.connections = 0
        self.port = 0

    @property
    def base(self) -> str:
        """Base URL."""
        return cleartext(self.port) if self._security is None else secure(self.port)

    def start(self) -> None:
        """Listen; returns when connections are accepted."""
        self._thread.start()
        if not self._started.wait(10):
            raise RuntimeError("the bad server did not start")

    def stop(self) -> None:
        """Drop every connection and end."""
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        limit = None if self._security is None else _HANDSHAKE_S
        server = await asyncio.start_server(
            self._accept,
            HOST,
            0,
            ssl=self._security,
            ssl_handshake_timeout=limit,
            backlog=1024,
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._done.wait()
        # The server accepts no more, but closes last: asyncio leaves a connection unclosed that it
        # accepted in the turn of the loop in which the server closes.
        for listening in server.sockets:
            self._loop.remove_reader(listening)
        scripts = list(self._tasks)
        for task in scripts:
            task.cancel()
        await asyncio.gather(*scripts, return_exceptions=True)
        # Connections that are being accepted have tasks of asyncio's, which close nothing when they
        # are cancelled before their first step or before the handshake has begun. So they end by
        # themselves: each connection is made, and dropped below, or its client has gone.
        accepting = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*accepting, return_exceptions=True)
        server.close()
        # A transport closes its socket one turn of the loop after it was told to.
        for writer in self._writers:
            writer.transport.abort()
        ends = [writer.wait_closed() for writer in self._writers]
        await asyncio.wait_for(asyncio.gather(*ends, return_exceptions=True), 10)
        await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: one that is cancelled before its first step could not close anything.
        self.connections += 1
        self._writers.add(writer)
        if self._done.is_set():
            return
        # The loop keeps no reference: a task that waits for ever is a cycle, and is collected.
        task = self._loop.create_task(self._guarded(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The client's end of the connection may come at any point of a script.
        try:
            await self._script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, TimeoutError):
            pass
        finally:
            writer.transport.abort()


@contextlib.contextmanager
def serve(script: Script, security: ssl.SSLContext | None = None) -> Iterator[Chaos]:
    """Run a script for every connection while the context lasts."""
    chaos = Chaos(script, security)
    chaos.start()
    try:
        yield chaos
    finally:
        chaos.stop()


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by RST instead of FIN."""
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def forever() -> None:
    """Wait until the connection's task is cancelled."""
    await asyncio.Event().wait()


async def request(reader: asyncio.StreamReader) -> None:
    """Read one request head."""
    await reader.readuntil(b"\r\n\r\n")


def answer(*parts: bytes, then: str = "wait") -> Script:
    """A script that answers each request with `parts`, then closes, resets, waits or goes on."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            for part in parts:
                writer.write(part)
                await writer.drain()
            if then == "close":
                writer.close()
                await writer.wait_closed()
                return
            if then == "reset":
                # What was written has to leave before the reset, which would discard it.
                await asyncio.sleep(0.02)
                reset(writer)
                return
            if then == "wait":
                await forever()

    return script


def endless(first: bytes, again: bytes) -> Script:
    """A script that answers with `first` and then `again` for ever."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(first)
        while True:
            writer.write(again)
            await writer.drain()

    return script


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept and say nothing."""
    await forever()


async def reset_at_accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """RST before a byte was read."""
    reset(writer)


async def close_at_accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """FIN before a byte was read."""
    writer.close()
    await writer.wait_closed()


async def one_byte_per_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A correct response, too slowly."""
    await request(reader)
    for byte in _HEAD + _BODY:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def tls_alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a ClientHello with the fatal alert handshake_failure (RFC 8446 §6.2)."""
    await reader.read(65536)
    writer.write(bytes([21, 3, 3, 0, 2, 2, 40]))
    await writer.drain()
    await forever()


async def good(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Nothing wrong."""
    while True:
        await request(reader)
        writer.write(_HEAD + _BODY)
        await writer.drain()


def every(count: int, bad: Script) -> Script:
    """Good for `count` requests on each connection, then `bad`."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(count):
            await request(reader)
            writer.write(_HEAD + _BODY)
            await writer.drain()
        await bad(reader, writer)

    return script


# Name of the misbehaviour → script and the error kinds (DESIGN §5) that may name it.
H1: dict[str, tuple[Script, set[str]]] = {
    "reset at accept": (reset_at_accept, {"reset", "closed"}),
    "close at accept": (close_at_accept, {"closed", "reset"}),
    "silent after accept": (silent, {"timeout"}),
    "one byte per second": (one_byte_per_second, {"timeout"}),
    "reset mid-body": (answer(_HEAD, _BODY[:5], then="reset"), {"body", "reset"}),
    "close mid-body": (answer(_HEAD, _BODY[:5], then="close"), {"body"}),
    "endless head": (
        endless(b"HTTP/1.1 200 OK\r\n", b"X-More: " + _BLOCK + b"\r\n"),
        {"limit", "protocol"},
    ),
    "endless body": (endless(b"HTTP/1.1 200 OK\r\n\r\n", _BLOCK), {"timeout", "limit"}),
    "endless trailers": (
        endless(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: " + _BLOCK + b"\r\n"
        ),
        {"limit", "protocol"},
    ),
    "garbage": (answer(b"\x00\x16\x03garbage\r\n\r\n"), {"protocol"}),
    "status 500": (
        answer(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", then="go on"),
        {"status"},
    ),
}
