"""Programs that the tests run as processes of their own, told where to connect by arguments.

Each function is a program: `python -m client.wire.programs NAME PORT`. It says `ready` when it is
about to wait; what follows is a matter of the test.
"""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import os
import sys
import threading
from collections.abc import Callable

from client.waits import asleep
from trilane import _core
from trilane.client import HTTPConnection, errors

HOST = "127.0.0.1"
WAIT_S = 60.0


def say(*words: object) -> None:
    """A line, at once."""
    print(*words, flush=True)


def connect(port: int, version: str = "h1") -> _core.Connection:
    return _core.connect(HOST, port, scheme="http", versions=(version,), timeout=WAIT_S)


# Waits that Ctrl-C ends. The server takes everything and says nothing.


def http_connection(port: int) -> None:
    connection = HTTPConnection(HOST, port, timeout=None)
    connection.request("GET", "/")
    say("ready")
    connection.get_response()


def follower(port: int) -> None:
    """The main thread waits while another one leads."""
    connection = connect(port, "h2")
    first = connection.submit("GET", "/", [])
    leader = threading.Thread(target=first.head, daemon=True)
    leader.start()
    asleep(os.getpid(), leader.native_id)
    second = connection.submit("GET", "/", [])
    say("ready")
    second.head()


# The end of the interpreter.


def exit_with_requests(port: int) -> None:
    connections = [connect(port, version) for version in ("h1", "h2", "h2")]
    kept = [connection.submit("GET", "/", []) for connection in connections]
    kept += [connections[1].submit("GET", "/", []) for _ in range(10)]
    globals()["kept"] = kept
    say("ready")


def exit_with_threads(port: int) -> None:
    """Daemon threads wait for ever."""
    threads: list[threading.Thread] = []
    for version in ("h1", "h2", "h2"):
        connection = connect(port, version)
        for _ in range(1 if version == "h1" else 4):
            exchange = connection.submit("GET", "/", [])
            threads.append(threading.Thread(target=exchange.head, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        asleep(os.getpid(), thread.native_id)
    say("ready")


def exit_with_busy_threads(port: int) -> None:
    """Daemon threads are in the middle of requests."""
    shared = connect(port, "h2")
    busy = threading.Barrier(9)

    def work() -> None:
        for turn in itertools.count():
            exchange = shared.submit("GET", "/hello", [])
            exchange.head(WAIT_S)
            exchange.read(timeout=WAIT_S)
            if not turn:
                busy.wait()

    for _ in range(8):
        threading.Thread(target=work, daemon=True).start()
    busy.wait()
    say("ready")


# Forks. The server answers /hello.


def _in_child(work: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        faulthandler.dump_traceback_later(200, exit=True)
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _several(connection: _core.Connection) -> None:
    outstanding = [connection.submit("GET", "/hello", []) for _ in range(30)]
    for exchange in outstanding:
        assert exchange.read(timeout=WAIT_S) == b"hello world"


def fork_while_busy(port: int) -> None:
    """Threads use a connection while children make their own."""
    shared = connect(port, "h2")
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            _several(shared)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()

    def in_child() -> None:
        own = connect(port, "h2")
        _several(own)
        own.close()

    for _ in range(5):
        _in_child(in_child)
    stop.set()
    for thread in threads:
        thread.join()
    _several(shared)
    say("done")


def fork_and_drop(port: int) -> None:
    """A child that ends does no harm to the connections of its parent, nor does one that tries."""
    shared = connect(port, "h2")
    _several(shared)
    exchange = shared.submit("GET", "/hello", [])

    def drops() -> None:
        nonlocal exchange, shared
        del exchange
        shared.close()
        del shared

    def uses() -> None:
        assert not shared.is_alive()
        with contextlib.suppress(errors.InvalidRequest):
            # What had arrived before the fork is here as well.
            assert exchange.head(1.0) == 200
        try:
            shared.submit("GET", "/hello", [])
        except errors.InvalidRequest:
            return
        raise AssertionError("two processes on one connection")

    _in_child(drops)
    _in_child(uses)
    assert exchange.read(timeout=WAIT_S) == b"hello world"
    _several(shared)
    say("done")


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))
