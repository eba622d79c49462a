"""Proxies: tunnels for https, whole requests for http, and what goes wrong on the way."""

from __future__ import annotations

import base64
import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests
from requests import exceptions

from client.waits import PATIENCE_S
from peers.authority import Leaf
from peers.pproxy import Proxy as Foreign

from .conftest import Server

MakeSession = Callable[..., requests.Session]

NUMBERS = {"h1": 11, "h2": 20}
SECRET = "Basic " + base64.b64encode(b"user:pass word").decode()


@dataclass
class Proxy:
    """A proxy that wants a password, and the heads of the requests that it got."""

    port: int
    heads: list[str] = field(default_factory=list)

    def url(self, userinfo: str = "user:pass%20word@") -> str:
        return f"http://{userinfo}127.0.0.1:{self.port}"


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        running = Proxy(listener.getsockname()[1])
        connections: list[socket.socket] = []
        threads: list[threading.Thread] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.settimeout(PATIENCE_S)
                    connections.append(connection)
                    threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
                    threads[-1].start()

        def serve(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                forward(connection, running)

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield running
        listener.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *threads):
            thread.join(PATIENCE_S)


def forward(client: socket.socket, running: Proxy) -> None:
    """One connection: the first request decides where it goes; then bytes both ways."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = client.recv(65536)
        if not piece:
            return
        received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    text = head.decode("latin-1")
    running.heads.append(text)
    method, target, _ = text.split("\r\n")[0].split(" ")
    if f"proxy-authorization: {SECRET}".lower() not in text.lower():
        client.sendall(
            b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n"
            b"connection: close\r\n\r\n"
        )
        return
    place = target if method == "CONNECT" else target.split("/")[2]
    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as server:
        if method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.sendall(rest)
        else:
            path = "/" + target.split("/", 3)[3]
            server.sendall(received.replace(target.encode(), path.encode(), 1))
        relay(client, server)


def relay(one: socket.socket, other: socket.socket) -> None:
    """Bytes both ways until one side closes."""
    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while ready := selector.select(PATIENCE_S):
            for key, _ in ready:
                source, target = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                data = source.recv(65536)
                if not data:
                    return
                target.sendall(data)


@pytest.mark.parametrize(("version", "number"), [("h1", 11), ("h2", 20)])
def test_https_goes_through_a_tunnel(
    make_session: MakeSession, server: Server, proxy: Proxy, version: str, number: int
) -> None:
    session = make_session(version)
    session.proxies = {"https": proxy.url()}
    for _ in range(3):
        answer = session.get(f"{server.https}/headers")
        assert answer.raw.version == number
        assert "proxy-authorization" not in answer.text.lower()
    assert len(proxy.heads) == 1
    assert proxy.heads[0].startswith(f"CONNECT {server.https.removeprefix('https://')} HTTP/1.1")


def test_http_is_handed_to_the_proxy(
    make_session: MakeSession, server: Server, proxy: Proxy
) -> None:
    session = make_session()
    session.proxies = {"http": proxy.url()}
    answer = session.get(f"{server.http}/headers?a=1")
    assert dict(answer.json()["fields"])["host"] == server.http.removeprefix("http://")
    assert proxy.heads[0].startswith(f"GET {server.http}/headers?a=1 HTTP/1.1\r\n")
    assert proxy.heads[0].lower().count("proxy-authorization") == 1
    # Requests' own way around a proxy.
    session.proxies["no_proxy"] = "127.0.0.1"
    assert session.get(f"{server.http}/hello").ok


def test_a_proxy_that_says_no(make_session: MakeSession, server: Server, proxy: Proxy) -> None:
    session = make_session()
    with pytest.raises(exceptions.ProxyError, match="407"):
        session.get(f"{server.https}/hello", proxies={"https": proxy.url("")})
    refused = session.get(f"{server.http}/hello", proxies={"http": proxy.url("")})
    assert refused.status_code == 407


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there(make_session: MakeSession, server: Server, scheme: str) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{holder.getsockname()[1]}"
        target = server.http if scheme == "http" else server.https
        with pytest.raises(exceptions.ProxyError):
            make_session().get(f"{target}/hello", proxies={scheme: url}, timeout=PATIENCE_S)
    with pytest.raises(exceptions.InvalidProxyURL):
        make_session().get(f"{server.http}/hello", proxies={"http": "http:/bad/"})


def test_certificates_count_behind_a_proxy_too(
    make_session: MakeSession, proxy: Proxy, stranger: Server
) -> None:
    with pytest.raises(exceptions.SSLError):
        make_session().get(f"{stranger.https}/hello", proxies={"https": proxy.url()})


def test_h3_alone_does_not_go_through_a_proxy(
    make_session: MakeSession, server: Server, proxy: Proxy
) -> None:
    with pytest.raises(exceptions.ConnectionError, match="h1"):
        make_session("h3").get(f"{server.https}/hello", proxies={"https": proxy.url()})
    with pytest.raises(exceptions.InvalidSchema, match="add h1"):
        make_session("h2").get(f"{server.https}/hello", proxies={"https": "socks4://127.0.0.1:1"})


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_socks(make_session: MakeSession, server: Server, tmp_path: Path, version: str) -> None:
    with Foreign(tmp_path, "socks5", user="me:secret") as socks:
        session = make_session(version)
        for scheme in ("socks5", "socks5h"):
            url = f"{scheme}://me:secret@127.0.0.1:{socks.port}"
            session.proxies = {"http": url, "https": url}
            answer = session.get(f"{server.https}/hello")
            assert (answer.text, answer.raw.version) == ("hello world", NUMBERS[version])
            if version == "h1":
                assert session.get(f"{server.http}/hello").text == "hello world"
        wrong = f"socks5://me:wrong@127.0.0.1:{socks.port}"
        with pytest.raises(exceptions.ConnectionError, match="made no tunnel"):
            session.get(f"{server.https}/hello", proxies={"https": wrong})


def test_a_proxy_behind_tls(
    make_session: MakeSession, server: Server, tmp_path: Path, leaf: Leaf
) -> None:
    with Foreign(tmp_path / "proxy", "http+ssl", leaf=leaf) as foreign:
        session = make_session()
        bundle = tmp_path / "bundle.pem"
        bundle.write_bytes(Path(str(session.verify)).read_bytes() + leaf.ca.read_bytes())
        session.verify = str(bundle)
        url = f"https://localhost:{foreign.port}"
        session.proxies = {"http": url, "https": url}
        assert session.get(f"{server.https}/hello").text == "hello world"
        assert session.get(f"{server.http}/hello").text == "hello world"
        session.verify = str(leaf.ca)
        with pytest.raises(exceptions.SSLError):
            session.get(f"{server.https}/hello")
