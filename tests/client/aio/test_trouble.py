"""Servers that fail, loops that end, clients that are closed."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from peers import chaos, embedded, h2_chaos
from peers.chaos import Script
from peers.peer import Peer
from peers.process import free_port
from peers.running import Peers
from repository import native
from trilane.client import errors
from trilane.client.aio import AsyncClient
from trilane.client.aio.link import Link

from .conftest import MakeClient, run

# What our errors are called in the tables of the bad servers.
KINDS: dict[str, tuple[type[BaseException], ...]] = {
    "timeout": (errors.Timeout,),
    "reset": (errors.StreamReset, errors.ConnectionClosed, errors.ConnectFailed),
    "closed": (errors.ConnectionClosed, errors.GoAway),
    "protocol": (errors.RemoteProtocolError,),
    "limit": (errors.LimitExceeded, errors.GoAway, errors.RemoteProtocolError),
    "body": (errors.IncompleteBody,),
}


def is_named(error: BaseException, kinds: set[str]) -> bool:
    return any(isinstance(error, KINDS[kind]) for kind in kinds)


def _failing(table: dict[str, tuple[Script, set[str]]]) -> list[str]:
    return [name for name, (_, kinds) in table.items() if kinds <= KINDS.keys()]


async def _read(client: AsyncClient, base: str) -> None:
    async with client.stream("GET", base) as response:
        received = 0
        while piece := await response.read1():
            received += len(piece)
            if received > 50_000_000:
                # An endless body is no error of the client's: it is the reader's to stop.
                raise errors.LimitExceeded("more than the test wants")


async def _is_named(base: str, version: str, kinds: set[str]) -> None:
    before = asyncio.all_tasks()
    async with AsyncClient(versions=(version,), timeout=1.0) as client:
        with pytest.raises(errors.Error) as caught:
            await _read(client, base)
        assert is_named(caught.value, kinds), (caught.value, kinds)
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("name", _failing(chaos.H1))
def test_misbehaviour_over_http_1_is_named(name: str) -> None:
    script, kinds = chaos.H1[name]
    with chaos.serve(script) as server:
        run(_is_named(server.base, "h1", kinds))


@pytest.mark.parametrize("name", _failing(h2_chaos.H2))
def test_misbehaviour_over_http_2_is_named(name: str) -> None:
    script, kinds = h2_chaos.H2[name]
    with chaos.serve(script) as server:
        run(_is_named(server.base, "h2", kinds))


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("h1", "garbage"),
        ("h1", "close mid-body"),
        ("h1", "endless head"),
        ("h2", "window overflow"),
        ("h2", "bad HPACK index"),
        ("h2", "SETTINGS flood"),
        ("h2", "reset"),
    ],
)
def test_a_connection_that_failed_is_left_alone(
    version: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket at its end stays readable: who goes on looking at it keeps a processor busy."""
    turns = 0
    drive = Link._drive

    def counted(link: Link) -> None:
        nonlocal turns
        turns += 1
        drive(link)

    async def main(base: str) -> None:
        async with AsyncClient(versions=(version,), timeout=5.0) as client:
            with pytest.raises(errors.Error):
                await client.get(base)
            await asyncio.sleep(0.05)
            before = turns
            await asyncio.sleep(0.2)
            assert turns - before < 5
            assert client.connections == []

    monkeypatch.setattr(Link, "_drive", counted)
    script, _ = (chaos.H1 if version == "h1" else h2_chaos.H2)[name]
    with chaos.serve(script) as server:
        run(main(server.base))


def test_goaway_costs_no_request() -> None:
    async def main(base: str) -> None:
        async with AsyncClient(versions=("h2",), timeout=30.0, max_per_origin=1) as client:
            responses = await asyncio.gather(*(client.get(base) for _ in range(300)))
            assert {response.content for response in responses} == {b"hello world"}

    with chaos.serve(h2_chaos.goaway_each(20)) as server:
        run(main(server.base))
        assert server.connections >= 15


def test_refused_streams_are_sent_again() -> None:
    async def main(base: str) -> None:
        async with AsyncClient(versions=("h2",), timeout=30.0) as client:
            responses = await asyncio.gather(*(client.get(base) for _ in range(200)))
            assert {response.content for response in responses} == {b"hello world"}

    with chaos.serve(h2_chaos.reset_each(3, 7)) as server:
        run(main(server.base))


def test_a_connection_that_ends_between_requests_is_not_noticed() -> None:
    async def main(base: str) -> None:
        async with AsyncClient(timeout=20.0) as client:
            for _ in range(20):
                assert (await client.get(base)).content == b"hello world"
                await asyncio.sleep(0.005)

    with chaos.serve(chaos.every(3, chaos.close_at_accept)) as server:
        run(main(server.base))


@pytest.mark.parametrize("listener", ["h1s", "h2", "h3"])
def test_a_server_that_dies_ends_every_request_with_an_error(tmp_path: Path, listener: str) -> None:
    peer = embedded.start(native(), tmp_path)

    async def main() -> None:
        async with AsyncClient(
            versions=(listener[:2],), verify=str(peer.ca), timeout=5.0, max_connections=20
        ) as client:
            await client.get(peer.url(listener))
            tasks = [
                asyncio.create_task(client.get(peer.url(listener, "/delay/30s")))
                for _ in range(100)
            ]
            await asyncio.sleep(0.3)
            peer.process.kill()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, errors.Error) for result in results), results
            with pytest.raises(errors.Error):
                await client.get(peer.url(listener))
            assert client.connections == []

    try:
        run(main())
    finally:
        peer.stop()


