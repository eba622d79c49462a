"""Waits: Ctrl-C ends them, other threads run meanwhile, and the interpreter can exit."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import pytest

from client.waits import asleep, interrupted, until, when_asleep
from trilane._core import Connection, Exchange, Tls, connect
from trilane.client.errors import ConnectionClosed

from .conftest import TIMEOUT, Open
from .scripted import serving, until_closed, until_head_ends


def echoing(connection: Connection) -> Exchange:
    """An exchange whose content comes when the test sends it."""
    exchange = connection.submit("POST", "/echo", [], streaming=True)
    assert exchange.head(TIMEOUT) == 200
    return exchange


def send(exchange: Exchange, content: bytes) -> None:
    exchange.write(content, TIMEOUT)
    exchange.finish(timeout=TIMEOUT)


def test_ctrl_c_in_head(lane: Connection) -> None:
    exchange = lane.submit("GET", "/delay/300s", [])
    for _ in range(2):
        # It goes on all the same.
        with interrupted():
            exchange.head(None)


@pytest.mark.parametrize("read", ["read", "read1", "readinto", "trickle"])
def test_ctrl_c_in_read(lane: Connection, read: str) -> None:
    exchange = echoing(lane)
    waits: dict[str, Callable[[], object]] = {
        "read": exchange.read,
        "read1": exchange.read1,
        "readinto": lambda: exchange.readinto(bytearray(2)),
        "trickle": lambda: exchange.read(2),
    }
    with interrupted():
        waits[read]()
    # It goes on all the same.
    send(exchange, b"ab")
    assert exchange.read(timeout=TIMEOUT) == b"ab"


def test_ctrl_c_in_write() -> None:
    over = threading.Event()

    def deaf(_peer: socket.socket) -> None:
        over.wait()

    with serving(deaf) as port:
        connection = connect("127.0.0.1", port, scheme="http", timeout=TIMEOUT)
        exchange = connection.submit("PUT", "/", [], streaming=True)
        with interrupted():
            exchange.write(bytes(256_000_000))
        connection.close()
        over.set()


def test_ctrl_c_in_a_wait_for_consent() -> None:
    with serving(until_closed) as port:
        connection = connect("127.0.0.1", port, scheme="http", timeout=TIMEOUT)
        exchange = connection.submit("POST", "/", [("expect", "100-continue")], streaming=True)
        with interrupted():
            exchange.wait_informational()
        connection.close()


def test_ctrl_c_in_connect_by_tcp() -> None:
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        with interrupted():
            connect("127.0.0.1", listener.getsockname()[1], scheme="http", timeout=TIMEOUT)


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
    slow, exchange = echoing(shared), echoing(shared)
    led: list[bytes] = []
    leader = threading.Thread(target=lambda: led.append(slow.read()))
    leader.start()
    asleep(os.getpid(), leader.native_id)
    with interrupted():
        exchange.read()
    send(exchange, b"mine")
    assert exchange.read(timeout=TIMEOUT) == b"mine"
    send(slow, b"its own")
    leader.join()
    assert led == [b"its own"]


def test_a_signal_handler_that_raises_nothing(lane: Connection) -> None:
    exchange = echoing(lane)
    heard: list[int] = []

    def answer(number: int, _: object) -> None:
        heard.append(number)
        # The wait that it came in goes on, and has this.
        send(exchange, b"heard")

    before = signal.signal(signal.SIGUSR1, answer)
    try:
        with when_asleep(lambda: os.kill(os.getpid(), signal.SIGUSR1)):
            assert exchange.read(timeout=TIMEOUT) == b"heard"
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1]


def test_other_threads_run_during_a_wait(lane: Connection) -> None:
    exchange = echoing(lane)
    with when_asleep(lambda: send(exchange, b"from another")):
        assert exchange.read(timeout=TIMEOUT) == b"from another"


def test_closing_wakes_who_waits(lane: Connection) -> None:
    exchange = lane.submit("GET", "/delay/300s", [])
    with when_asleep(lane.close), pytest.raises(ConnectionClosed):
        exchange.head()


def test_cancelling_wakes_who_waits(shared: Connection) -> None:
    exchange = shared.submit("GET", "/delay/300s", [])
    with when_asleep(exchange.cancel), pytest.raises(Exception, match="cancelled"):
        exchange.head()


def test_who_drives_wakes_who_waits(open_lane: Open) -> None:
    """What one thread reads from the socket, the one that polls it would not learn of."""
    connection = open_lane("h1")
    # In some rounds the one that waits is the one that reads.
    for _ in range(50):
        exchange = connection.submit("GET", "/hello", [])
        waiting = threading.Thread(target=exchange.head, args=(None,))
        waiting.start()
        while waiting.is_alive():
            connection.drive()
        assert exchange.read() == b"hello world"


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
        until(lambda: not connection.is_alive())
        connection.close()


@pytest.mark.parametrize("leave", ["", "del exchange, connection"])
def test_the_interpreter_exits_while_a_thread_waits(leave: str) -> None:
    program = f"""
        import os, sys, threading
        from client.waits import asleep
        from trilane._core import connect
        connection = connect("127.0.0.1", int(sys.argv[1]), scheme="http", timeout=120)
        exchange = connection.submit("GET", "/", [])
        thread = threading.Thread(target=exchange.head, daemon=True)
        thread.start()
        asleep(os.getpid(), thread.native_id)
        {leave}
    """
    with serving(until_closed) as port:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), str(port)],
            check=False,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    assert (done.returncode, done.stderr) == (0, b"")


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
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_an_open_connection_for_each(open_lane: Open) -> None:
    """Nobody waits: h3's timers and acknowledgements do not depend on it for a while."""
    connections = [open_lane(name) for name in ("h1", "h2", "h3")]
    for _ in range(3):
        for connection in connections:
            assert connection.is_alive()
            assert connection.submit("GET", "/hello", []).head(TIMEOUT) == 200
