"""Proxies: whole requests for http, tunnels for https, and what the environment says."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from peers.peer import Peer
from peers.proxy import proxy
from trilane.client import errors
from trilane.client.origins import Origin, parse
from trilane.client.pool import Client
from trilane.client.proxies import Proxies
from trilane.client.routing import Proxy


def test_http_goes_in_absolute_form(server: Peer) -> None:
    url = server.url("h1", "/hello?a=b")
    with proxy() as seen, Client(proxies=seen.address, timeout=10.0) as client:
        assert client.get(url).content == b"hello world"
        assert client.get(url).content == b"hello world"
        assert seen.lines == [f"GET {url} HTTP/1.1"]
        assert seen.server.connections == 1


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_https_goes_through_a_tunnel(server: Peer, version: str) -> None:
    url = server.url("h2")
    with (
        proxy() as seen,
        Client(
            versions=(version,),
            proxies={"https": seen.address},
            verify=str(server.ca),
            timeout=10.0,
        ) as client,
    ):
        for _ in range(3):
            response = client.get(url)
            assert (response.version, response.content) == (version, b"hello world")
        assert seen.lines == [f"CONNECT {urlsplit(url).netloc} HTTP/1.1"]


@pytest.mark.parametrize("listener", ["h1", "h2"])
def test_the_proxy_is_told_who_asks(server: Peer, listener: str) -> None:
    with proxy(authorization="Basic bWU6c2VjcmV0") as seen:
        address = seen.address.replace("://", "://me:secret@")
        with Client(proxies=address, verify=str(server.ca), timeout=10.0) as client:
            response = client.get(server.url(listener, "/headers"))
            assert response.status == 200
            assert "proxy-authorization" not in response.text
        assert seen.authorizations == ["Basic bWU6c2VjcmV0"]


def test_a_tunnel_that_is_refused(server: Peer) -> None:
    with (
        proxy(authorization="Basic x") as seen,
        Client(proxies=seen.address, verify=str(server.ca), timeout=10.0) as client,
    ):
        with pytest.raises(errors.ProxyError, match="407") as caught:
            client.get(server.url("h2"))
        assert isinstance(caught.value, ConnectionError)
        assert client.get(server.url("h1")).status == 407


def test_no_proxy_listens(server: Peer) -> None:
    with Client(proxies="http://127.0.0.1:1", timeout=10.0) as client:
        for listener in ("h1", "h2"):
            with pytest.raises(errors.ConnectFailed):
                client.get(server.url(listener))


def test_the_environment_is_read(server: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy() as seen:
        monkeypatch.setenv("HTTP_PROXY", seen.address)
        with Client(timeout=10.0) as client:
            assert client.get(server.url("h1")).status == 200
        assert len(seen.lines) == 1
        monkeypatch.setenv("NO_PROXY", "example.org,127.0.0.1,localhost")
        with Client(timeout=10.0) as client:
            assert client.get(server.url("h1")).status == 200
        monkeypatch.delenv("NO_PROXY")
        with Client(timeout=10.0, proxies=None) as client:
            assert client.get(server.url("h1")).status == 200
        assert len(seen.lines) == 1


def test_which_proxy_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    http, https = parse("http://example.org/").origin, parse("https://[::1]:8443/").origin
    monkeypatch.setenv("http_proxy", "proxy.example:3128")
    monkeypatch.setenv("https_proxy", "http://[::2]:1")
    monkeypatch.setenv("no_proxy", "[::1]:8443")
    environment = Proxies.of("environment")
    assert environment.choose(http) == Proxy(Origin("http", "proxy.example", 3128))
    assert environment.choose(https) is None
    monkeypatch.setenv("no_proxy", "*")
    assert Proxies.of("environment").choose(http) is None
    own = Proxy(Origin("http", "p", 1), (("x", "y"),))
    assert Proxies.of({"all": own, "https": ""}).choose(https) is own
    assert not Proxies.of(None)
    assert Proxies.of({"https": "http://p:1"}).choose(http) is None


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:1", "https://127.0.0.1:1", "http://"])
def test_a_proxy_of_another_kind_is_refused(address: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"only http|TLS to itself|names no host"):
        Client(proxies=address)
