"""What `http.client` has since Python 3.12 and 3.13: tunnels, and the timeout of sockets."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from client.shape.conftest import Connect
from client.waits import PATIENCE_S
from peers.peer import Peer
from peers.proxy import proxy
from trilane.client.http import HTTPConnection, HTTPSConnection


@pytest.mark.parametrize("own", [False, True], ids=["native", "a socket of Python's"])
def test_the_proxy_s_answer_is_shown(server: Peer, own: bool) -> None:
    url = urlsplit(server.bases["h1"])
    with proxy() as seen:
        place = urlsplit(seen.address)
        connection = HTTPConnection(place.hostname or "", place.port, PATIENCE_S)
        if own:
            connection._create_connection = socket.create_connection
        connection.set_tunnel(url.hostname or "", url.port)
        assert connection.get_proxy_response_headers() is None
        connection.request("GET", "/hello")
        assert connection.getresponse().read() == b"hello world"
        answered = connection.get_proxy_response_headers()
        assert answered is not None
        assert answered["VIA"] == "1.1 tests"
        connection.close()


def test_without_a_proxy_there_is_no_answer_of_one(connect: Connect) -> None:
    connection = connect("embedded", "h1")
    connection.request("GET", "/hello")
    assert connection.getresponse().read() == b"hello world"
    assert connection.get_proxy_response_headers() is None


@pytest.mark.parametrize(
    ("host", "port", "asked"),
    [
        ("[1:2:3::4]", None, "[1:2:3::4]:80"),
        ("[1:2:3::4]", 8443, "[1:2:3::4]:8443"),
        ("1:2:3::4", 8443, "[1:2:3::4]:8443"),
        ("[1:2:3::4]:8443", None, "[1:2:3::4]:8443"),
        ("bücher.example", 80, "xn--bcher-kva.example:80"),
    ],
)
@pytest.mark.parametrize("own", [False, True], ids=["native", "a socket of Python's"])
def test_a_tunnel_is_asked_for_once(host: str, port: int | None, asked: str, own: bool) -> None:
    with proxy(refuse=403) as seen:
        place = urlsplit(seen.address)
        connection = HTTPConnection(place.hostname or "", place.port, PATIENCE_S)
        if own:
            connection._create_connection = socket.create_connection
        connection.set_tunnel(host, port)
        with pytest.raises(OSError, match="403"):
            connection.request("GET", "/")
        assert seen.lines == [f"CONNECT {asked} HTTP/1.1"]


def test_an_address_in_brackets_with_its_port() -> None:
    assert HTTPConnection("[::1]", 80).host == "::1"
    assert HTTPSConnection("[::1]", 443).host == "::1"


def test_the_timeout_of_sockets(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    default: Any = getattr(socket, "_GLOBAL_DEFAULT_TIMEOUT")  # noqa: B009 - not in typeshed
    socket.setdefaulttimeout(PATIENCE_S)
    try:
        connection = connect("embedded", "h1", timeout=default)
        connection.request("GET", "/hello")
        assert connection.getresponse().read() == b"hello world"
        assert connection.sock.gettimeout() == PATIENCE_S
        assert connection.timeout is default
    finally:
        socket.setdefaulttimeout(None)
