"""The asynchronous client, and a loop for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from peers.peer import Peer
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
