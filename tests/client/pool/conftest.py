"""Servers for the tests of the client: started when first asked for."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.conftest import absent
from e2e.loading import binary
from peers import caddy, embedded, nginx
from peers.authority import Authority, Leaf
from peers.peer import Peer
from peers.process import MissingProgramError
from trilane.client.pool import Client


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests is not part of them."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    try:
        return Authority(tmp_path_factory.mktemp("authority"))
    except MissingProgramError as error:
        absent(error)


@pytest.fixture(scope="session")
def leaf(authority: Authority) -> Leaf:
    return authority.local()


@pytest.fixture(scope="session")
def security(leaf: Leaf) -> ssl.SSLContext:
    """For servers of the tests' own; they speak HTTP/2 only where they say so by ALPN."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf.cert, leaf.key)
    return context


Start = Callable[[Callable[[Path], Peer]], Peer]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    running: list[Peer] = []

    def begin(make: Callable[[Path], Peer]) -> Peer:
        try:
            running.append(make(tmp_path_factory.mktemp("peer")))
        except MissingProgramError as error:
            absent(error)
        return running[-1]

    yield begin
    for peer in running:
        peer.stop()


@pytest.fixture(scope="session")
def server(start: Start) -> Peer:
    """The embedded server, all versions."""
    return start(lambda folder: embedded.start(binary(), folder))


@pytest.fixture(scope="session")
def nginx_peer(start: Start, leaf: Leaf) -> Peer:
    return start(lambda folder: nginx.start(folder, leaf))


@pytest.fixture(scope="session")
def caddy_peer(start: Start, leaf: Leaf) -> Peer:
    """It announces HTTP/3 by Alt-Svc."""
    return start(lambda folder: caddy.start(folder, leaf))


@pytest.fixture
def client(server: Peer) -> Iterator[Client]:
    """A client that trusts the embedded server, and leaves its Alt-Svc alone."""
    with Client(versions=("h2", "h1"), verify=str(server.ca), timeout=20.0) as made:
        yield made


VERSIONS = ("h1", "h1s", "h2c", "h2", "h3")


@pytest.fixture(params=VERSIONS)
def each(request: pytest.FixtureRequest, server: Peer) -> Iterator[tuple[Client, str, str]]:
    """For every version: a client that speaks it alone, its name, and the server's base URL."""
    listener: str = request.param
    version = listener[:2]
    with Client(versions=(version,), verify=str(server.ca), timeout=20.0) as made:
        yield made, version, server.bases[listener]
