"""Connecting: addresses, TLS, versions, proxies, and how each of them fails."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from peers.peer import Peer
from peers.process import free_port
from trilane._core import Connection, Tls, connect
from trilane.client import errors

from .conftest import TIMEOUT, Open
from .scripted import forward, serving, until_closed, until_head_ends


def https(server: Peer) -> tuple[str, int]:
    url = urlsplit(server.bases["h2"])
    assert url.hostname is not None
    assert url.port is not None
    return url.hostname, url.port


def test_what_tls_agreed_on(open_lane: Open) -> None:
    for lane, alpn in (("h1s", "http/1.1"), ("h2", "h2"), ("h3", "h3")):
        info = open_lane(lane).tls_info
        assert info is not None
        assert (info["alpn"], info["version"]) == (alpn, "TLSv1.3")
        assert isinstance(info["resumed"], bool)
        certificates = info["certificates"]
        assert isinstance(certificates, list)
        if lane != "h3":
            assert "BEGIN CERTIFICATE" in ssl.DER_cert_to_PEM_cert(certificates[0])
    assert open_lane("h1").tls_info is None


def test_addresses(open_lane: Open, server: Peer) -> None:
    for lane in ("h1", "h2", "h3"):
        connection = open_lane(lane)
        assert connection.peer == ("127.0.0.1", urlsplit(server.bases[lane]).port)
        assert connection.local is not None
        assert connection.local[0] == "127.0.0.1"
        assert connection.fileno() > 2


def test_a_session_is_resumed(open_lane: Open) -> None:
    for _ in range(2):
        connection = open_lane("h2")
        assert connection.submit("GET", "/hello", []).head(TIMEOUT) == 200
    info = open_lane("h2").tls_info
    assert info is not None
    assert info["resumed"]


def test_alpn_decides(open_lane: Open) -> None:
    assert open_lane("h2", versions=["h2", "h1"]).version == "h2"
    assert open_lane("h2", versions=["h1", "h2"]).version in ("h1", "h2")
    assert open_lane("h2", versions=None).version == "h2"
    assert open_lane("h1", versions=None).version == "h1"


def test_h3_races(open_lane: Open) -> None:
    connection = open_lane("h3", versions=["h3", "h2", "h1"], race=10)
    assert connection.version == "h3"
    assert connection.submit("GET", "/hello", []).head(TIMEOUT) == 200


def test_tcp_wins_where_nothing_answers_over_udp(tls: Tls, server: Peer) -> None:
    _, port = https(server)
    shared = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", shared))
        with serving(lambda peer: forward(peer, port), port=shared):
            connection = connect(
                "localhost", shared, versions=["h3", "h2"], tls=tls, race=0.1, timeout=TIMEOUT
            )
            assert connection.version == "h2"
            assert connection.submit("GET", "/hello", []).head(TIMEOUT) == 200
            connection.close()


@pytest.mark.parametrize("version", ["h1", "h2", "h3"])
def test_nobody_listens(version: str) -> None:
    port, tls = free_port(), Tls(insecure=True)
    with pytest.raises(errors.ConnectionRefused, match=str(port)) as caught:
        connect("127.0.0.1", port, versions=[version], tls=tls, timeout=TIMEOUT)
    assert isinstance(caught.value, ConnectionRefusedError)
    assert isinstance(caught.value, errors.ConnectFailed)
    assert caught.value.stream_id is None


@pytest.mark.parametrize("version", ["h1", "h3"])
def test_a_name_without_an_address(version: str) -> None:
    tls = Tls(insecure=True)
    with pytest.raises(errors.ResolveError, match=r"no-such-host\.invalid") as caught:
        connect("no-such-host.invalid", 443, versions=[version], tls=tls, timeout=TIMEOUT)
    assert isinstance(caught.value, socket.gaierror)


def test_an_authority_that_is_not_trusted(server: Peer) -> None:
    host, port = https(server)
    for versions in (["h2"], ["h3"]):
        with pytest.raises(errors.TLSError, match="verify=") as caught:
            connect(host, port, versions=versions, tls=Tls(platform=True), timeout=TIMEOUT)
        assert isinstance(caught.value, ssl.SSLError)
        assert isinstance(caught.value, ConnectionError)
    with pytest.raises(errors.TLSError):
        connect(host, port, timeout=TIMEOUT)


def test_a_certificate_for_another_name(server: Peer, tls: Tls) -> None:
    host, port = https(server)
    with pytest.raises(errors.TLSError, match=r"example\.test"):
        connect(host, port, tls=tls, server_name="example.test", timeout=TIMEOUT)
    with pytest.raises(errors.TLSError, match="not a name"):
        connect(host, port, tls=tls, server_name="not a name", timeout=TIMEOUT)
    connection = connect(host, port, tls=Tls(insecure=True), server_name="example.test")
    assert connection.submit("GET", "/hello", []).head(TIMEOUT) == 200
    connection.close()


def test_certificates_that_cannot_be_read() -> None:
    with pytest.raises(errors.TLSError, match=r"mine\.pem"):
        Tls(authorities=[("mine.pem", b"not PEM")])
    with pytest.raises(errors.TLSError, match=r"mine\.pem"):
        Tls(certificate=("mine.pem", b"not PEM"))
    with pytest.raises(errors.InvalidRequest, match=r"key\.pem"):
        Tls(key=("key.pem", b"key"))


def test_a_version_that_is_not_spoken() -> None:
    with (
        serving(until_closed) as port,
        pytest.raises((errors.VersionUnavailable, errors.InvalidRequest)),
    ):
        connect("127.0.0.1", port, scheme="http", versions=["h3"], timeout=TIMEOUT)


@pytest.mark.parametrize(
    "options",
    [
        {"scheme": "ftp"},
        {"versions": ["h4"]},
        {"versions": []},
        {"timeout": -1.0},
        {"race": float("nan")},
        {"source": ("somewhere", 0)},
    ],
)
def test_arguments_that_make_no_sense(options: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidRequest):
        connect("127.0.0.1", 1, **{"scheme": "http", **options})  # type: ignore[call-overload]


@pytest.mark.parametrize("host", ["", "a b", "a\0b"])
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(errors.ResolveError):
        connect(host, 1, scheme="http", timeout=TIMEOUT)


def test_arguments_of_other_types() -> None:
    with pytest.raises(OverflowError):
        connect("127.0.0.1", 65536, scheme="http")
    with pytest.raises(TypeError):
        connect("127.0.0.1", 80, versions="h1")
    with pytest.raises(TypeError, match="Connection"):
        Connection()


def test_a_source_address(open_lane: Open) -> None:
    port = free_port()
    connection = open_lane("h1", source=("127.0.0.1", port))
    assert connection.local == ("127.0.0.1", port)
    assert open_lane("h1", source=("", 0)).local is not None


def test_a_server_that_stays_silent() -> None:
    with serving(until_closed) as port, pytest.raises(errors.ConnectTimeout) as caught:
        connect("127.0.0.1", port, tls=Tls(insecure=True), timeout=0.1)
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, errors.ConnectFailed)


def test_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")

    def answer(peer: socket.socket) -> None:
        assert b"Host: name.test" in until_head_ends(peer)
        peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        until_closed(peer)

    with serving(answer, socket.AF_UNIX, path):
        connection = connect("name.test", 80, scheme="http", unix=path, timeout=TIMEOUT)
        assert connection.peer is None
        assert connection.submit("GET", "/", []).head(TIMEOUT) == 204
        connection.close()


def test_a_proxy(server: Peer, tls: Tls) -> None:
    host, port = https(server)
    asked = []

    def tunnel(peer: socket.socket) -> None:
        asked.append(until_head_ends(peer))
        peer.sendall(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 here\r\n\r\n")
        forward(peer, port)

    for version in ("h1", "h2"):
        with serving(tunnel) as proxy_port:
            proxy = ("127.0.0.1", proxy_port, [("Proxy-Authorization", "Basic YTpi")])
            connection = connect(
                host, port, versions=[version], tls=tls, proxy=proxy, timeout=TIMEOUT
            )
            assert connection.version == version
            assert connection.peer == ("127.0.0.1", proxy_port)
            assert connection.submit("GET", "/hello", []).read(timeout=TIMEOUT) == b"hello world"
            connection.close()
    for head in asked:
        assert head.startswith(f"CONNECT {host}:{port} HTTP/1.1\r\n".encode())
        assert b"proxy-authorization: basic yTpi".lower() in head.lower()


def test_a_proxy_that_refuses(tls: Tls) -> None:
    def refuse(peer: socket.socket) -> None:
        until_head_ends(peer)
        peer.sendall(b"HTTP/1.1 407 Authenticate\r\ncontent-length: 0\r\n\r\n")

    with serving(refuse) as port, pytest.raises(errors.ProxyError, match="407"):
        connect("localhost", 443, tls=tls, proxy=("127.0.0.1", port, []), timeout=TIMEOUT)
