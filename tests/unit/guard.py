"""An audit hook that refuses processes and the network while a test of units runs.

It sees what Python does. Sockets of the native module are opened past it.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Any

_PROCESSES = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn"}
)
_NETWORK = frozenset(
    {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"}
    | {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
)
_running: list[str] = []
caught: list[str] = []
"""What was refused: code that takes every exception for an answer hides the refusal."""


@contextlib.contextmanager
def watching(test: str) -> Iterator[None]:
    """Refuse processes and the network meanwhile."""
    _running.append(test)
    try:
        yield
    finally:
        _running.pop()


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _running or event not in _PROCESSES | _NETWORK:
        return
    if event in _NETWORK and _is_local(arguments):
        return
    caught.append(f"{event} in {_running[-1]}")
    raise AssertionError(f"{caught[-1]}: it belongs to tests/client, tests/lab or tests/e2e")


def _is_local(arguments: tuple[Any, ...]) -> bool:
    """Whether it is a socket between parts of this process."""
    return isinstance(arguments[0], socket.socket) and arguments[0].family == socket.AF_UNIX


# An audit hook cannot be taken away again; it rests between tests.
sys.addaudithook(_watch)
