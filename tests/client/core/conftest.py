"""Connections of the native client to the embedded server, and in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest

from peers.peer import Peer
from trilane._core import Connection, Tls, connect

# Listeners of the embedded server, and the version to speak with each.
LANES = {"h1": "h1", "h1s": "h1", "h2c": "h2", "h2": "h2", "h3": "h3"}
# Generous: a loaded machine is slow, and a wait that works never takes as long.
TIMEOUT = 60.0

Open: TypeAlias = Callable[..., Connection]


@pytest.fixture(scope="session")
def tls(server: Peer) -> Tls:
    """Trust in the embedded server's authority and in nothing else."""
    assert server.ca is not None
    return Tls(authorities=[("authority", server.ca.read_bytes())], platform=False)


@pytest.fixture
def open_lane(server: Peer, tls: Tls) -> Iterator[Open]:
    """Make a connection to a listener; all are closed at the end."""
    made: list[Connection] = []

    def make(lane: str, **options: Any) -> Connection:
        url = urlsplit(server.bases[lane])
        options = {
            "scheme": url.scheme,
            "versions": (LANES[lane],),
            "tls": tls if url.scheme == "https" else None,
            "timeout": TIMEOUT,
            **options,
        }
        made.append(connect(url.hostname or "", url.port or 0, **options))
        return made[-1]

    yield make
    for connection in made:
        connection.close()


@pytest.fixture(params=["h1", "h2", "h3"])
def lane(request: pytest.FixtureRequest, open_lane: Open) -> Connection:
    """A connection over each version in turn."""
    return open_lane(request.param)


@pytest.fixture(params=["h2", "h3"])
def shared(request: pytest.FixtureRequest, open_lane: Open) -> Connection:
    """A connection that takes many requests at once, over each version that has them."""
    return open_lane(request.param)
