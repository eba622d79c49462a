"""Ways to a server: proxies for http and for https, Unix sockets, another local address."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from client.core.scripted import serving, until_head_ends
from client.face import MakeClient
from peers import chaos
from peers.peer import Peer
from peers.proxy import proxy
from trilane.client import errors

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"


def test_http_goes_in_absolute_form(make_client: MakeClient, server: Peer) -> None:
    url = server.url("h1", "/hello?a=b")
    with proxy() as seen:
        client = make_client(proxies=seen.address)
        assert client.get(url).content == b"hello world"
        assert client.get(url).content == b"hello world"
        assert seen.lines == [f"GET {url} HTTP/1.1"]
        assert seen.server.connections == 1


def test_origins_share_the_connection_to_a_proxy_that_forwards(make_client: MakeClient) -> None:
    heads: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(ANSWER)

    with chaos.serve(script) as server:
        client = make_client(proxies=server.base.replace("://", "://user:secret@"))
        for host in ("one.example", "two.example", "three.example"):
            assert client.get(f"http://{host}/path?query").content == b"hello world"
        assert server.connections == 1
        assert len(client.connections) == 1
    assert [head.splitlines()[0] for head in heads] == [
        "GET http://one.example/path?query HTTP/1.1",
        "GET http://two.example/path?query HTTP/1.1",
        "GET http://three.example/path?query HTTP/1.1",
    ]
    assert all("proxy-authorization: Basic dXNlcjpzZWNyZXQ=" in head for head in heads)


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_https_goes_through_a_tunnel(make_client: MakeClient, server: Peer, version: str) -> None:
    url = server.url("h2")
    with proxy() as seen:
        client = make_client(
            versions=(version,), proxies={"https": seen.address}, verify=str(server.ca)
        )
        for _ in range(3):
            response = client.get(url)
            assert (response.version, response.content) == (version, b"hello world")
        assert seen.lines == [f"CONNECT {urlsplit(url).netloc} HTTP/1.1"]


@pytest.mark.parametrize("listener", ["h1", "h2"])
def test_the_proxy_is_told_who_asks(make_client: MakeClient, server: Peer, listener: str) -> None:
    with proxy(authorization="Basic bWU6c2VjcmV0") as seen:
        address = seen.address.replace("://", "://me:secret@")
        client = make_client(proxies=address, verify=str(server.ca))
        response = client.get(server.url(listener, "/headers"))
        assert response.status == 200
        assert "proxy-authorization" not in response.text
        assert seen.authorizations == ["Basic bWU6c2VjcmV0"]


def test_a_tunnel_that_is_refused(make_client: MakeClient, server: Peer) -> None:
    with proxy(authorization="Basic x") as seen:
        client = make_client(proxies=seen.address, verify=str(server.ca))
        with pytest.raises(errors.ProxyError, match="407") as caught:
            client.get(server.url("h2"))
        assert isinstance(caught.value, ConnectionError)
        assert caught.value.error_code == 407
        assert client.get(server.url("h1")).status == 407


def test_no_proxy_listens(make_client: MakeClient, server: Peer) -> None:
    client = make_client(proxies="http://127.0.0.1:1")
    for listener in ("h1", "h2"):
        with pytest.raises(errors.ConnectFailed):
            client.get(server.url(listener))


def test_the_environment_is_read(
    make_client: MakeClient, server: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy() as seen:
        monkeypatch.setenv("HTTP_PROXY", seen.address)
        assert make_client().get(server.url("h1")).status == 200
        assert len(seen.lines) == 1
        monkeypatch.setenv("NO_PROXY", "example.org,127.0.0.1,localhost")
        assert make_client().get(server.url("h1")).status == 200
        monkeypatch.delenv("NO_PROXY")
        assert make_client(proxies=None).get(server.url("h1")).status == 200
        assert len(seen.lines) == 1


@pytest.mark.parametrize("address", ["socks4://me:secret@127.0.0.1:1", "ftp://p:1", "http://"])
def test_a_proxy_of_another_kind_is_refused(make_client: MakeClient, address: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"there are http|names no host") as caught:
        make_client(proxies=address)
    assert "secret" not in str(caught.value)


def test_a_unix_socket_is_a_theretoo(make_client: MakeClient, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")

    def answer(peer: socket.socket) -> None:
        until_head_ends(peer)
        peer.sendall(ANSWER)

    with serving(answer, socket.AF_UNIX, path):
        assert make_client(unix=path).get("http://docker/info").content == b"hello world"


def test_the_local_address_can_be_chosen(make_client: MakeClient) -> None:
    # All of 127/8 is this machine, and what nobody binds to is not taken by chance.
    client = make_client(source=("127.0.0.2", 0))
    seen: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername")[0])
        await chaos.request(reader)
        writer.write(ANSWER)

    with chaos.serve(script) as there:
        assert client.get(there.base).content == b"hello world"
    assert seen == ["127.0.0.2"]
