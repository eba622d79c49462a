"""Peers, and connections to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest

from client.waits import PATIENCE_S
from peers.running import Peers
from trilane.client.http import HTTPConnection

Connect: TypeAlias = Callable[..., HTTPConnection]
VERSIONS = {"h1": "h1", "h1s": "h1", "h2": "h2", "h2c": "h2", "h3": "h3"}


@pytest.fixture
def connect(peers: Peers) -> Iterator[Connect]:
    """Makes a connection to a listener of a peer; all are closed at the end."""
    made: list[HTTPConnection] = []

    def connection(name: str, listener: str, **options: Any) -> HTTPConnection:
        peer = peers[name]
        url = urlsplit(peer.bases[listener])
        options = {
            "secure": url.scheme == "https",
            "versions": (VERSIONS[listener],),
            "ca": str(peer.ca),
            "timeout": PATIENCE_S,
            **options,
        }
        made.append(HTTPConnection(url.hostname or "", url.port, **options))
        return made[-1]

    yield connection
    for one in made:
        one.close()


@pytest.fixture(params=["h1", "h2", "h3"])
def embedded(request: pytest.FixtureRequest, connect: Connect) -> HTTPConnection:
    """A connection to the embedded server, over each version."""
    return connect("embedded", request.param)
