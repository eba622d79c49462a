"""Multiplexing, seen from the other end: one connection, and requests under way together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.contenders.conftest import CONTENDERS
from lab.contenders.conversation import converse, plan
from lab.contenders.counting import CountingRelay
from trilane.lab.clients.contenders import Contender
from trilane.lab.serving.servers import Server

COUNT = 60
AT_ONCE = 20
DELAY_S = 0.5
MULTIPLEXED = [
    pytest.param(contender, version, strategy, id=f"{contender.name}-{version}-{strategy}")
    for contender in CONTENDERS.values()
    for version in contender.versions
    for strategy in ("chunks", "multiplexed")
    if strategy in contender.strategies[version]
]


@pytest.mark.parametrize(("contender", "version", "strategy"), MULTIPLEXED)
def test_one_connection_carries_them_together(
    contender: Contender,
    version: str,
    strategy: str,
    command: Callable[[Contender], list[str]],
    server: Server,
    origin: Callable[[str], str],
) -> None:
    scheme, _, address = origin(version).partition("://")
    with CountingRelay(int(address.rpartition(":")[2])) as relay:
        wanted = plan(
            f"{scheme}://127.0.0.1:{relay.port}",
            version,
            strategy,
            cacert=server.cacert,
            chunk=AT_ONCE,
            in_flight=AT_ONCE,
            workload={"paths": [f"/delay/{DELAY_S:g}s"], "count": COUNT},
        )
        result = converse(command(contender), wanted)["result"]
        assert relay.connections == 1
    assert result["failed"] == {}, result["examples"]
    assert result["versions"] == {version: COUNT}
    # What they would wait one after the other, 30 s; together it is three rounds, 1.5 s.
    assert result["elapsed_s"] < COUNT * DELAY_S
