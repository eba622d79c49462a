"""The embedded server, and sessions with the adapter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import requests

from peers.peer import Peer
from peers.running import Peers
from trilane.client.requests import TrilaneAdapter

MakeSession = Callable[..., requests.Session]


class Server(NamedTuple):
    """Where an embedded server is, by its address."""

    https: str
    http: str
    cacert: str


def _of(peer: Peer) -> Server:
    https = peer.bases["h2"].replace("localhost", "127.0.0.1")
    return Server(https, peer.bases["h1"], str(peer.ca))


@pytest.fixture(scope="session")
def server(peers: Peers) -> Server:
    return _of(peers["embedded"])


@pytest.fixture(scope="session")
def stranger(peers: Peers) -> Server:
    """A server with an authority of its own."""
    return _of(peers["embedded stranger"])


@pytest.fixture
def make_session(server: Server) -> Iterator[MakeSession]:
    """A session that trusts the embedded server, with the adapter's arguments."""
    with contextlib.ExitStack() as stack:

        def make(*versions: str, **options: object) -> requests.Session:
            session = stack.enter_context(requests.Session())
            session.trust_env = False
            session.verify = server.cacert
            if versions:
                options["versions"] = versions
            adapter = TrilaneAdapter(**options)  # type: ignore[arg-type]
            session.mount("https://", adapter)
            session.mount("http://", adapter)
            return session

        yield make


@pytest.fixture(params=["h1", "h2", "h3"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(make_session: MakeSession, version: str) -> requests.Session:
    """A session that may use one version only."""
    return make_session(version)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "upload.bin"
    path.write_bytes(bytes(range(256)) * 4096)
    return path
