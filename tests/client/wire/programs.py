"""Programs that the tests run as processes of their own, told where to connect by arguments.

Each function is a program: `python -m client.wire.programs NAME PORT`. It says `ready` when it is
about to wait; what follows is a matter of the test.
"""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import os
import socket
import sys
import threading
import warnings
from collections.abc import Callable

from client.waits import asleep
from trilane import _core
from trilane.client import Client, HTTPConnection, errors

HOST = "127.0.0.1"
TLS = _core.Tls(insecure=True)
WAIT_S = 60.0


def say(*words: object) -> None:
    """A line, at once."""
    print(*words, flush=True)


def connect(port: int, version: str = "h1") -> _core.Connection:
    return _core.connect(HOST, port, scheme="http", versions=(version,), timeout=WAIT_S)


# Waits that Ctrl-C ends. The server takes everything and says nothing.


def connecting_tls(port: int) -> None:
    say("ready")
    _core.connect(HOST, port, tls=TLS)


def connecting_quic(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hole:
        hole.bind((HOST, 0))
        say("ready")
        _core.connect(HOST, hole.getsockname()[1], versions=("h3",), tls=TLS)


def connecting_tcp(_port: int) -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        say("ready")
        _core.connect(HOST, listener.getsockname()[1], tls=TLS)


def head(port: int) -> None:
    exchange = connect(port).submit("GET", "/", [])
    say("ready")
    exchange.head()


def head_h2(port: int) -> None:
    exchange = connect(port, "h2").submit("GET", "/", [])
    say("ready")
    exchange.head()


def write(port: int) -> None:
    exchange = connect(port).submit("POST", "/", [], streaming=True)
    say("ready")
    exchange.write(bytes(64 << 20))


def informational(port: int) -> None:
    exchange = connect(port).submit("POST", "/", [("expect", "100-continue")], streaming=True)
    say("ready")
    exchange.wait_informational()


def http_connection(port: int) -> None:
    connection = HTTPConnection(HOST, port, timeout=None)
    connection.request("GET", "/")
    say("ready")
    connection.get_response()


def client(port: int) -> None:
    with Client(timeout=None) as made:
        say("ready")
        made.get(f"http://{HOST}:{port}/")


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


# The server answers heads, and never ends the content.


def read(port: int) -> None:
    exchange = connect(port).submit("GET", "/", [])
    exchange.head()
    say("ready")
    exchange.read()


def readinto(port: int) -> None:
    exchange = connect(port).submit("GET", "/", [])
    exchange.head()
    exchange.read(5)
    say("ready")
    exchange.readinto(bytearray(10))


def goes_on_after_interrupt(port: int) -> None:
    """What was waited for can be waited for again."""
    exchange = connect(port).submit("GET", "/", [])
    exchange.head()
    say("ready")
    try:
        exchange.read(100)
    except KeyboardInterrupt:
        say(exchange.read(5, WAIT_S).decode())


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


def exit_with_client(port: int) -> None:
    warnings.simplefilter("ignore")
    made = Client(timeout=None)
    thread = threading.Thread(target=made.get, args=(f"http://{HOST}:{port}/",), daemon=True)
    thread.start()
    asleep(os.getpid(), thread.native_id)
    globals()["kept"] = made
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

    for _ in range(15):
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


def fork_with_client(port: int) -> None:
    """A `Client` of the parent works in its child, on connections of the child's own."""
    made = Client(versions=("h2",), timeout=WAIT_S)
    url = f"http://{HOST}:{port}/hello"
    assert made.get(url).content == b"hello world"

    def in_child() -> None:
        for _ in range(10):
            assert made.get(url).content == b"hello world"

    for _ in range(3):
        _in_child(in_child)
        assert made.get(url).content == b"hello world"
    made.close()
    say("done")


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))
