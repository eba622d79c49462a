"""Servers that many tests of the client talk to, started when first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.face import LoopThread
from peers import held, streams
from peers.authority import Leaf
from peers.held import Held
from peers.peer import Peer
from peers.running import Peers
from peers.streams import Streams


@pytest.fixture(scope="session")
def server(peers: Peers) -> Peer:
    """The embedded server, all versions."""
    return peers["embedded"]


@pytest.fixture(scope="session")
def streaming(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> Iterator[Streams]:
    """Long streams and WebSockets, under Hypercorn."""
    with streams.serving(tmp_path_factory.mktemp("streams"), leaf) as running:
        yield running


@pytest.fixture(scope="session")
def holding(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> Iterator[Held]:
    """Nobody is answered before enough ask."""
    with held.serving(tmp_path_factory.mktemp("held"), leaf) as running:
        yield running


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    """The loop of asynchronous clients that threads ask."""
    thread = LoopThread()
    yield thread
    thread.stop()
