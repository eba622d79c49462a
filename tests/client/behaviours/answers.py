"""What a server does with a request, in words that hold for HTTP/1.1, HTTP/2 and HTTP/3.

An answer is a list of steps, played from the moment the head of the request has come.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Fields: TypeAlias = Sequence[tuple[str, str]]
NO_CONTENT = frozenset({204, 304})


@dataclass
class Got:
    """A request as it came."""

    method: str
    target: str
    fields: list[tuple[str, str]]
    connection: object
    """Which one it came by: those of the same connection are equal."""
    content: bytearray = field(default_factory=bytearray)
    trailers: list[tuple[str, str]] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        """All values of a field, by its name in lower case."""
        return [value for each, value in self.fields if each.lower() == name]


class Reply(ABC):
    """The way back for one request: what steps are made of, for each version in its own class."""

    def __init__(self, got: Got) -> None:
        self.got = got
        self.told = asyncio.Event()
        """Set when the caller's test goes on: see `waits`."""

    @abstractmethod
    async def take_content(self) -> None:
        """Wait until all content and the trailers of the request have come."""

    @abstractmethod
    async def informational(self, status: int, fields: Fields) -> None: ...

    @abstractmethod
    async def head(self, status: int, fields: Fields) -> None: ...

    @abstractmethod
    async def content(self, data: bytes) -> None: ...

    @abstractmethod
    async def end(self, trailers: Fields) -> None: ...

    @abstractmethod
    async def cut(self) -> None:
        """Give up this response alone, as far as the version can."""

    @abstractmethod
    async def refuse(self) -> None:
        """Say that the request was not processed, and may be sent again."""

    @abstractmethod
    async def go_away(self, *, including: bool) -> None:
        """Take no more requests by this connection; this one is the last, or was already not."""

    @abstractmethod
    async def close(self) -> None:
        """End the connection."""

    @abstractmethod
    async def break_rules(self) -> None:
        """Send what the version does not allow."""


Step: TypeAlias = Callable[[Reply], Awaitable[None]]
Answer: TypeAlias = Sequence[Step]


def informational(status: int, *fields: tuple[str, str]) -> Step:
    """A response before the response, such as 103 (Early Hints)."""
    return lambda reply: reply.informational(status, fields)


def head(status: int = 200, *fields: tuple[str, str], length: int | None = None) -> Step:
    """Status and fields; with a length, `content-length` among them."""
    announced = () if length is None else (("content-length", str(length)),)
    return lambda reply: reply.head(status, [*announced, *fields])


def content(data: bytes) -> Step:
    """Content, or more of it."""
    return lambda reply: reply.content(data)


def end(*trailers: tuple[str, str]) -> Step:
    """The end of the response."""
    return lambda reply: reply.end(trailers)


async def takes_content(reply: Reply) -> None:
    """Go on when all content of the request has come."""
    await reply.take_content()


async def echoes(reply: Reply) -> None:
    """The request's content is the response's."""
    await reply.take_content()
    await reply.head(200, [("content-length", str(len(reply.got.content)))])
    await reply.content(bytes(reply.got.content))
    await reply.end(())


async def waits(reply: Reply) -> None:
    """Go on when the caller says so."""
    await reply.told.wait()


async def is_silent(_reply: Reply) -> None:
    """Say nothing more, ever."""
    await asyncio.Event().wait()


async def cuts(reply: Reply) -> None:
    """Give the response up: the stream, or the connection of HTTP/1.1."""
    await reply.cut()


async def refuses(reply: Reply) -> None:
    """Refuse the stream."""
    await reply.refuse()


async def goes_away(reply: Reply) -> None:
    """Announce that this request was the last of the connection."""
    await reply.go_away(including=True)


async def went_away(reply: Reply) -> None:
    """Announce that the connection had ended before this request."""
    await reply.go_away(including=False)


async def closes(reply: Reply) -> None:
    """End the connection."""
    await reply.close()


async def breaks_rules(reply: Reply) -> None:
    """Send what no server of that version may."""
    await reply.break_rules()


def answered(data: bytes = b"hello world", status: int = 200) -> list[Step]:
    """A plain response."""
    return [head(status, length=len(data)), content(data), end()]


class Script:
    """What one cell of the table has its server do, and what came of it."""

    def __init__(self, answers: Sequence[Answer], over: set[object]) -> None:
        """`over` gets connections that take no more."""
        self._answers = answers
        self._over = over
        self.got: list[Got] = []
        """All requests, in their order."""
        self.ended = threading.Semaphore(0)
        """One for each connection that the server has ended."""
        self._replies: list[tuple[Reply, asyncio.AbstractEventLoop]] = []

    async def play(self, reply: Reply) -> None:
        """Answer a request: the last answer is that of all that follow."""
        answer = self._answers[min(len(self.got), len(self._answers) - 1)]
        self.got.append(reply.got)
        self._replies.append((reply, asyncio.get_running_loop()))
        try:
            for step in answer:
                if step in {goes_away, went_away}:
                    self._over.add(reply.got.connection)
                await step(reply)
        finally:
            if closes in answer:
                self.ended.release()

    def go_on(self) -> None:
        """Have those go on that wait for the caller."""
        for reply, loop in list(self._replies):
            loop.call_soon_threadsafe(reply.told.set)


class Scripts:
    """All scripts by the first part of a request's path."""

    def __init__(self) -> None:
        self._by_name: dict[str, Script] = {}
        self._over: set[object] = set()

    def add(self, answers: Sequence[Answer]) -> tuple[str, Script]:
        """A path that is answered so."""
        name = str(len(self._by_name))
        self._by_name[name] = Script(answers, self._over)
        return f"/{name}", self._by_name[name]

    async def play(self, reply: Reply) -> None:
        """Find the script, and play it; nothing is processed after GOAWAY."""
        if reply.got.connection in self._over:
            return
        name = reply.got.target.split("/")[1].partition("?")[0]
        await self._by_name[name].play(reply)
