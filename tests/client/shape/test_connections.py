"""How connections are made, lost and made again, over sockets of the native part."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

import trilane.client.http as client
from client.shape.conftest import VERSIONS, Connect
from client.waits import PATIENCE_S, until, when_asleep
from peers import chaos
from peers.proxy import proxy
from peers.running import Peers
from trilane.client import errors
from trilane.client.http import HTTPConnection, HTTPSConnection
from trilane.client.http._response import HTTPResponse

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n"


def at(server: chaos.Chaos) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)


def accepted(server: chaos.Chaos) -> None:
    until(lambda: server.connections)


@pytest.mark.parametrize("listener", ["h1", "h1s", "h2"])
def test_a_tunnel(listener: str, peers: Peers) -> None:
    peer = peers["embedded"]
    url = urlsplit(peer.bases[listener])
    with proxy(authorization="Basic eDp5") as seen:
        there = urlsplit(seen.address)
        connection = HTTPConnection(
            there.hostname or "",
            there.port,
            timeout=PATIENCE_S,
            secure=url.scheme == "https",
            versions=("h3", VERSIONS[listener]),
            ca=str(peer.ca),
        )
        connection.set_tunnel(url.hostname or "", url.port, {"Proxy-Authorization": "Basic eDp5"})
        with connection:
            connection.request("GET", "/hello")
            assert connection.getresponse().read() == b"hello world"
            with pytest.raises(RuntimeError, match="established"):
                connection.set_tunnel("example.com")
    assert seen.lines == [f"CONNECT {url.hostname}:{url.port} HTTP/1.1"]


def test_a_proxy_that_refuses() -> None:
    with proxy(refuse=403) as seen:
        there = urlsplit(seen.address)
        with HTTPSConnection(there.hostname or "", there.port, timeout=PATIENCE_S) as connection:
            connection.set_tunnel("example.com")
            with pytest.raises(OSError, match="403"):
                connection.request("GET", "/")


def test_a_get_is_sent_again_on_a_new_connection_when_its_own_was_stale() -> None:
    # Closed after the response, though it did not say so.
    with chaos.serve(chaos.answer(HEAD, b"hello world", then="close")) as server:
        with at(server) as connection:
            for _ in range(5):
                connection.request("GET", "/")
                assert connection.getresponse().read() == b"hello world"
        assert server.connections == 5


def test_a_post_looks_whether_its_connection_is_alive() -> None:
    with chaos.serve(chaos.answer(HEAD, b"hello world", then="close")) as server:
        with at(server) as connection:
            for _ in range(5):
                connection.request("POST", "/", b"content")
                response = connection.getresponse()
                descriptor = response.fileno()
                assert response.read() == b"hello world"
                # Until the server's end has arrived.
                with socket.socket(fileno=descriptor) as sock:
                    sock.settimeout(20)
                    assert sock.recv(1, socket.MSG_PEEK) == b""
                    sock.detach()
        assert server.connections == 5


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_server_that_only_closes_is_not_asked_for_ever(method: str) -> None:
    with chaos.serve(chaos.close_at_accept) as server:
        with at(server) as connection:
            connection.request(method, "/")
            with pytest.raises(client.RemoteDisconnected):
                connection.getresponse()
            assert connection.sock is None
        assert server.connections <= 2


def test_a_response_outlives_its_connection_that_says_close() -> None:
    head = HEAD.replace(b"OK", b"OK\r\nConnection: close")
    with chaos.serve(chaos.answer(head, b"hello world", then="close")) as server:
        connection = at(server)
        connection.request("GET", "/")
        response = connection.getresponse()
        assert connection.sock is None
        connection.close()
        del connection
        gc.collect()
        assert response.read() == b"hello world"
        with pytest.raises(io.UnsupportedOperation):
            response.fileno()


def test_a_connection_ends_with_its_last_response() -> None:
    ended = threading.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        await reader.read()
        ended.set()

    with chaos.serve(script) as server:
        connection = at(server)
        connection.request("GET", "/")
        response = connection.getresponse()
        assert response.read() == b"ok"
        assert ended.wait(20)


@pytest.mark.parametrize("method", ["read", "read all", "readinto", "readline"])
def test_nothing_is_lost_when_content_comes_late(method: str) -> None:
    late = threading.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        writer.write(HEAD + b"hello")
        await asyncio.to_thread(late.wait)
        writer.write(b" world")
        await chaos.forever()

    with chaos.serve(script) as server, at(server) as connection:
        connection.request("GET", "/")
        response = connection.getresponse()
        assert response.peek()
        connection.sock.settimeout(0.05)
        _read_late(response, method, late)


def _read_late(response: HTTPResponse, method: str, late: threading.Event) -> None:
    """The first read is too early; what it had got is there for the next."""
    buffer = bytearray(11)
    calls: dict[str, Callable[[], bytes]] = {
        "read": lambda: response.read(11),
        "read all": response.read,
        "readinto": lambda: bytes(buffer[: response.readinto(buffer)]),
        "readline": response.readline,
    }
    with pytest.raises(errors.ReadTimeout):
        calls[method]()
    late.set()
    while True:
        with contextlib.suppress(errors.ReadTimeout):
            assert calls[method]() == b"hello world"
            return


@pytest.mark.parametrize("amount", [None, 100, 1 << 30])
def test_content_that_is_cut_short(amount: int | None) -> None:
    with chaos.serve(chaos.answer(HEAD, b"hell", then="close")) as server, at(server) as connection:
        connection.request("GET", "/")
        response = connection.getresponse()
        if amount is not None:
            assert response.read(amount) == b"hell"
        with pytest.raises(client.IncompleteRead) as caught:
            response.read()
        assert caught.value.partial == (b"hell" if amount is None else b"")
        assert caught.value.expected == 7


def test_close_ends_what_is_outstanding() -> None:
    with chaos.serve(chaos.silent) as server:
        connection = at(server)
        connection.request("GET", "/")
        accepted(server)
        connection.close()
        connection.close()
        with pytest.raises(client.ResponseNotReady):
            connection.getresponse()


def test_a_wait_is_ended_by_a_close_in_another_thread() -> None:
    with chaos.serve(chaos.silent) as server:
        connection = at(server)
        connection.request("GET", "/")
        accepted(server)
        with when_asleep(connection.close), pytest.raises(ConnectionError):
            connection.getresponse()


def test_a_silent_server_is_a_timeout() -> None:
    with chaos.serve(chaos.silent) as server, at(server) as connection:
        connection.connect()
        connection.sock.settimeout(0.2)
        connection.request("GET", "/")
        with pytest.raises(errors.ReadTimeout):
            connection.getresponse()


@pytest.mark.parametrize("listener", ["h2", "h3"])
def test_ids_go_on_after_the_connection_has_ended(listener: str, connect: Connect) -> None:
    connection = connect("embedded", listener)
    ids = []
    for _ in range(3):
        ids.append(connection.request("GET", "/hello"))
        assert connection.getresponse().read() == b"hello world"
        connection.sock.close()
    first, step = (1, 2) if listener == "h2" else (0, 4)
    assert ids == [first, first + step, first + 2 * step]


@pytest.mark.parametrize(
    ("versions", "secure"), [(("h4",), True), ((), True), (("h3",), False), (("h3", "h2"), False)]
)
def test_versions_that_cannot_be_had(versions: tuple[str, ...], secure: bool) -> None:
    with pytest.raises(ValueError, match="versions="):
        HTTPConnection("localhost", versions=versions, secure=secure)


def test_port_443_is_tls() -> None:
    assert HTTPConnection("localhost", 443).secure
    assert HTTPConnection("localhost:443").secure
    assert not HTTPConnection("localhost").secure
    assert not HTTPConnection("localhost", 443, secure=False).secure
    assert HTTPConnection("localhost", secure=True).port == 443


WAITING = """
import sys
from trilane.client.http import HTTPConnection

connection = HTTPConnection("127.0.0.1", int(sys.argv[1]))
ids = [connection.request("GET", "/") for _ in range(2)]
print("waiting", flush=True)
connection.get_response(ids[int(sys.argv[2])])
"""


@pytest.mark.parametrize("which", [0, 1], ids=["for a head", "for a turn"])
def test_ctrl_c_ends_a_wait(which: int) -> None:
    with chaos.serve(chaos.silent) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", WAITING, str(server.port), str(which)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_S)
        assert said.strip().endswith("KeyboardInterrupt")
