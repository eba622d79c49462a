"""Subclasses that make sockets of their own, as urllib3's do."""

from __future__ import annotations

import gc
import socket
import warnings
from urllib.parse import urlsplit

import pytest

from client.waits import PATIENCE_S
from peers import chaos
from peers.peer import Peer
from peers.proxy import proxy
from trilane.client import errors
from trilane.client.http import HTTPConnection, HTTPResponse


class Connecting(HTTPConnection):
    """Connects as urllib3's connections do."""

    def connect(self) -> None:
        """Set `sock`, and ask for a tunnel by the method of `http.client`."""
        self.sock = socket.create_connection((self.host, self.port), PATIENCE_S)
        if self._tunnel_host:
            self._tunnel()


def test_a_tunnel_is_asked_for(server: Peer) -> None:
    url = urlsplit(server.bases["h1"])
    host, port = str(url.hostname), url.port
    with proxy() as seen:
        connection = Connecting("127.0.0.1", seen.server.port)
        connection.set_tunnel(host, port)
        connection.request("GET", "/hello")
        assert connection.getresponse().read() == b"hello world"
        connection.request("GET", "/hello")
        assert connection.getresponse().read() == b"hello world"
        assert seen.lines == [f"CONNECT {host}:{port} HTTP/1.1"]
        told = connection.get_proxy_response_headers()
        assert told is not None
        assert told["via"] == "1.1 tests"
        connection.close()


def test_a_tunnel_that_is_refused() -> None:
    with proxy(refuse=403) as seen:
        connection = Connecting("127.0.0.1", seen.server.port)
        connection.set_tunnel("nowhere.example", 80)
        with pytest.raises(errors.ProxyError, match="Tunnel connection failed: 403"):
            connection.request("GET", "/")
        assert connection.sock is None


def test_the_answer_of_a_proxy_as_urllib3_reads_it() -> None:
    """On Pythons whose own `_tunnel` is faulty it uses these names of `http.client`."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 a\r\n\r\n")
        response = HTTPResponse(ours, method=HTTPConnection._method)
        assert response._read_status() == (11, 200, "Connection established")
        assert [response.fp.readline() for _ in range(2)] == [b"Via: 1.1 a\r\n", b"\r\n"]
        response.close()
        # The tunnel is there.
        theirs.sendall(b"through")
        assert ours.recv(7) == b"through"


def test_close_closes_what_nobody_reads() -> None:
    with (
        chaos.serve(chaos.silent) as server,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        connection = Connecting("127.0.0.1", server.port)
        connection.request("GET", "/")
        connection.sock.settimeout(0.001)
        descriptor = connection.sock.fileno()
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            socket.socket(fileno=descriptor)
        del connection
        gc.collect()
    assert [str(one.message) for one in caught] == []


def test_chunks_are_the_responses_own() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n123\r\n0\r\n\r\n"
    with chaos.serve(chaos.answer(answer)) as server:
        connection = Connecting("127.0.0.1", server.port)
        connection.request("GET", "/")
        response = connection.getresponse()
        assert not hasattr(response, "fp")
        assert response.read() == b"123"
        connection.close()
