"""Calls that last never queue behind the limit of streams of one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from client.face import MakeClient
from client.waits import PATIENCE_S
from peers import held
from peers.authority import Leaf
from peers.held import Held
from trilane.client._flow.timeouts import Timeouts
from trilane.client.errors import PoolTimeout, ReadTimeout

CALLS = 180


@pytest.fixture(scope="module")
def holding(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> Iterator[Held]:
    with held.serving(tmp_path_factory.mktemp("held"), leaf) as running:
        yield running


def together(call: Callable[[], str]) -> list[str]:
    """What so many threads get who call at once."""
    with ThreadPoolExecutor(CALLS) as threads:
        return [each.result() for each in [threads.submit(call) for _ in range(CALLS)]]


@pytest.mark.parametrize("version", ["h2", "h3"])
def test_180_calls_are_all_under_way(make_client: MakeClient, holding: Held, version: str) -> None:
    url = holding.url(CALLS)
    client = make_client(versions=(version,), verify=holding.ca)
    assert together(lambda: client.get(url).text) == ["ok"] * CALLS
    assert len(client.connections) >= 2


def test_one_connection_is_enough_only_where_it_is_told_so(
    make_client: MakeClient, holding: Held
) -> None:
    # Nobody is answered: all of them give up, in one way or in the other.
    url = holding.url(CALLS + 1)
    limits = Timeouts(PATIENCE_S, 2.0, 2.0, 2.0)
    client = make_client(versions=("h2",), verify=holding.ca, max_per_origin=1, timeout=limits)

    def call() -> str:
        try:
            return client.get(url).text
        except (ReadTimeout, PoolTimeout) as error:
            return type(error).__name__

    ends = together(call)
    assert len(client.connections) <= 1
    assert "ok" not in ends
