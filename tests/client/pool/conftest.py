"""Clients of both kinds, and servers for them, started when first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from client.face import AnyClient, Each, LoopClient, LoopThread, MakeClient
from client.waits import PATIENCE_S
from peers.peer import Peer
from peers.running import Peers
from trilane.client._pool import Client

from .recorder import Recorder, recording

# Without TLS, with it, and over QUIC. Each version in its other form is in client/wire.
VERSIONS = ("h1", "h2", "h3")
PAIRS = (("blocking", "h1"), ("asyncio", "h2"), ("blocking", "h3"))


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each version once, by the clients in turn: `client/behaviours` has every pair of them.

    A module, or a test, that says by itself which clients or versions there are has all of these.
    """
    own = set(vars(metafunc.module))
    for mark in metafunc.definition.iter_markers("parametrize"):
        own.update(mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0])
    for name in ("each", "version"):
        if {"kind", name} <= {*metafunc.fixturenames} - own:
            by_turns = pytest.mark.parametrize(("kind", name), PAIRS, indirect=True)
            metafunc.definition.add_marker(by_turns)


@pytest.fixture
def nginx_peer(peers: Peers) -> Peer:
    return peers["nginx"]


@pytest.fixture
def caddy_peer(peers: Peers) -> Peer:
    """It announces HTTP/3 by Alt-Svc."""
    return peers["caddy"]


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_client(kind: str, request: pytest.FixtureRequest) -> Iterator[MakeClient]:
    """Make clients of either kind, which are closed in the end."""
    made: list[AnyClient] = []
    thread: LoopThread | None = None
    if kind == "asyncio":
        thread = request.getfixturevalue("loop_thread")

    def make(**settings: Any) -> AnyClient:
        settings = {"timeout": PATIENCE_S, **settings}
        client = Client(**settings) if thread is None else LoopClient(thread, **settings)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close(abort=True)
    if thread is not None:
        assert thread.unexpected == []


@pytest.fixture
def client(make_client: MakeClient, server: Peer) -> AnyClient:
    """A client that trusts the embedded server, and leaves its Alt-Svc alone."""
    return make_client(versions=("h2", "h1"), verify=str(server.ca))


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=VERSIONS)
def each(request: pytest.FixtureRequest, make_client: MakeClient, server: Peer) -> Each:
    """For every version: a client that speaks it alone, its name, and the server's base URL."""
    version: str = request.param
    made = make_client(versions=(version,), verify=str(server.ca))
    return made, version, server.bases[version]


@pytest.fixture(scope="module")
def _recorder() -> Iterator[Recorder]:
    with recording() as made:
        yield made


@pytest.fixture
def recorder(_recorder: Recorder) -> Recorder:
    """The standard library's server, which has got nothing yet."""
    _recorder.forget()
    return _recorder
