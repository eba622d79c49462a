"""That a test of this folder can neither start a process nor use the network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unit import guard

TRUE = "/bin/true"


def _bind() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))


def _send() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.sendto(b"", ("127.0.0.1", 9))


@pytest.mark.parametrize(
    "action",
    [
        lambda: subprocess.run([TRUE], check=True),
        lambda: os.system(TRUE),  # noqa: S605 - refused before
        lambda: os.posix_spawn(TRUE, [TRUE], {}),
        lambda: socket.create_connection(("127.0.0.1", 9)),
        lambda: socket.getaddrinfo("localhost", 80),
        lambda: asyncio.run(asyncio.open_connection("127.0.0.1", 9)),
        _bind,
        _send,
        # What would be a second process of these tests, were it not refused.
        lambda: sys.audit("os.fork"),
        lambda: sys.audit("os.exec", TRUE, [TRUE], {}),
    ],
)
def test_what_starts_a_process_or_uses_the_network_is_refused(action: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="belongs to tests/client"):
        action()
    assert guard.caught
    guard.caught.clear()


def test_a_refusal_that_is_taken_for_an_answer_is_kept() -> None:
    with contextlib.suppress(Exception):
        subprocess.run([TRUE], check=True)
    assert guard.caught == [f"subprocess.Popen in {os.environ['PYTEST_CURRENT_TEST'].split()[0]}"]
    guard.caught.clear()


def test_sockets_between_parts_of_this_process_are_free(tmp_path: Path) -> None:
    async def turn() -> None:
        await asyncio.to_thread(lambda: None)

    asyncio.run(turn())
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x")
        assert other.recv(1) == b"x"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        caller.connect(str(tmp_path / "socket"))
    assert guard.caught == []
