"""A server of HTTP/1.1 in the test's own process: it knows how many connections are open."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

from .process import HOST

if TYPE_CHECKING:
    from collections.abc import Callable

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
# The patience ends a hang only.
_PATIENCE_S = 120.0


class Counted:
    """Answers GET on each connection until its peer closes it. A context manager."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self.url = f"http://{HOST}:{self._listener.getsockname()[1]}/"
        self.requests = 0
        self.open = 0
        self.connections = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that waits in accept() is woken by this alone.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def until(self, holds: Callable[[Counted], bool]) -> None:
        """Wait until it holds of the counts."""
        with self._changed:
            assert self._changed.wait_for(lambda: holds(self), _PATIENCE_S), vars(self)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._count(opened=1)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            rest = b""
            while piece := connection.recv(65536):
                *heads, rest = (rest + piece).split(b"\r\n\r\n")
                self._count(requests=len(heads))
                connection.sendall(_ANSWER * len(heads))
        self._count(opened=-1)

    def _count(self, opened: int = 0, requests: int = 0) -> None:
        with self._changed:
            self.open += opened
            self.connections += max(0, opened)
            self.requests += requests
            self._changed.notify_all()
