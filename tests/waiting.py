"""The ways in which the engine waits for its sockets: whole runs are tested in each of them."""

from __future__ import annotations

import functools
import subprocess
from typing import ClassVar

import pytest

from peers.running import absent
from repository import native

WAYS = ("epoll", "uring")


class Chosen:
    """That of the present test."""

    way: ClassVar[str] = WAYS[0]


@functools.cache
def _refused() -> str | None:
    """Why there is no io_uring here; None where there is."""
    command = [native(), "load", "--io", "uring", "-n", "1", "http://127.0.0.1:1/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stderr.strip() if "io_uring is not available" in done.stderr else None


def in_each_way(metafunc: pytest.Metafunc) -> None:
    """Have a test run once for each way."""
    metafunc.parametrize(wait.__name__, WAYS, indirect=True)


@pytest.fixture(autouse=True)
def wait(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loads wait as the test's parameter says."""
    way: str = getattr(request, "param", WAYS[0])
    if way == "uring" and (refused := _refused()) is not None:
        absent(refused)
    monkeypatch.setattr(Chosen, "way", way)
