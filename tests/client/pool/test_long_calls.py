"""Calls that last never queue behind the limit of streams of one connection."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from client.face import MakeClient
from client.waits import PATIENCE_S
from peers.held import CALLS, Held
from trilane.client._flow.timeouts import Timeouts
from trilane.client.errors import PoolTimeout, ReadTimeout


def together(calls: int, call: Callable[[], str]) -> list[str]:
    """What so many threads get who call at once."""
    with ThreadPoolExecutor(calls) as threads:
        return [each.result() for each in [threads.submit(call) for _ in range(calls)]]


@pytest.mark.parametrize(("kind", "version"), [("blocking", "h2"), ("asyncio", "h3")])
def test_all_calls_are_under_way(make_client: MakeClient, holding: Held, version: str) -> None:
    calls = CALLS[version]
    url = holding.url(calls)
    client = make_client(versions=(version,), verify=holding.ca)
    assert together(calls, lambda: client.get(url).text) == ["ok"] * calls
    assert len(client.connections) >= 2


def test_one_connection_is_enough_only_where_it_is_told_so(
    make_client: MakeClient, holding: Held
) -> None:
    # Nobody is answered: all of them give up, in one way or in the other.
    calls = CALLS["h2"]
    url = holding.url(calls + 1)
    limits = Timeouts(PATIENCE_S, 0.5, 0.5, 0.5)
    client = make_client(versions=("h2",), verify=holding.ca, max_per_origin=1, timeout=limits)

    def call() -> str:
        try:
            return client.get(url).text
        except (ReadTimeout, PoolTimeout) as error:
            return type(error).__name__

    ends = together(calls, call)
    assert len(client.connections) <= 1
    assert "ok" not in ends