def test_nobody_listens() -> None:
    async def main() -> None:
        async with AsyncClient() as client:
            url = f"http://127.0.0.1:{free_port()}/"
            results = await asyncio.gather(
                *(client.get(url) for _ in range(20)), return_exceptions=True
            )
            assert {type(result) for result in results} == {errors.ConnectionRefused}

    run(main())


def test_a_stranger_is_not_trusted(server: Peer) -> None:
    async def main() -> None:
        async with AsyncClient() as client:
            with pytest.raises(errors.TLSError):
                await client.get(server.url("h2"))

    run(main())


@pytest.mark.parametrize("url", ["ftp://example.org/", "nowhere", "http://[::1", "http://a:b/"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    async def main() -> None:
        async with AsyncClient() as client:
            with pytest.raises(errors.InvalidRequest):
                await client.get(url)

    run(main())


def test_failing_content_ends_the_request_with_its_own_error(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    class MineError(Exception):
        pass

    async def broken() -> AsyncIterator[bytes]:
        yield b"some"
        await asyncio.sleep(0.05)
        raise MineError

    async def main() -> None:
        async with make_client(listener[:2]) as client:
            for path in ("/hello", "/echo"):
                with pytest.raises(MineError):
                    await client.post(server.url(listener, path), broken())
            assert (await client.get(server.url(listener))).content == b"hello world"

    run(main())


@pytest.mark.parametrize("given", [b"too little", b"far too much for that"])
def test_content_of_another_length_than_announced_is_an_error(
    server: Peer, make_client: MakeClient, listener: str, given: bytes
) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield given

    async def main() -> None:
        async with make_client(listener[:2]) as client:
            with pytest.raises(errors.Error):
                await client.post(
                    server.url(listener, "/hello"), content(), headers={"content-length": "15"}
                )
            assert (await client.get(server.url(listener))).content == b"hello world"

    run(main())


def test_an_answer_before_the_content_has_been_sent_is_the_answer() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(65_536)
        finally:
            closed.set()

    async def main(base: str) -> None:
        async with AsyncClient(timeout=20.0) as client:
            async with client.stream("POST", base, content=endless()) as response:
                assert response.status == 413
                assert await response.aread() == b"too much"
            assert closed.is_set()

    answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo much"
    with chaos.serve(chaos.answer(answer, then="wait")) as server:
        run(main(server.base))


def test_a_client_belongs_to_one_loop(server: Peer, make_client: MakeClient) -> None:
    client = make_client("h2")

    async def main() -> None:
        assert (await client.get(server.url("h2"))).status == 200

    run(main())
    with pytest.raises(errors.LocalError, match="make one client per loop"):
        run(main())
    client.close()
    with pytest.raises(errors.ClientClosed):
        run(main())


def test_closing_ends_what_is_under_way(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    async def main() -> None:
        client = make_client(listener[:2], max_connections=3)
        await client.get(server.url(listener))
        tasks = [
            asyncio.create_task(client.get(server.url(listener, "/delay/30s"))) for _ in range(30)
        ]
        await asyncio.sleep(0.1)
        await client.aclose()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, errors.Error) for result in results), results
        with pytest.raises(errors.ClientClosed):
            await client.get(server.url(listener))
        await client.aclose()
        assert client.connections == []

    run(main())


def test_a_client_that_is_dropped_leaves_nothing_behind(
    server: Peer, make_client: MakeClient
) -> None:
    async def main() -> None:
        client = make_client("h2")
        await client.get(server.url("h2"))

    run(main())
    gc.collect()


def _script(body: str) -> str:
    head = """
        import asyncio, sys
        from trilane.client.aio import AsyncClient
        url, ca = sys.argv[1:]
    """
    return textwrap.dedent(head) + textwrap.dedent(body)


ENDINGS = {
    "a request is under way": """
        async def main():
            client = AsyncClient(verify=ca)
            asyncio.create_task(client.get(url + "/delay/60s"))
            await asyncio.sleep(0.3)
        asyncio.run(main())
    """,
    "a connection is being made": """
        import socket
        silent = socket.create_server(("127.0.0.1", 0))
        async def main():
            client = AsyncClient(verify=False, timeout=3.0)
            url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
            asyncio.create_task(client.get(url))
            await asyncio.sleep(0.3)
        asyncio.run(main())
        silent.close()
    """,
    "the loop was never closed": """
        client = AsyncClient(verify=ca)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(client.get(url + "/hello"))
        loop.close()
    """,
    "an exception is raised": """
        async def main():
            async with AsyncClient(verify=ca) as client:
                task = asyncio.create_task(client.get(url + "/delay/60s"))
                await asyncio.sleep(0.3)
                task.cancel()
        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends(server: Peer, ending: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-X", "dev", "-W", "error", "-c", _script(ENDINGS[ending])),
            *(server.bases["h2"], str(server.ca)),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert "Traceback" not in done.stderr


def test_tasks_see_an_alternative_that_was_announced(
    peers: Peers,
) -> None:
    peer = peers["caddy"]

    async def main() -> None:
        async with AsyncClient(verify=str(peer.ca), timeout=30.0) as client:
            versions = [(await client.get(peer.url("h2"))).version for _ in range(5)]
            assert versions[0] == "h2"
            assert versions[-1] == "h3"

    run(main())
