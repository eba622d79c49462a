"""Waits: Ctrl-C ends them, other threads run meanwhile, and the interpreter can exit."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from peers.peer import Peer
from trilane._core import Connection, Tls, connect
from trilane.client.errors import ConnectionClosed

from .conftest import TIMEOUT, Open
from .scripted import serving, until_closed, until_head_ends

# Far above what an interrupted wait takes, far below TIMEOUT.
SOON = 10.0


@contextmanager
def interrupted(after: float = 0.2) -> Iterator[None]:
    """Press Ctrl-C after a while, and expect what that raises."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        timer.join()
    assert time.monotonic() - begun < SOON


def test_ctrl_c_in_head(lane: Connection) -> None:
    exchange = lane.submit("GET", "/delay/700ms", [])
    with interrupted():
        exchange.head(TIMEOUT)
    # It goes on all the same.
    assert exchange.head(TIMEOUT) == 200


@pytest.mark.parametrize("read", ["read", "read1", "readinto", "trickle"])
def test_ctrl_c_in_read(lane: Connection, read: str) -> None:
    exchange = lane.submit("GET", "/drip?bytes=2&duration=0&delay=700ms", [])
    waits: dict[str, Callable[[], object]] = {
        "read": lambda: exchange.read(timeout=TIMEOUT),
        "read1": lambda: exchange.read1(timeout=TIMEOUT),
        "readinto": lambda: exchange.readinto(bytearray(2), TIMEOUT),
        "trickle": lambda: exchange.read(2, TIMEOUT),
    }
    with interrupted():
        waits[read]()
    assert len(exchange.read(timeout=TIMEOUT)) == 2


def test_ctrl_c_in_write() -> None:
    def deaf(peer: socket.socket) -> None:
        time.sleep(1)
        until_closed(peer)

    with serving(deaf) as port:
        connection = connect("127.0.0.1", port, scheme="http", timeout=TIMEOUT)
        exchange = connection.submit("PUT", "/", [], streaming=True)
        with interrupted():
            for _ in range(1000):
                exchange.write(bytes(1_000_000), TIMEOUT)
        connection.close()


def test_ctrl_c_in_connect() -> None:
    with (
        serving(until_closed) as port,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent,
    ):
        silent.bind(("127.0.0.1", port))
        for versions in (["h2"], ["h3"], ["h3", "h2"]):
            with interrupted():
                connect(
                    "127.0.0.1", port, versions=versions, tls=Tls(insecure=True), timeout=TIMEOUT
                )


def test_ctrl_c_while_another_thread_leads(shared: Connection) -> None:
    """The main thread then waits for that thread, not for the socket."""
    slow = shared.submit("GET", "/delay/1s", [])
    led: list[int] = []
    leader = threading.Thread(target=lambda: led.append(slow.head(TIMEOUT)))
    leader.start()
    time.sleep(0.2)
    exchange = shared.submit("GET", "/delay/1s", [])
    with interrupted():
        exchange.head(TIMEOUT)
    assert exchange.head(TIMEOUT) == 200
    leader.join()
    assert led == [200]


def test_a_signal_handler_that_raises_nothing(lane: Connection) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    try:
        exchange = lane.submit("GET", "/delay/500ms", [])
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        assert exchange.head(TIMEOUT) == 200
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1]


def test_other_threads_run_during_a_wait(lane: Connection) -> None:
    over = threading.Event()
    counted = 0

    def count() -> None:
        nonlocal counted
        while not over.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    assert lane.submit("GET", "/delay/300ms", []).head(TIMEOUT) == 200
    over.set()
    thread.join()
    assert counted > 10


def test_closing_wakes_who_waits(lane: Connection) -> None:
    exchange = lane.submit("GET", "/delay/60s", [])
    timer = threading.Timer(0.2, lane.close)
    timer.start()
    with pytest.raises(ConnectionClosed):
        exchange.head(TIMEOUT)
    timer.join()


def test_cancelling_wakes_who_waits(shared: Connection) -> None:
    exchange = shared.submit("GET", "/delay/60s", [])
    timer = threading.Timer(0.2, exchange.cancel)
    timer.start()
    with pytest.raises(Exception, match="cancelled"):
        exchange.head(TIMEOUT)
    timer.join()


def test_a_server_that_leaves_wakes_who_waits() -> None:
    def leave(peer: socket.socket) -> None:
        until_head_ends(peer)

    with serving(leave) as port:
        connection = connect("127.0.0.1", port, scheme="http", timeout=TIMEOUT)
        with pytest.raises(ConnectionClosed):
            connection.submit("GET", "/", []).head(TIMEOUT)
        assert not connection.is_alive()


def test_an_idle_connection_that_the_server_closed() -> None:
    told = threading.Event()

    def once(peer: socket.socket) -> None:
        until_head_ends(peer)
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        told.wait(TIMEOUT)

    with serving(once) as port:
        connection = connect("127.0.0.1", port, scheme="http", timeout=TIMEOUT)
        assert connection.submit("GET", "/", []).head(TIMEOUT) == 200
        assert connection.is_alive()
        told.set()
        deadline = time.monotonic() + TIMEOUT
        while connection.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        connection.close()


@pytest.mark.parametrize("leave", ["", "sys.exit(0)", "del exchange, connection"])
def test_the_interpreter_exits_while_a_thread_waits(leave: str) -> None:
    program = f"""
        import sys, threading, time
        from trilane._core import connect
        connection = connect("127.0.0.1", int(sys.argv[1]), scheme="http", timeout=20)
        exchange = connection.submit("GET", "/", [])
        threading.Thread(target=exchange.head, daemon=True).start()
        time.sleep(0.2)
        {leave}
    """
    with serving(until_closed) as port:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), str(port)],
            check=False,
            timeout=60,
            capture_output=True,
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_fork_leaves_the_connection_to_the_parent(server: Peer) -> None:
    program = """
        import os, sys
        from trilane._core import Tls, connect
        tls = Tls(insecure=True)
        port = int(sys.argv[1])
        opened = [connect("localhost", port, versions=[v], tls=tls) for v in ("h1", "h2", "h3")]
        for connection in opened:
            assert connection.submit("GET", "/hello", []).read(timeout=20) == b"hello world"
        child = os.fork()
        if child == 0:
            # Its own works, and what it drops of the parent's says no goodbye.
            own = connect("localhost", port, versions=["h2"], tls=tls)
            assert own.submit("GET", "/hello", []).read(timeout=20) == b"hello world"
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for connection in opened:
            assert connection.is_alive()
            assert connection.submit("GET", "/hello", []).read(timeout=20) == b"hello world"
    """
    port = urlsplit(server.bases["h2"]).port
    argv = [sys.executable, "-c", textwrap.dedent(program), str(port)]
    subprocess.run(argv, check=True, timeout=60)


def test_without_the_package_that_has_the_exceptions() -> None:
    program = """
        import sys
        sys.modules["trilane.client"] = None
        from trilane._core import Connection
        try:
            Connection.memory("h4")
        except RuntimeError as error:
            assert "h4" in str(error), error
            assert isinstance(error.__cause__, ImportError), error.__cause__
        else:
            raise AssertionError
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


def test_an_open_connection_for_each(open_lane: Open) -> None:
    """Nobody waits: h3's timers and acknowledgements do not depend on it for a while."""
    for name in ("h1", "h2", "h3"):
        connection = open_lane(name)
        assert connection.submit("GET", "/hello", []).head(TIMEOUT) == 200
        time.sleep(0.5)
        assert connection.is_alive()
        assert connection.submit("GET", "/hello", []).head(TIMEOUT) == 200
