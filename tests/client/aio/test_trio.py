"""`AsyncClient`, and HTTPX over it, in runs of Trio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
import trio
import trio.testing

from peers import chaos, models
from peers.authority import Leaf
from peers.held import CALLS, Held
from peers.peer import Peer
from trilane.client import errors
from trilane.client._aio import AsyncClient
from trilane.client._aio.on_trio import TrioLoop
from trilane.client.httpx import AsyncTransport

from .conftest import MakeClient

TASKS = 50


async def _generated(pieces: int, size: int) -> AsyncIterator[bytes]:
    for number in range(pieces):
        await trio.lowlevel.checkpoint()
        yield bytes([number % 256]) * size


def test_tasks_share_a_client(server: Peer, make_client: MakeClient, listener: str) -> None:
    texts: list[str] = []

    async def main() -> None:
        async with make_client(listener) as client, trio.open_nursery() as nursery:

            async def ask() -> None:
                texts.append((await client.get(server.url(listener))).text)

            for _ in range(TASKS):
                nursery.start_soon(ask)

    trio.run(main)
    assert texts == ["hello world"] * TASKS


def test_content_of_every_kind_is_sent(
    server: Peer, make_client: MakeClient, listener: str, tmp_path: Path
) -> None:
    expected = b"".join(bytes([number]) * 33_000 for number in range(40))
    path = tmp_path / "upload"
    path.write_bytes(expected)

    def pieces() -> Iterator[bytes]:
        for number in range(40):
            yield bytes([number]) * 33_000

    async def main() -> None:
        async with make_client(listener) as client:
            echo = server.url(listener, "/echo")
            for content in (expected, _generated(40, 33_000), pieces()):
                assert (await client.post(echo, content)).content == expected
            with path.open("rb") as file:
                assert (await client.post(echo, file)).content == expected
            response = await client.post(echo, expected, expect_continue=True)
            assert response.content == expected
            assert len(client.connections) == 1

    trio.run(main)


def test_a_response_comes_in_pieces(server: Peer, make_client: MakeClient, listener: str) -> None:
    async def main() -> None:
        async with make_client(listener) as client:
            url = server.url(listener, "/bytes/3000000")
            async with client.stream("GET", url) as response:
                assert sum([len(piece) async for piece in response]) == 3_000_000
            async with client.stream("GET", url) as left:
                await left.read1()
            assert (await client.get(server.url(listener))).text == "hello world"

    trio.run(main)


def test_a_cancelled_task_resets_its_own_stream_only(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with make_client("h2") as client:
            await client.get(server.url("h2"))
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def long() -> None:
                        await client.get(server.url("h2", "/delay/300s"))

                    nursery.start_soon(long)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            assert scope.cancelled_caught
            assert (await client.get(server.url("h2"))).text == "hello world"
            assert len(client.connections) == 1

    trio.run(main)


def test_an_upload_is_cancelled_with_its_task(server: Peer, make_client: MakeClient) -> None:
    ended = []

    async def endless(begun: trio.Event) -> AsyncIterator[bytes]:
        try:
            yield b"x"
            begun.set()
            await trio.sleep_forever()
        finally:
            ended.append(True)

    async def main() -> None:
        async with make_client("h2") as client:
            begun = trio.Event()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def upload() -> None:
                        await client.post(server.url("h2", "/echo"), endless(begun))

                    nursery.start_soon(upload)
                    await begun.wait()
                    scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert ended == [True]
            assert (await client.get(server.url("h2"))).text == "hello world"

    trio.run(main)


def test_failing_content_ends_the_request_with_its_own_error(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    class MineError(Exception):
        pass

    async def failing() -> AsyncIterator[bytes]:
        yield b"x"
        raise MineError

    async def main() -> None:
        async with make_client(listener) as client:
            with pytest.raises(MineError):
                await client.post(server.url(listener, "/echo"), failing())
            assert (await client.get(server.url(listener))).text == "hello world"

    trio.run(main)


def test_limits_pass_and_timers_of_quic_run(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with make_client("h3") as client:
            with pytest.raises(errors.ReadTimeout):
                await client.get(server.url("h3", "/delay/300s"), timeout=0.2)
            # Longer than acknowledgements and probes of QUIC wait.
            assert (await client.get(server.url("h3", "/delay/1s"))).status == 200

    trio.run(main)


def test_failures_are_what_they_are() -> None:
    async def main() -> None:
        async with AsyncClient(timeout=60.0) as client:
            with pytest.raises(errors.ConnectionRefused):
                await client.get("http://127.0.0.1:1")
            for script, wanted in (
                (chaos.close_at_accept, errors.RemoteError),
                (chaos.answer(b"garbage\r\n\r\n"), errors.RemoteProtocolError),
            ):
                with chaos.serve(script) as bad, pytest.raises(wanted):
                    await client.get(bad.base)

    trio.run(main)


def test_a_client_belongs_to_one_run(server: Peer, make_client: MakeClient) -> None:
    client = make_client("h2")

    async def ask() -> None:
        assert (await client.get(server.url("h2"))).text == "hello world"

    trio.run(ask)
    with pytest.raises(errors.LocalError, match="that has been closed"):
        trio.run(ask)
    with pytest.raises(errors.LocalError, match="that has been closed"):
        asyncio.run(ask())
    client.close()


def test_long_calls_are_all_under_way(holding: Held) -> None:
    calls, texts = CALLS["h2"], list[str]()

    async def main(url: str, ca: str) -> None:
        async with (
            AsyncClient(versions=("h2",), verify=ca, timeout=120.0) as client,
            trio.open_nursery() as nursery,
        ):

            async def ask() -> None:
                texts.append((await client.get(url)).text)

            for _ in range(calls):
                nursery.start_soon(ask)

    trio.run(main, holding.url(calls), holding.ca)
    assert texts == ["ok"] * calls


@pytest.mark.parametrize(
    ("version", "backend"), [("h1", "trio"), ("h2", "asyncio"), ("h3", "trio")]
)
def test_httpx_on_both_backends_of_anyio(server: Peer, version: str, backend: str) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def note(name: str, _: object) -> None:
            await anyio.lowlevel.checkpoint()
            seen.append(name)

        transport = AsyncTransport(str(server.ca), versions=(version,), alternatives="off")
        async with (
            httpx.AsyncClient(transport=transport, timeout=60.0) as client,
            anyio.create_task_group() as group,
        ):
            base = server.bases["h2"]
            response = await client.get(f"{base}/hello", extensions={"trace": note})
            assert response.text == "hello world"
            assert seen[0].startswith("connection.connect_")
            assert seen[-1].endswith(".response_closed.complete")

            async def ask() -> None:
                assert (await client.get(f"{base}/hello")).text == "hello world"

            for _ in range(50):
                group.start_soon(ask)
            files = {"file": ("name", b"content" * 1000)}
            sent = await client.post(f"{base}/echo", files=files)
            assert b"content" in sent.content
            with anyio.move_on_after(0.2) as scope:
                await client.get(f"{base}/delay/300s")
            assert scope.cancelled_caught
            assert (await client.get(f"{base}/hello")).text == "hello world"

    anyio.run(main, backend=backend)


def test_callbacks_and_timers_are_called_in_order(caplog: pytest.LogCaptureFixture) -> None:
    called: list[object] = []

    async def main() -> None:
        loop = TrioLoop.current()
        assert TrioLoop.current() is loop
        now = loop.time()
        timers = [loop.call_at(now + 5 + at, called.append, at) for at in (3.0, 1.0, 2.0)]
        for _ in range(300):
            loop.call_at(now + 1000, called.append, "never").cancel()
        timers[2].cancel()
        loop.call_soon(called.append, "soon")
        loop.call_soon(called.__getitem__, 99)
        await trio.to_thread.run_sync(loop.call_soon_threadsafe, called.append, "from a thread")
        await trio.sleep(10)
        future = loop.create_future()
        future.set_result("done")
        assert await future == "done"

    with caplog.at_level(logging.ERROR, "trilane.client"):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.05))
    assert called == ["soon", "from a thread", 1.0, 3.0]
    assert "IndexError" in caplog.text


def test_streams_of_events_are_read_as_they_come(tmp_path: Path, leaf: Leaf) -> None:
    headers = {"authorization": f"Bearer {models.OPENAI_KEY}"}
    asked = {"model": "local", "stream": True}

    async def main(base: str) -> None:
        async with AsyncClient(versions=("h3",), verify=str(leaf.ca), timeout=60.0) as client:
            url = f"{base}/v1/chat/completions"
            async with client.stream("POST", url, json=asked, headers=headers) as response:
                lines = [line async for line in response.aiter_lines() if line]
        assert len(lines) == len(models.WORDS) + 3
        assert lines[-1] == "data: [DONE]"

    with models.serving(tmp_path, leaf) as base:
        trio.run(main, base)
