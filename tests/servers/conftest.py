"""The servers of the library service: started when a test first asks for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peers import embedded, grpc_go, grpc_python, grpc_schema
from peers.authority import Authority
from peers.peer import Peer
from peers.process import MissingProgramError

from .helping import absent
from .library import Library

Start = Callable[[str], Peer]


@pytest.fixture(scope="session")
def schema(tmp_path_factory: pytest.TempPathFactory) -> grpc_schema.Schema:
    """The library's messages, by Google's protoc."""
    folder = tmp_path_factory.mktemp("schema")
    return grpc_schema.Schema(grpc_schema.compile_set(folder / "library.pb"))


@pytest.fixture(scope="session")
def library_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """The running server of a name; what follows a blank makes it another one of the kind."""
    running: dict[str, Peer] = {}
    # The native program where there is one, else the one in the extension.
    ours = os.environ.get("TRILANE_BIN") or [sys.executable, "-m", "trilane"]

    def start(name: str) -> Peer:
        if name not in running:
            folder = tmp_path_factory.mktemp(name.replace(" ", "-"))
            leaf = Authority(folder / "authority").local()
            starts: dict[str, Callable[[Path], Peer]] = {
                "embedded": lambda folder: embedded.start(ours, folder),
                "grpc-python": lambda folder: grpc_python.start(folder, leaf),
                "grpc-go": lambda folder: grpc_go.start(folder, leaf),
            }
            running[name] = starts[name.partition(" ")[0]](folder / "server")
        return running[name]

    def start_or_skip(name: str) -> Peer:
        try:
            return start(name)
        except MissingProgramError as error:
            absent(str(error))

    yield start_or_skip
    for peer in running.values():
        peer.stop()


@pytest.fixture
def library(
    request: pytest.FixtureRequest, library_server: Start, schema: grpc_schema.Schema
) -> Iterator[Library]:
    """A channel of grpcio to a server and a listener: ours over h2c unless a test says more."""
    name, listener = getattr(request, "param", ("embedded", "h2c"))
    with Library.open(library_server(name), listener, schema) as found:
        yield found


@pytest.fixture(scope="session")
def ours(library_server: Start) -> Peer:
    """The embedded server."""
    return library_server("embedded")
