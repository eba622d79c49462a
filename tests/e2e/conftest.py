"""Peers for the tests: started when a test first asks, stopped at the end of the session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from peers import asgi, caddy, embedded, gonet, grpc_go, grpc_python, grpc_schema, nghttpd, nginx
from peers.authority import Authority
from peers.process import MissingProgramError

from .loading import binary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from peers.peer import Peer


def absent(error: MissingProgramError) -> NoReturn:
    """A missing program: a skip with its reason at home, a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(error))
    pytest.skip(str(error))


class Peers:
    """The running peers, by name."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self._running: dict[str, Peer] = {}
        leaf = authority.local()
        self._starts: dict[str, Callable[[], Peer]] = {
            "nginx": lambda: nginx.start(folder / "nginx", leaf),
            "nghttpd": lambda: nghttpd.start(folder / "nghttpd", leaf),
            "nghttpd-plain": lambda: nghttpd.start(folder / "nghttpd-plain", None),
            "caddy": lambda: caddy.start(folder / "caddy", leaf),
            "gonet": lambda: gonet.start(gonet.build(folder / "built"), folder / "gonet", leaf),
            "hypercorn": lambda: asgi.start(folder / "hypercorn", leaf),
            "embedded": lambda: embedded.start(binary(), folder / "embedded"),
            "grpc-go": lambda: grpc_go.start(folder / "grpc-go", leaf),
            "grpc-go-http": lambda: grpc_go.start(
                folder / "grpc-go-http", leaf, implementation="grpc-http"
            ),
            "grpc-python": lambda: grpc_python.start(folder / "grpc-python", leaf),
        }

    def __getitem__(self, name: str) -> Peer:
        if name not in self._running:
            try:
                self._running[name] = self._starts[name]()
            except MissingProgramError as error:
                absent(error)
        return self._running[name]

    def stop(self) -> None:
        """End all of them."""
        for peer in self._running.values():
            peer.stop()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The private authority that every peer but the embedded server is certified by."""
    try:
        return Authority(tmp_path_factory.mktemp("authority"))
    except MissingProgramError as error:
        absent(error)


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Peers]:
    """The peers, started as they are asked for."""
    running = Peers(tmp_path_factory.mktemp("peers"), authority)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def descriptor_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's file descriptor set, by Google's protoc."""
    return grpc_schema.compile_set(tmp_path_factory.mktemp("schema") / "library.pb")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[[Callable[[Path], Peer]], Peer]]:
    """Start a peer for one test alone: one that is killed, or configured in a special way."""
    running: list[Peer] = []

    def start(make: Callable[[Path], Peer]) -> Peer:
        try:
            peer = make(tmp_path / f"peer-{len(running)}")
        except MissingProgramError as error:
            absent(error)
        running.append(peer)
        return peer

    yield start
    for peer in running:
        peer.stop()
