"""The way to the server: proxies, Unix sockets, local addresses, addresses that are given."""

from __future__ import annotations

import asyncio
import http.server
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from aioquic.quic.connection import NetworkAddress

from client.wire import h3_chaos
from peers import chaos
from peers.authority import Leaf
from peers.process import free_port
from peers.proxy import proxy
from peers.running import Peers

from .loading import flag, load

GRANTED = "Basic dXNlcjpwYXNz"


@pytest.mark.parametrize("listener", ["h1", "h1s", "h2", "h2c"])
def test_a_proxy_makes_tunnels(peers: Peers, leaf: Leaf, listener: str) -> None:
    peer = peers["gonet"]
    with proxy(authorization=GRANTED) as seen:
        named = seen.address.replace("http://", "http://user:pass@")
        route = ["--proxy", named, "--cacert", str(leaf.ca)]
        report = load(flag(listener), *route, "-c", "2", "-n", "40", peer.url(listener)).good
    assert report["requests"]["ok"] == 40
    assert report["connections"]["established"] >= 1
    assert seen.lines
    assert set(seen.authorizations) == {GRANTED}
    port = peer.url(listener).split(":")[2].split("/")[0]
    assert {line.split(" ")[0] for line in seen.lines} == {"CONNECT"}
    assert all(line.endswith(f":{port} HTTP/1.1") for line in seen.lines), seen.lines


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"authorization": GRANTED}, "407 No"),
        ({"refuse": 503}, "503 No"),
    ],
)
def test_a_proxy_that_refuses_is_the_reason(options: dict[str, object], words: str) -> None:
    with proxy(**options) as seen:  # type: ignore[arg-type]
        run = load("--proxy", seen.address, "-c", "2", "-n", "4", "http://api.example/")
    assert run.code == 1, run
    assert "the proxy" in run.message
    assert words in run.message


def test_a_proxy_that_closes_and_one_that_is_not_there() -> None:
    with chaos.serve(chaos.close_at_accept) as server:
        run = load("--proxy", server.base, "-n", "1", "-c", "1", "http://api.example/")
    assert run.code == 1, run
    port = free_port()
    run = load("--proxy", f"http://127.0.0.1:{port}", "-n", "1", "http://api.example/")
    assert run.code == 1, run
    assert f"the proxy 127.0.0.1:{port} refused the connection: is it running" in run.message


class Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def address_string(self) -> str:
        return "local"

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def unix_server(path: Path) -> Iterator[None]:
    with socketserver.ThreadingUnixStreamServer(str(path), Hello) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with unix_server(path):
        arguments = ["-c", "3", "-n", "30", "--connect-to", f"unix:{path}"]
        report = load(*arguments, "http://docker/info").good
    assert report["requests"]["ok"] == 30
    assert report["target"]["peer"] == f"unix:{path}"
    assert report["target"]["body"]["bytes"] == 5


def test_a_unix_socket_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    run = load("-n", "1", "--connect-to", f"unix:{path}", "http://docker/info")
    assert run.code == 1, run
    assert str(path) in run.message
    assert "No such file" in run.message
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
    run = load("-n", "1", "--connect-to", f"unix:{path}", "http://docker/info")
    assert run.code == 1, run
    assert "refused the connection" in run.message


def test_local_addresses_take_turns() -> None:
    seen: list[str] = []
    both = threading.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername")[0])
        if len(seen) == 4:
            both.set()
        while True:
            await chaos.request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

    with chaos.serve(script) as server:
        run = load("--bind", "127.0.0.2,127.0.0.3", "-c", "4", "-n", "100", server.base + "/")
        assert both.wait(60)
    assert run.good["requests"]["ok"] == 100
    assert sorted(seen) == ["127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"]


def test_local_addresses_take_turns_over_quic(leaf: Leaf) -> None:
    seen: dict[h3_chaos.Server, str] = {}

    class Server(h3_chaos.Server):
        def datagram_received(self, data: bytes | str, addr: NetworkAddress) -> None:
            seen.setdefault(self, str(addr[0]))
            super().datagram_received(data, addr)

    def script(server: h3_chaos.Server, stream: int) -> None:
        server.send(stream, h3_chaos.response(), end=True)

    with h3_chaos.serve(script, leaf, Server) as port:
        route = ["--h3", "--cacert", str(leaf.ca), "--bind", "127.0.0.2,127.0.0.3"]
        report = load(*route, "-c", "4", "-n", "100", f"https://localhost:{port}/").good
    assert report["requests"]["ok"] == 100
    assert report["connections"]["established"] == len(seen)
    assert Counter(seen.values()) == {"127.0.0.2": 2, "127.0.0.3": 2}


def test_an_address_that_this_machine_does_not_have() -> None:
    run = load("--bind", "203.0.113.9", "-n", "1", "http://127.0.0.1:9/")
    assert run.code == 1, run
    assert "203.0.113.9:0 cannot be used here" in run.message


def test_addresses_that_are_given_are_not_asked_for(peers: Peers, leaf: Leaf) -> None:
    peer = peers["gonet"]
    url = peer.url("h1").replace("127.0.0.1", "api.example").replace("localhost", "api.example")
    assert "api.example" in url
    port = url.split(":")[2].split("/")[0]
    # Nobody listens at the first.
    given = f"api.example:{port}:127.0.0.9,127.0.0.1"
    report = load("--resolve", given, "-c", "2", "-n", "20", url).good
    assert report["requests"]["ok"] == 20
    assert report["target"]["peer"] == f"127.0.0.1:{port}"


class _Told(http.server.BaseHTTPRequestHandler):
    """Answers, and keeps which of its addresses each connection came to."""

    protocol_version = "HTTP/1.1"
    connected: ClassVar[list[str]] = []

    def setup(self) -> None:
        super().setup()
        self.connected.append(self.connection.getsockname()[0])

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_connections_are_spread_over_all_addresses() -> None:
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), _Told)  # noqa: S104 - all of this machine's
    _Told.connected.clear()
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        given = f"api.example:{port}:127.0.0.1,127.0.0.2,127.0.0.3"
        arguments = ["--resolve", given, "--spread", "-c", "6", "-t", "2", "-n", "60"]
        report = load(*arguments, f"http://api.example:{port}/").good
        server.shutdown()
    expected = {f"127.0.0.{number}": 2 for number in (1, 2, 3)}
    assert Counter(_Told.connected) == expected
    assert report["target"]["peers"] == {f"{host}:{port}": n for host, n in expected.items()}


def test_a_spread_connection_passes_by_an_address_where_nobody_listens(peers: Peers) -> None:
    peer = peers["gonet"]
    port = peer.url("h1").split(":")[2].split("/")[0]
    given = f"api.example:{port}:127.0.0.9,127.0.0.1"
    arguments = ["--resolve", given, "--spread", "-c", "4", "-n", "40"]
    report = load(*arguments, f"http://api.example:{port}/hello").checked
    assert report["requests"]["started"] == 40
    # Those that nobody answered may still wait for their next attempt as the others have sent all.
    assert set(report["target"]["peers"]) == {f"127.0.0.1:{port}"}
