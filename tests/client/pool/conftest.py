"""Servers for the tests of the client: started when first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from peers.peer import Peer
from peers.running import Peers
from trilane.client.pool import Client


@pytest.fixture
def nginx_peer(peers: Peers) -> Peer:
    return peers["nginx"]


@pytest.fixture
def caddy_peer(peers: Peers) -> Peer:
    """It announces HTTP/3 by Alt-Svc."""
    return peers["caddy"]


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
