"""The PROXY protocol: each connection says first whose it is, as nginx and bare sockets read it."""

from __future__ import annotations

import socketserver
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from peers import nginx
from peers.peer import Peer, cleartext, secure
from peers.process import HOST, free_port
from peers.proxy import proxy

from .loading import Report, flag, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from peers.authority import Leaf
    from peers.running import Peers

LISTENERS = ["h1", "h1s", "h2c", "h2"]
# Bytes of a header of version 2 with addresses of IPv4.
HEADER_V2 = 28

# What nginx was told, one line a request: whose connection it is, and where that went.
_FORMAT = (
    "'$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr"
    " $proxy_protocol_server_port $remote_port'"
)


class Listening:
    """An nginx whose ports expect the PROXY protocol, and what it was told by then."""

    def __init__(self, start: Callable[[Callable[[Path], Peer]], Peer], leaf: Leaf) -> None:
        ports = {listener: free_port() for listener in LISTENERS}
        self._ports = ports

        def make(folder: Path) -> Peer:
            self._folder = folder
            listen = [
                f"listen {HOST}:{ports['h1']} proxy_protocol;",
                f"listen {HOST}:{ports['h1s']} ssl proxy_protocol;",
                f"listen unix:{folder}/socket proxy_protocol;",
            ]
            # One server for each protocol: nginx 1.22 knows http2 by its port.
            listen_h2 = [
                f"listen {HOST}:{ports['h2c']} http2 proxy_protocol;",
                f"listen {HOST}:{ports['h2']} ssl http2 proxy_protocol;",
            ]
            told = f"access_log {folder}/told told; include {folder}/locations;"
            directives = f"log_format told {_FORMAT};" + "".join(
                f"server {{ {' '.join(lines)} {told} }}" for lines in (listen, listen_h2)
            )
            return nginx.start(folder, leaf, directives=directives)

        self._peer = start(make)
        self.ca = str(leaf.ca)

    def url(self, listener: str) -> str:
        base = secure if listener in {"h1s", "h2"} else cleartext
        return base(self._ports[listener]) + "/hello"

    def port(self, listener: str) -> int:
        return self._ports[listener]

    @property
    def socket(self) -> str:
        return f"unix:{self._folder}/socket"

    def told(self) -> list[list[str]]:
        """Whose connection each request came on; ends nginx, which has written all by then."""
        self._peer.stop()
        return [line.split() for line in (self._folder / "told").read_text().splitlines()]

    def log(self) -> str:
        return (self._folder / "error.log").read_text(errors="replace")


@pytest.fixture
def listening(own: Callable[[Callable[[Path], Peer]], Peer], leaf: Leaf) -> Listening:
    return Listening(own, leaf)


def run(listening: Listening, listener: str, *arguments: str) -> Report:
    """Sixty requests on four connections of one thread."""
    route = [flag(listener), "--cacert", listening.ca, "-c", "4", "-n", "60"]
    return load(*route, *arguments, listening.url(listener)).good


@pytest.mark.parametrize(("listener", "version"), [("h1", "v2"), ("h2", "v1")])
def test_a_server_reads_whose_connection_it_is(
    listening: Listening, listener: str, version: str
) -> None:
    report = run(listening, listener, "--proxy-protocol", version)
    asked = report["plan"]["asked"]
    assert (asked["proxy_protocol"], asked["proxy_source"]) == (version, None)
    assert report["requests"]["ok"] == 60
    made = report["connections"]["established"]
    sent = report["bytes"]["handshake_sent"]
    if listener == "h1":
        # Nothing else goes before requests there.
        assert sent == made * HEADER_V2
    assert sent >= made * HEADER_V2
    assert report["bytes"]["sent"] >= made * HEADER_V2
    told = listening.told()
    assert len(told) == 60
    for address, port, server, server_port, own_port in told:
        assert (address, server) == (HOST, HOST)
        assert (port, server_port) == (own_port, str(listening.port(listener)))


