"""Cancellation and time limits: what ends, and what goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from client.waits import eventually, turns
from peers import chaos, h2_chaos
from peers.peer import Peer
from trilane.client import errors
from trilane.client._aio import AsyncClient

from .conftest import LeapingLoop, MakeClient, run, run_leaping


def at_rest(client: AsyncClient) -> bool:
    """Whether nothing of a request is left: no lease, no place in a queue, no future."""
    pool = client._pool
    assert pool is not None
    links = [entry.connection for entry in pool.router.entries]
    return (
        pool.queued == 0
        and all(entry.leases == 0 for entry in pool.router.entries)
        and not any(link._readers or link._writers or link._duplex for link in links)
        and not any(link.parked for link in links)
        and not any(map(len, pool._deadlines._by_limit.values()))
    )


def test_a_cancelled_task_ends_its_own_stream_only() -> None:
    seen: list[int] = []

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        seen.append(stream)
        if len(seen) == 3:
            for each in (seen[0], stream):
                writer.write(h2_chaos.response(each))

    async def main(base: str) -> None:
        async with AsyncClient(versions=("h2",), timeout=60.0) as client:
            late = asyncio.create_task(client.get(base))
            await eventually(lambda: len(seen) == 1)
            lost = asyncio.create_task(client.get(base))
            await eventually(lambda: len(seen) == 2)
            lost.cancel()
            with pytest.raises(asyncio.CancelledError):
                await lost
            assert (await client.get(base)).status == 200
            assert (await late).status == 200
            assert len(client.connections) == 1

    with chaos.serve(h2_chaos.server(on_request)) as server:
        run(main(server.base))
        assert server.connections == 1


@pytest.mark.parametrize("listener", ["h2", "h3"])
def test_a_storm_of_cancellations_leaves_the_connection_usable(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    async def main() -> None:
        async with make_client(listener, max_per_origin=1) as client:
            await client.get(server.url(listener))
            # Over HTTP/3 this server frees a stream only when it would have answered.
            url = server.url(listener, "/delay/300s" if listener == "h2" else "/delay/100ms")
            for passed in (0, 3, 30):
                # More than the server's streams: some wait for one when they are cancelled.
                tasks = [asyncio.create_task(client.get(url)) for _ in range(600)]
                await turns(passed)
                for first in range(7):
                    for task in tasks[first::7]:
                        task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                lost = [isinstance(result, asyncio.CancelledError) for result in results]
                assert any(lost)
                assert all(lost) or listener == "h3"
                assert not any(isinstance(result, errors.Error) for result in results)
                responses = await asyncio.gather(
                    *(client.get(server.url(listener)) for _ in range(100))
                )
                assert all(response.content == b"hello world" for response in responses)
                assert at_rest(client)

    run(main())


def test_some_are_cancelled_among_others(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with make_client("h2", max_per_origin=1) as client:
            url = server.url("h2")
            await client.get(url)
            tasks = [asyncio.create_task(client.get(url)) for _ in range(1_000)]
            # Queued, on their way, and answered: a few at each turn of the loop.
            given_up = sorted(range(0, 1_000, 3), key=lambda number: number * 7919 % 1_000)
            for count, number in enumerate(given_up, 1):
                tasks[number].cancel()
                if count % 4 == 0:
                    await turns(1)
                if count % 12 == 0:
                    # A server that is behind takes 20 resets of what it has not looked at for an
                    # attack (CVE-2023-44487); when it answers this, it has looked at all before.
                    await client.get(url)
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
        async with make_client(listener) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.get(server.url(listener, "/delay/300s"))
            assert (await client.get(server.url(listener))).content == b"hello world"

    run(main())


def test_the_read_limit_is_for_each_wait() -> None:
    more = threading.Semaphore(0)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n")
        for byte in b"hello":
            await asyncio.to_thread(more.acquire)
            writer.write(bytes([byte]))
        await chaos.forever()

    async def main(loop: LeapingLoop, base: str) -> None:
        async with (
            AsyncClient(timeout=60.0) as client,
            client.stream("GET", base) as response,
        ):
            for byte in b"hello":
                waiting = asyncio.create_task(response.read(1))
                await turns()
                # All of them take longer than the limit as a whole.
                loop.leapt += 50.0
                await turns()
                assert not waiting.done()
                more.release()
                assert await waiting == bytes([byte])
            waiting = asyncio.create_task(response.read(1))
            await turns()
            loop.leapt += 61.0
            with pytest.raises(errors.ReadTimeout, match="no more of its content within 60"):
                await waiting

    with chaos.serve(script) as server:
        run_leaping(lambda loop: main(loop, server.base))


def test_the_read_limit_begins_when_the_content_has_been_sent(server: Peer) -> None:
    async def main(loop: LeapingLoop) -> None:
        async def slow() -> AsyncIterator[bytes]:
            for _ in range(4):
                await turns()
                loop.leapt += 100.0
                await turns()
                yield b"x"

        async with AsyncClient(versions=("h2",), verify=str(server.ca), timeout=60.0) as client:
            # What connecting takes is no part of it.
            await client.get(server.url("h2"))
            response = await client.post(server.url("h2", "/hello"), slow())
            assert response.status == 200
            late = asyncio.create_task(client.get(server.url("h2", "/delay/300s")))
            await turns()
            loop.leapt += 61.0
            with pytest.raises(errors.ReadTimeout, match="no response to GET within 60"):
                await late
            # The stream was given up, and not the connection.
            assert (await client.get(server.url("h2"))).status == 200
            assert len(client.connections) == 1

    run_leaping(main)


def test_a_connection_that_nobody_waits_for_goes_to_the_pool(
    server: Peer, make_client: MakeClient
) -> None:
    async def main() -> None:
        async with make_client("h2") as client:
            task = asyncio.create_task(client.get(server.url("h2")))
            await turns(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await eventually(lambda: client.connections)
            assert (await client.get(server.url("h2"))).stream_id == 1

    run(main())


def test_who_waits_for_the_first_connection_is_not_lost_with_its_owner(
    server: Peer, make_client: MakeClient
) -> None:
    async def main() -> None:
        async with make_client("h2") as client:
            tasks = [asyncio.create_task(client.get(server.url("h2"))) for _ in range(50)]
            await turns(1)
            tasks[0].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)
            for result in results[1:]:
                assert not isinstance(result, BaseException)
                assert result.content == b"hello world"

    run(main())
