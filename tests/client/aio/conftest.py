"""Servers for the tests of the asynchronous client: started when a test first asks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from e2e.conftest import absent
from e2e.loading import binary
from peers import asgi, caddy, embedded, nginx
from peers.authority import Authority, Leaf
from peers.peer import Peer
from peers.process import MissingProgramError
from trilane.client.aio import AsyncClient

Result = TypeVar("Result")
# No test takes as long; one that hangs ends with a traceback of where it waits.
PATIENCE_S = 120.0
VERSIONS = ("h1", "h1s", "h2c", "h2", "h3")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run it on a loop of its own, with the loop's own checks."""

    async def bounded() -> Result:
        async with asyncio.timeout(PATIENCE_S):
            return await main

    return asyncio.run(bounded())


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests is not part of them."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def leaf(tmp_path_factory: pytest.TempPathFactory) -> Leaf:
    try:
        return Authority(tmp_path_factory.mktemp("authority")).local()
    except MissingProgramError as error:
        absent(error)


Start = Callable[[Callable[[Path], Peer]], Peer]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    running: list[Peer] = []

    def begin(make: Callable[[Path], Peer]) -> Peer:
        try:
            running.append(make(tmp_path_factory.mktemp("peer")))
        except MissingProgramError as error:
            absent(error)
        return running[-1]

    yield begin
    for peer in running:
        peer.stop()


@pytest.fixture(scope="session")
def server(start: Start) -> Peer:
    """The embedded server, all versions."""
    return start(lambda folder: embedded.start(binary(), folder))


@pytest.fixture(scope="session")
def others(start: Start, leaf: Leaf) -> Callable[[str], Peer]:
    """Other people's servers, by name."""
    running: dict[str, Peer] = {}
    starts: dict[str, Callable[[Path, Leaf], Peer]] = {
        "nginx": nginx.start,
        "caddy": caddy.start,
        "hypercorn": asgi.start,
    }

    def get(name: str) -> Peer:
        if name not in running:
            running[name] = start(lambda folder: starts[name](folder, leaf))
        return running[name]

    return get


MakeClient = Callable[..., AsyncClient]


@pytest.fixture
def make_client(server: Peer) -> MakeClient:
    """A client that trusts the embedded server, and leaves its Alt-Svc alone."""

    def make(*versions: str, **options: Any) -> AsyncClient:
        options = {"verify": str(server.ca), "timeout": 30.0, "alternatives": "off", **options}
        return AsyncClient(versions=versions or ("h2", "h1"), **options)

    return make


@pytest.fixture(params=VERSIONS)
def listener(request: pytest.FixtureRequest) -> str:
    return str(request.param)
