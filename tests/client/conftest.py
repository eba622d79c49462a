"""The server that most tests of the client talk to."""

from __future__ import annotations

import pytest

from peers.peer import Peer
from peers.running import Peers


@pytest.fixture(scope="session")
def server(peers: Peers) -> Peer:
    """The embedded server, all versions."""
    return peers["embedded"]
