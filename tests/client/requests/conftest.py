"""The embedded server, and sessions with the adapter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from trilane.client.requests import TrilaneAdapter
from trilane.lab.targets.servers import Server, embedded

MakeSession = Callable[..., requests.Session]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # It stands for servers of any name.
    flags = ("--allow-host", "*")
    state = tmp_path_factory.mktemp("state")
    with embedded(threads=1, cpus=None, state=state, flags=flags) as running:
        yield running


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
