"""Thousands of tasks on few connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from peers.peer import Peer
from peers.running import Peers
from trilane.client._aio import AsyncClient, AsyncResponse

from .conftest import MakeClient, run


@pytest.mark.parametrize(("listener", "tasks"), [("h2", 2_000), ("h3", 1_000)])
def test_thousands_of_tasks_share_one_connection(
    server: Peer, make_client: MakeClient, listener: str, tasks: int
) -> None:
    async def main() -> None:
        async with make_client(listener, max_per_origin=1) as client:
            url = server.url(listener)
            responses = await asyncio.gather(*(client.get(url) for _ in range(tasks)))
            assert all(response.content == b"hello world" for response in responses)
            assert len({response.stream_id for response in responses}) == tasks
            assert len(client.connections) == 1

    run(main())


@pytest.fixture
def narrow(peers: Peers) -> Peer:
    """A server that allows ten requests at a time."""
    return peers["nghttpd-narrow"]


def test_a_narrow_server_is_served_in_order(narrow: Peer) -> None:
    finished: list[int] = []

    async def main() -> None:
        async with AsyncClient(
            versions=("h2",), verify=str(narrow.ca), timeout=60.0, max_per_origin=1
        ) as client:

            async def ask(number: int) -> AsyncResponse:
                response = await client.get(narrow.url("h2"))
                finished.append(number)
                return response

            # Before its settings have come, more is sent than it takes.
            await client.get(narrow.url("h2"))
            responses = await asyncio.gather(*(ask(number) for number in range(500)))
            ids = [response.stream_id for response in responses]
            # In the order of the tasks: nobody overtakes who waits.
            assert ids == sorted(ids)
            assert len(client.connections) == 1
        assert max(abs(place - number) for place, number in enumerate(finished)) <= 40

    run(main())


def test_many_uploads_at_once(server: Peer, make_client: MakeClient, listener: str) -> None:
    async def content(number: int) -> AsyncIterator[bytes]:
        for _ in range(10):
            yield bytes([number]) * 20_000
            await asyncio.sleep(0)

    async def main() -> None:
        async with make_client(listener, max_connections=8) as client:
            responses = await asyncio.gather(
                *(
                    client.post(server.url(listener, "/echo"), content(number))
                    for number in range(20)
                )
            )
            for number, response in enumerate(responses):
                assert response.content == bytes([number]) * 200_000

    run(main())
