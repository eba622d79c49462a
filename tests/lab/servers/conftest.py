"""The servers of the library service: started when a test first asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peers import grpc_schema
from peers.peer import Peer
from peers.running import Peers

from .gateways import ECHO
from .library import Library

Start = Callable[[str], Peer]


@pytest.fixture(scope="session")
def library_server(peers: Peers) -> Start:
    """The running server of a name; what follows a blank makes it another one of the kind."""
    return peers.__getitem__


@pytest.fixture
def library(
    request: pytest.FixtureRequest, library_server: Start, schema: grpc_schema.Schema
) -> Iterator[Library]:
    """A channel of grpcio to a server and a listener: ours over h2c unless a test says more."""
    name, listener = getattr(request, "param", ("embedded", "h2c"))
    with Library.open(library_server(name), listener, schema) as found:
        yield found


@pytest.fixture(scope="session", params=["embedded", "gateway"])
def ours(request: pytest.FixtureRequest, library_server: Start) -> Peer:
    """The embedded server, and the gateway to a server in Go."""
    return library_server(request.param)


@pytest.fixture(scope="session")
def proto(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a service that no other server has."""
    file = tmp_path_factory.mktemp("echo") / "echo.proto"
    file.write_text(ECHO)
    return file


@pytest.fixture
def files(proto: Path) -> tuple[str, ...]:
    """The flags with which no server is asked for its services."""
    return ("--proto", str(proto))
