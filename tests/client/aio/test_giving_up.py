"""Cancellation and time limits: what ends, and what goes on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest

from peers import chaos
from peers.peer import Peer
from trilane.client import errors
from trilane.client.aio import AsyncClient
from trilane.client.timeouts import Timeouts

from .conftest import MakeClient, run


def at_rest(client: AsyncClient) -> bool:
    """Whether nothing of a request is left: no lease, no place in a queue, no future."""
    pool = client._pool
    assert pool is not None
    links = [entry.connection for entry in pool.router.entries]
    return (
        pool.queued == 0
        and all(entry.leases == 0 for entry in pool.router.entries)
        and not any(link._readers or link._writers or link._duplex for link in links)
        and not any(link._whole or link.parked for link in links)
        and not any(map(len, pool._deadlines._by_limit.values()))
    )


def test_a_cancelled_task_ends_its_own_stream_only(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with make_client("h2", max_per_origin=1) as client:
            await client.get(server.url("h2"))
            late = asyncio.create_task(client.get(server.url("h2", "/delay/1s")))
            lost = asyncio.create_task(client.get(server.url("h2", "/delay/30s")))
            await asyncio.sleep(0.1)
            lost.cancel()
            with pytest.raises(asyncio.CancelledError):
                await lost
            assert (await late).status == 200
            assert len(client.connections) == 1

    run(main())


@pytest.mark.parametrize("listener", ["h2", "h3"])
def test_a_storm_of_cancellations_leaves_the_connection_usable(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    async def main() -> None:
        async with make_client(listener, max_per_origin=1) as client:
            await client.get(server.url(listener))
            order = random.Random(4)
            for _ in range(3):
                # More than the server's streams: some wait for one when they are cancelled. Over
                # HTTP/3 this server frees a stream only when it would have answered.
                tasks = [
                    asyncio.create_task(client.get(server.url(listener, "/delay/1s")))
                    for _ in range(1_500)
                ]
                await asyncio.sleep(order.random() / 10)
                order.shuffle(tasks)
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(result, asyncio.CancelledError) for result in results)
                responses = await asyncio.gather(
                    *(client.get(server.url(listener)) for _ in range(100))
                )
                assert all(response.content == b"hello world" for response in responses)
                assert at_rest(client)

    run(main())


def test_cancelled_among_others_at_random(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        order = random.Random(7)
        async with make_client("h2", max_per_origin=1) as client:
            url = server.url("h2")
            await client.get(url)
            tasks = [asyncio.create_task(client.get(url)) for _ in range(5_000)]
            given_up = set(order.sample(range(5_000), 2_000))
            for number in given_up:
                if order.random() < 0.5:
                    tasks[number].cancel()
                else:
                    asyncio.get_running_loop().call_later(order.random() / 5, tasks[number].cancel)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for number, result in enumerate(results):
                if number in given_up and isinstance(result, asyncio.CancelledError):
                    continue
                assert not isinstance(result, BaseException), result
                assert result.content == b"hello world"
            assert at_rest(client)

    run(main())


def test_asyncio_timeout_ends_a_request(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    async def main() -> None:
        async with make_client(listener[:2]) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.get(server.url(listener, "/delay/30s"))
            assert (await client.get(server.url(listener))).content == b"hello world"

    run(main())


def test_a_response_that_is_left_early_is_cancelled(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    async def main() -> None:
        async with make_client(listener[:2]) as client:
            for _ in range(20):
                async with client.stream(
                    "GET", server.url(listener, "/bytes/50000000")
                ) as response:
                    assert await response.read(100)
            assert (await client.get(server.url(listener))).content == b"hello world"
            if listener in {"h2", "h2c", "h3"}:
                assert len(client.connections) == 1

    run(main())


def test_the_read_limit_is_for_each_wait(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with make_client("h2", timeout=Timeouts(read=0.7)) as client:
            began = time.monotonic()
            with pytest.raises(errors.ReadTimeout, match=r"no response to GET within 0\.7 s"):
                await client.get(server.url("h2", "/delay/30s"))
            assert time.monotonic() - began < 20
            # It takes longer than the limit as a whole.
            dripped = await client.get(server.url("h2", "/drip?bytes=20&duration=1500ms"))
            assert len(dripped.content) == 20
            assert len(client.connections) == 1

    run(main())


def test_content_that_stops_coming_is_a_timeout() -> None:
    script = chaos.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello", then="wait")

    async def main(base: str) -> None:
        async with AsyncClient(timeout=0.3) as client:
            with pytest.raises(errors.ReadTimeout, match="no more of its content"):
                await client.get(base)
            assert client.connections == []

    with chaos.serve(script) as server:
        run(main(server.base))


def test_a_server_that_takes_no_content_is_a_write_timeout() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(100_000)

    async def main(base: str) -> None:
        async with AsyncClient(timeout=Timeouts(write=0.3)) as client:
            with pytest.raises(errors.WriteTimeout, match="took none of the content of POST"):
                await client.post(base, endless())

    with chaos.serve(chaos.silent) as server:
        run(main(server.base))


def test_a_long_upload_is_not_a_read_timeout(server: Peer, make_client: MakeClient) -> None:
    async def slow() -> AsyncIterator[bytes]:
        for _ in range(4):
            await asyncio.sleep(0.3)
            yield b"x"

    async def main() -> None:
        async with make_client("h2", timeout=Timeouts(read=0.5)) as client:
            response = await client.post(server.url("h2", "/hello"), slow())
            assert response.status == 200

    run(main())


def test_waiting_for_a_place_has_a_limit_of_its_own(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with make_client("h1", max_per_origin=1, timeout=Timeouts(pool=0.3)) as client:
            holder = asyncio.create_task(client.get(server.url("h1", "/delay/2s")))
            await asyncio.sleep(0.2)
            with pytest.raises(errors.PoolTimeout, match=r"was free within 0\.3 s"):
                await client.get(server.url("h1"))
            assert (await holder).status == 200
            assert (await client.get(server.url("h1"))).status == 200

    run(main())


def test_connecting_has_a_limit_of_its_own() -> None:
    async def main(base: str) -> None:
        limits = Timeouts(connect=0.4)
        async with AsyncClient(verify=False, timeout=limits) as client:
            results = await asyncio.gather(
                *(client.get(base) for _ in range(20)), return_exceptions=True
            )
            assert {type(result) for result in results} == {errors.ConnectTimeout}

    with chaos.serve(chaos.silent) as server:
        run(main(server.base.replace("http://", "https://")))


def test_a_connection_that_nobody_waits_for_goes_to_the_pool(
    server: Peer, make_client: MakeClient
) -> None:
    async def main() -> None:
        async with make_client("h2") as client:
            task = asyncio.create_task(client.get(server.url("h2")))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while not client.connections:  # noqa: ASYNC110 - it comes by itself
                await asyncio.sleep(0.01)
            assert (await client.get(server.url("h2"))).stream_id == 1

    run(main())


def test_who_waits_for_the_first_connection_is_not_lost_with_its_owner(
    server: Peer, make_client: MakeClient
) -> None:
    async def main() -> None:
        async with make_client("h2") as client:
            tasks = [asyncio.create_task(client.get(server.url("h2"))) for _ in range(50)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)
            for result in results[1:]:
                assert not isinstance(result, BaseException)
                assert result.content == b"hello world"

    run(main())
