"""Tests of decisions and shapes alone: a process or a connection here is a test in the wrong place.

What needs one belongs to `tests/client`, `tests/lab` or `tests/e2e`; `make check` runs this folder.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from trilane.lab.analysis import stats

_FORBIDDEN = frozenset(
    {"subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"}
    | {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"}
)
_running: str | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _running is None or event not in _FORBIDDEN:
        return
    if event.startswith("socket.") and _is_local(arguments):
        return
    raise AssertionError(f"{event} in tests/unit, by {_running}")


def _is_local(arguments: tuple[Any, ...]) -> bool:
    """Whether it is a socket between parts of this process."""
    return isinstance(arguments[0], socket.socket) and arguments[0].family == socket.AF_UNIX


# An audit hook cannot be taken away again; it rests between tests.
sys.addaudithook(_watch)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    global _running  # noqa: PLW0603 - the hook is called by the interpreter, with nothing of ours
    _running = item.nodeid
    try:
        return (yield)
    finally:
        _running = None


@pytest.fixture(autouse=True, scope="session")
def _fewer_resamples() -> Iterator[None]:
    """Coarser percentiles of bootstraps, in a tenth of the time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stats, "RESAMPLES", 999)
        yield