@pytest.mark.parametrize(("listener", "version"), [("h1s", "v1"), ("h2c", "v2")])
def test_connections_say_that_they_are_other_clients(
    listening: Listening, listener: str, version: str
) -> None:
    sources = ["--proxy-source", "10.0.0.0/30,2001:db8::7", "--requests-per-connection", "5"]
    report = run(listening, listener, "--proxy-protocol", version, *sources)
    assert report["plan"]["asked"]["proxy_source"] == "10.0.0.0/30,2001:db8::7"
    told = listening.told()
    # A server of IPv4 is told of as one of IPv6 to a client that is of IPv6.
    assert {(line[0], line[2]) for line in told} == {
        ("10.0.0.1", HOST),
        ("10.0.0.2", HOST),
        ("2001:db8::7", f"::ffff:{HOST}" if version == "v2" else "::ffff:7f00:1"),
    }
    connections = Counter({(line[0], line[1]) for line in told})
    clients = Counter(address for address, _ in connections)
    # In turn, whatever place they are in.
    assert max(clients.values()) - min(clients.values()) <= 1, clients
    assert sum(clients.values()) >= 12


def test_clients_take_turns_over_all_threads(listening: Listening) -> None:
    arguments = ["--proxy-protocol", "v2", "--proxy-source", "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4"]
    run(listening, "h1", *arguments, "-t", "2")
    clients = {line[0] for line in listening.told()}
    assert clients == {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}


def test_without_the_header_such_a_server_is_hinted_at(listening: Listening) -> None:
    for listener in ("h1s", "h2"):
        route = [flag(listener), "--cacert", listening.ca, "-n", "4", "-c", "2"]
        failed = load(*route, listening.url(listener))
        assert failed.code == 1, failed
        assert "--proxy-protocol v2" in failed.message
    ended = load("-n", "4", "-c", "2", listening.url("h1"))
    assert ended.code == 4, ended
    (reason,) = (
        reason for reason in ended.checked["validity"]["reasons"] if reason["code"] == "nothing_ok"
    )
    assert "--proxy-protocol v2" in reason["text"]
    assert "broken header" in listening.log()


def test_with_the_header_other_servers_are_hinted_at(peers: Peers) -> None:
    arguments = ["--proxy-protocol", "v1", "-n", "4", "-c", "2"]
    run = load(*arguments, peers["nginx"].url("h1"))
    assert run.code == 4, run
    assert run.checked["status"] == {"400": 4}
    assert "Leave --proxy-protocol out" in run.checked["validity"]["reasons"][0]["text"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_unix_socket_has_no_addresses(listening: Listening, version: str) -> None:
    arguments = ["--connect-to", listening.socket, "-n", "20", "-c", "2"]
    report = load("--proxy-protocol", version, *arguments, "http://localhost/hello").good
    assert report["requests"]["ok"] == 20
    assert {line[0] for line in listening.told()} == {"-"}


class _Saying(socketserver.StreamRequestHandler):
    """Keeps the first line of each connection, and answers each request."""

    said: list[bytes]

    def handle(self) -> None:
        self.said.append(self.rfile.readline())
        while line := self.rfile.readline():
            if line == b"\r\n":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@contextmanager
def saying() -> Iterator[tuple[int, list[bytes]]]:
    said: list[bytes] = []
    handler = type("Saying", (_Saying,), {"said": said})
    with socketserver.ThreadingTCPServer((HOST, 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], said
        finally:
            server.shutdown()
            thread.join()


def test_it_goes_through_a_proxys_tunnel() -> None:
    with saying() as (port, said), proxy() as seen:
        arguments = ["--proxy-protocol", "v1", "--proxy-source", "203.0.113.9"]
        url = f"http://{HOST}:{port}/"
        report = load("--proxy", seen.address, *arguments, "-c", "1", "-n", "5", url).good
    assert report["requests"]["ok"] == 5
    assert seen.lines == [f"CONNECT {HOST}:{port} HTTP/1.1"]
    (line,) = said
    first, family, source, destination, _, tail = line.split(b" ", 5)
    assert (first, family) == (b"PROXY", b"TCP4")
    assert (source, destination) == (b"203.0.113.9", HOST.encode())
    # Of the connection that it is a header of: to the proxy.
    assert tail == seen.address.rsplit(":", 1)[1].encode() + b"\r\n"
