"""Where requests go: SOCKS, proxies behind TLS, addresses of the caller's own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from client.face import MakeClient
from peers import chaos
from peers.authority import Leaf
from peers.peer import Peer
from peers.pproxy import Proxy
from trilane.client import errors

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"
USER = "user:pass word"


def by_name(url: str) -> str:
    """The same URL with localhost for its host."""
    return url.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def socks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy(tmp_path_factory.mktemp("socks"), "socks5") as running:
        yield running


@pytest.fixture(scope="module")
def tls_proxy(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> Iterator[Proxy]:
    with Proxy(tmp_path_factory.mktemp("tls-proxy"), "http+ssl", leaf=leaf) as running:
        yield running


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("listener", ["h1", "h1s", "h2c", "h2"])
def test_socks(
    make_client: MakeClient, server: Peer, socks: Proxy, listener: str, scheme: str
) -> None:
    client = make_client(
        versions=(listener[:2],),
        verify=str(server.ca),
        proxies=f"{scheme}://127.0.0.1:{socks.port}",
        timings=True,
    )
    before = len(socks.asked)
    response = client.get(by_name(server.url(listener)))
    assert (response.version, response.content) == (listener[:2], b"hello world")
    assert response.peer == ("127.0.0.1", socks.port)
    timings = response.timings
    assert timings is not None
    assert timings.tunnel is not None
    port = urlsplit(server.url(listener)).port
    asked = socks.asked[before:]
    assert (f"localhost:{port}" in asked) == (scheme == "socks5h")


def test_socks_with_user_and_password(
    make_client: MakeClient, server: Peer, tmp_path: Path
) -> None:
    url = server.url("h2")
    with Proxy(tmp_path / "socks", "socks5", user=USER) as socks:
        place = f"127.0.0.1:{socks.port}"
        client = make_client(verify=str(server.ca), proxies=f"socks5://user:pass%20word@{place}")
        assert client.get(url).content == b"hello world"
        for proxy, why in [
            (f"socks5h://{place}", "made no tunnel"),
            (f"socks5h://user:wrong@{place}", "made no tunnel"),
        ]:
            with pytest.raises(errors.ProxyError, match=why) as caught:
                make_client(verify=str(server.ca), proxies=proxy).get(url)
            assert "wrong" not in str(caught.value)


def test_the_environment_may_name_socks(
    make_client: MakeClient, server: Peer, socks: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", f"socks5h://127.0.0.1:{socks.port}")
    response = make_client().get(by_name(server.url("h1")))
    assert response.peer == ("127.0.0.1", socks.port)


def test_a_socks_proxy_says_what_went_wrong(make_client: MakeClient) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(3) == b"\x05\x01\x00"
        writer.write(b"\x05\x00")
        assert await reader.readexactly(5) == b"\x05\x01\x00\x03\x0c"
        await reader.readexactly(14)
        writer.write(b"\x05\x04\x00\x01\0\0\0\0\0\0")

    with chaos.serve(script) as server:
        client = make_client(proxies=f"socks5h://127.0.0.1:{server.port}")
        with pytest.raises(errors.ProxyError, match=r"host unreachable \(SOCKS reply 4\)"):
            client.get("http://some.example/")


@pytest.mark.parametrize("listener", ["h1", "h1s", "h2"])
def test_a_proxy_behind_tls(
    make_client: MakeClient, server: Peer, tls_proxy: Proxy, bundle: str, listener: str
) -> None:
    client = make_client(
        versions=(listener[:2],),
        verify=bundle,
        proxies=f"https://localhost:{tls_proxy.port}",
        timings=True,
    )
    for _ in range(2):
        response = client.get(server.url(listener))
        assert (response.version, response.content) == (listener[:2], b"hello world")
        assert response.peer == ("127.0.0.1", tls_proxy.port)
    big = client.get(server.url(listener, "/bytes/1000000"))
    assert len(big.content) == 1_000_000
    content = bytes(1_000_000)
    echoed = client.post(server.url(listener, server.upload), content)
    assert echoed.content == content


@pytest.fixture(scope="module")
def bundle(server: Peer, leaf: Leaf, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The authorities of the server and of the proxy."""
    assert server.ca is not None
    file = tmp_path_factory.mktemp("bundle") / "ca.pem"
    file.write_bytes(server.ca.read_bytes() + leaf.ca.read_bytes())
    return str(file)


def test_the_certificate_of_a_proxy_is_verified(
    make_client: MakeClient, server: Peer, tls_proxy: Proxy
) -> None:
    proxy = f"https://localhost:{tls_proxy.port}"
    for listener in ("h1", "h2"):
        with pytest.raises(errors.TLSError, match="certificate of localhost"):
            make_client(verify=str(server.ca), proxies=proxy).get(server.url(listener))


def test_a_proxy_that_does_not_speak_tls(make_client: MakeClient, server: Peer) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with chaos.serve(script) as proxy:
        client = make_client(proxies=f"https://127.0.0.1:{proxy.port}")
        with pytest.raises(errors.TLSError, match="does not speak TLS"):
            client.get(server.url("h2"))


def test_a_resolver_of_ones_own(make_client: MakeClient, server: Peer) -> None:
    url = server.url("h1")
    port = urlsplit(url).port or 0
    asked: list[tuple[str, int]] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    there = f"http://nowhere.invalid:{port}/hello"
    assert make_client(resolver=resolver).get(there).content == b"hello world"
    assert asked == [("nowhere.invalid", port)]
    for given in ({"nowhere.invalid": "127.0.0.1"}, {f"nowhere.invalid:{port}": ["127.0.0.1"]}):
        response = make_client(resolver=given).get(there)
        assert response.peer == ("127.0.0.1", port)
    # What it does not know, and what is an address, is left to the system.
    assert make_client(resolver={"elsewhere.invalid": "192.0.2.1"}).get(url).status == 200


def test_a_resolver_that_fails(make_client: MakeClient) -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, f"{host} {port}")

    cases: list[tuple[Any, str]] = [
        (unknown, "cannot be resolved"),
        (lambda *_: [], "knows no address"),
        (lambda *_: ["localhost"], "give IP addresses"),
    ]
    for resolver, why in cases:
        with pytest.raises(errors.ResolveError, match=why):
            make_client(resolver=resolver).get("http://some.example/")


def test_addresses_are_tried_in_turn(make_client: MakeClient, server: Peer) -> None:
    """The first refuses: the next is tried at once (RFC 8305 §5)."""
    port = urlsplit(server.url("h1")).port
    client = make_client(resolver=lambda *_: ["127.0.0.9", "::1", "127.0.0.1"])
    response = client.get(f"http://some.example:{port}/hello")
    assert response.content == b"hello world"
    assert response.peer is not None
    assert response.peer[0] in {"127.0.0.1", "::1", "127.0.0.9"}


def test_a_proxy_is_resolved_in_the_same_way(
    make_client: MakeClient, server: Peer, socks: Proxy
) -> None:
    client = make_client(
        proxies=f"socks5://proxy.invalid:{socks.port}",
        resolver={"proxy.invalid": "127.0.0.1", "origin.invalid": "127.0.0.1"},
    )
    port = urlsplit(server.url("h1")).port
    assert client.get(f"http://origin.invalid:{port}/hello").content == b"hello world"
