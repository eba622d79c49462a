"""A connection that does what a test tells it: the loop's side of it, over a socket pair."""

from __future__ import annotations

import contextlib
import socket
from typing import Any


class FakeExchange:
    """A request that comes as far as the test says."""

    quiet = 0.0

    def __init__(self, token: int) -> None:
        self.token = token
        self.stream_id = 2 * token + 1
        self.state = 0
        self.watched: list[int] = []
        self.cancelled = False
        self.informational: list[tuple[int, list[tuple[str, str]]]] = []

    def watch(self, what: int) -> bool:
        self.watched.append(what)
        return self.state >= what

    def cancel(self) -> None:
        self.cancelled = True


class FakeConnecting:
    """A connection that is made at the first step."""

    timeout = None

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._ours, self._theirs = socket.socketpair()

    def step(self) -> Any:
        return self._connection

    def fileno(self) -> int:
        return self._ours.fileno()

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class FakeConnection:
    """Counts what is asked of it; `progress` makes tokens come out of the next `drive()`."""

    version = "h2"
    peer = ("192.0.2.1", 443)
    facts: Any = None

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self.tokens: list[int] = []
        self.exchanges: list[FakeExchange] = []
        self.flushes = 0
        self.drives = 0
        self.wants_write = False
        self.timeout: float | None = None
        self.is_closing = False
        self.is_silent = False
        self.outstanding = 0
        self.closed = False

    def submit(self, *_: Any, flush: bool, **__: Any) -> FakeExchange:
        assert flush is False
        exchange = FakeExchange(len(self.exchanges))
        self.exchanges.append(exchange)
        self.outstanding += 1
        return exchange

    def settings(self) -> dict[str, int]:
        return {}

    def progress(self, *tokens: int) -> None:
        """Let the socket become readable and those exchanges come forward."""
        self.tokens += tokens
        self._theirs.send(b"x")

    def fileno(self) -> int:
        return self._ours.fileno()

    def drive(self) -> list[int]:
        self.drives += 1
        with contextlib.suppress(BlockingIOError):
            self._ours.recv(4096)
        tokens, self.tokens = self.tokens, []
        return tokens

    def flush(self) -> None:
        self.flushes += 1

    def close(self) -> None:
        self.closed = True
        self._ours.close()
        self._theirs.close()
