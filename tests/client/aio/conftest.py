"""The asynchronous client, and a loop for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from peers.peer import Peer
from trilane.client._aio import AsyncClient

Result = TypeVar("Result")
VERSIONS = ("h1", "h2", "h3")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run it on a loop of its own, with the loop's own checks."""
    return asyncio.run(main)


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock leaps as a test says, so that limits pass without a wait for them."""

    leapt = 0.0

    def time(self) -> float:
        return super().time() + self.leapt


def run_leaping(main: Callable[[LeapingLoop], Coroutine[Any, Any, Result]]) -> Result:
    """Run it on a loop that it can let leap."""
    made: list[LeapingLoop] = []

    def make() -> asyncio.AbstractEventLoop:
        made.append(LeapingLoop())
        return made[-1]

    with asyncio.Runner(loop_factory=make) as runner:
        runner.get_loop()
        return runner.run(main(made[-1]))


MakeClient = Callable[..., AsyncClient]


@pytest.fixture
def make_client(server: Peer) -> MakeClient:
    """A client that trusts the embedded server, and leaves its Alt-Svc alone."""

    def make(*versions: str, **options: Any) -> AsyncClient:
        options = {"verify": str(server.ca), "timeout": 60.0, "alternatives": "off", **options}
        return AsyncClient(versions=versions or ("h2", "h1"), **options)

    return make


@pytest.fixture(params=VERSIONS)
def listener(request: pytest.FixtureRequest) -> str:
    return str(request.param)
