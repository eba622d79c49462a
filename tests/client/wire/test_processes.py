"""Ctrl-C, the end of the interpreter in every state, and forks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.waits import asleep
from peers.chaos import serve, silent
from peers.running import Peers

TESTS = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def running(name: str, port: int) -> Iterator[subprocess.Popen[str]]:
    """A program of `programs`, ended with the context."""
    path = os.pathsep.join([str(TESTS.parent / "python"), str(TESTS)])
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "client.wire.programs", name, str(port)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def _until_ready(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line == "ready\n", child.communicate()[1]
    # From the words to the wait; a signal that comes sooner ends the program just the same.
    asleep(child.pid)


@pytest.mark.parametrize("name", ["http_connection", "follower"])
def test_ctrl_c_ends_a_program_that_waits(name: str) -> None:
    """`client/core/test_waiting.py` has every wait."""
    with serve(silent) as chaos, running(name, chaos.port) as child:
        _until_ready(child)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate()
    assert err.rstrip().endswith("KeyboardInterrupt"), err
    assert child.returncode == -signal.SIGINT


@pytest.mark.parametrize("name", ["exit_with_requests", "exit_with_threads"])
def test_the_interpreter_ends_though_the_server_is_silent(name: str) -> None:
    with serve(silent) as chaos, running(name, chaos.port) as child:
        out, err = child.communicate()
    assert (out, err, child.returncode) == ("ready\n", "", 0)


def test_the_interpreter_ends_in_the_middle_of_requests(peers: Peers) -> None:
    port = int(peers["nghttpd-plain"].bases["h2c"].rpartition(":")[2])
    with running("exit_with_busy_threads", port) as child:
        out, err = child.communicate()
    assert (out, err, child.returncode) == ("ready\n", "", 0)


@pytest.mark.parametrize("name", ["fork_while_busy", "fork_and_drop"])
def test_forks(peers: Peers, name: str) -> None:
    port = int(peers["nghttpd-plain"].bases["h2c"].rpartition(":")[2])
    with running(name, port) as child:
        out, err = child.communicate()
    assert (out, err, child.returncode) == ("done\n", "", 0)
