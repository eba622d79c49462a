"""Code of the standard library that stands on `http.client`, with our connection under it."""

from __future__ import annotations

import socket
import ssl
import threading
import urllib.error
import urllib.request
import xmlrpc.client
import xmlrpc.server
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from client.shape.conftest import Connect
from client.waits import PATIENCE_S
from peers import chaos
from peers.authority import Leaf
from peers.peer import Peer
from peers.running import Peers
from trilane.client import errors
from trilane.client.http import HTTPConnection, HTTPSConnection

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(HTTPConnection, req)  # type: ignore[arg-type]


class Secure(urllib.request.HTTPSHandler):
    def __init__(self, ca: str) -> None:
        super().__init__()
        self._ca = ca

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(HTTPSConnection, req, ca=self._ca)  # type: ignore[arg-type]


@pytest.fixture
def peer(peers: Peers) -> Peer:
    return peers["embedded"]


def opener(peer: Peer) -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), Plain(), Secure(str(peer.ca))
    )


@pytest.mark.parametrize("listener", ["h1", "h3"])
def test_urllib_opens(listener: str, peer: Peer) -> None:
    with opener(peer).open(peer.url(listener), timeout=PATIENCE_S) as response:
        assert response.status == 200
        assert response.geturl() == peer.url(listener)
        assert response.read() == b"hello world"


@pytest.mark.parametrize("listener", ["h1", "h3"])
def test_urllib_posts_what_has_no_length(listener: str, peer: Peer) -> None:
    url = peer.url(listener, "/echo")
    request = urllib.request.Request(url, data=iter([b"a", b"b"]))  # noqa: S310 - ours
    with opener(peer).open(request, timeout=PATIENCE_S) as response:
        assert response.read() == b"ab"


def test_urllib_raises_for_a_status(peer: Peer) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        opener(peer).open(peer.url("h2", "/status/404"), timeout=PATIENCE_S)
    assert caught.value.code == 404
    caught.value.close()


class Transport(xmlrpc.client.Transport):
    def make_connection(self, host: Any) -> Any:
        kept: Any = self._connection
        if kept is None or host != kept[0]:
            kept = host, HTTPConnection(host, timeout=PATIENCE_S)
            self._connection = kept
        return kept[1]


@pytest.fixture
def adder() -> Iterator[str]:
    server = xmlrpc.server.SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
    server.register_function(lambda a, b: a + b, "add")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_xmlrpc_calls(adder: str) -> None:
    with xmlrpc.client.ServerProxy(adder, transport=Transport()) as proxy:
        assert proxy.add(1, 2) == 3
        assert proxy.add("a", "b") == "ab"


def test_a_unix_socket_of_ones_own(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")

    class Unix(HTTPConnection):
        def connect(self) -> None:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(20)
            sock.connect(path)
            self.sock = sock

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted, accepted.makefile("rb") as requests:
                for number in (b"1", b"2"):
                    while requests.readline() not in (b"\r\n", b""):
                        pass
                    accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + number)

        thread = threading.Thread(target=serve)
        thread.start()
        with Unix("localhost") as connection:
            for number in (b"1", b"2"):
                connection.request("GET", "/")
                assert connection.getresponse().read() == number
        thread.join(20)


@pytest.mark.parametrize(("protocol", "version"), [("h2", 20), ("http/1.1", 11)])
def test_a_socket_that_ssl_wrapped(
    protocol: str, version: int, peer: Peer, connect: Connect
) -> None:
    url = urlsplit(peer.bases["h2"])
    context = ssl.create_default_context(cafile=str(peer.ca))
    context.set_alpn_protocols([protocol])
    sock = socket.create_connection((url.hostname or "", url.port or 0), timeout=PATIENCE_S)
    connection = connect("embedded", "h2")
    connection.sock = context.wrap_socket(sock, server_hostname=url.hostname)
    ids = [connection.request("POST", "/echo", bytes([number]) * 100_000) for number in range(3)]
    for number, ident in reversed(list(enumerate(ids))):
        response = connection.get_response(ident)
        assert response.version == version
        assert response.read() == bytes([number]) * 100_000


def test_a_context_that_asks_for_no_name(peer: Peer) -> None:
    url = urlsplit(peer.bases["h2"])
    context = ssl.create_default_context(cafile=str(peer.ca))
    context.check_hostname = False
    with HTTPSConnection("127.0.0.1", url.port, context=context, timeout=PATIENCE_S) as connection:
        connection.request("GET", "/hello")
        assert connection.getresponse().read() == b"hello world"


def test_a_version_that_a_context_cannot_have_is_no_other(leaf: Leaf) -> None:
    """It was HTTP/1.1, without a word."""
    offers_h2 = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    offers_h2.load_cert_chain(leaf.cert, leaf.key)
    offers_h2.set_alpn_protocols(["h2", "http/1.1"])
    nameless = ssl.create_default_context(cafile=str(leaf.ca))
    nameless.check_hostname = False
    old = ssl.create_default_context(cafile=str(leaf.ca))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with chaos.serve(chaos.answer(HELLO), offers_h2) as server:
        for context in (nameless, old):
            for versions, told in ((("h3",), "add 'h2' or 'h1'"), (("h2",), "set_alpn_protocols")):
                connection = HTTPSConnection(
                    "localhost",
                    server.port,
                    context=context,
                    versions=versions,
                    timeout=PATIENCE_S,
                )
                with connection, pytest.raises(errors.VersionUnavailable, match=told):
                    connection.request("GET", "/")


def test_a_context_with_tls_1_3_alone(leaf: Leaf) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.load_cert_chain(leaf.cert, leaf.key)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    context = ssl.create_default_context(cafile=str(leaf.ca))
    with chaos.serve(chaos.answer(HELLO), old) as server:
        with HTTPSConnection(
            "localhost", server.port, context=context, timeout=PATIENCE_S
        ) as connection:
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"hello"
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        with (
            HTTPSConnection(
                "localhost", server.port, context=context, timeout=PATIENCE_S
            ) as connection,
            pytest.raises(ssl.SSLError),
        ):
            connection.request("GET", "/")
