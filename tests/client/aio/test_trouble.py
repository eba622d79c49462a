"""Connections that failed, loops that end, clients that are closed."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator

import pytest

from client.waits import eventually, turns
from client.wire import h3_chaos
from peers import chaos, h2_chaos
from peers.authority import Authority
from peers.peer import Peer, secure
from trilane.client import errors
from trilane.client._aio import AsyncClient
from trilane.client._aio.deadlines import Deadlines, Limit
from trilane.client._aio.link import Link
from trilane.client._flow.timeouts import Timeouts

from .conftest import MakeClient, run


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
    driven = 0
    drive = Link._drive

    def counted(link: Link) -> None:
        nonlocal driven
        driven += 1
        drive(link)

    async def main(base: str) -> None:
        async with AsyncClient(versions=(version,), timeout=60.0) as client:
            with pytest.raises(errors.Error):
                await client.get(base)
            await eventually(lambda: client.connections == [])
            before = driven
            await turns(50)
            assert driven == before

    monkeypatch.setattr(Link, "_drive", counted)
    script, _ = (chaos.H1 if version == "h1" else h2_chaos.H2)[name]
    with chaos.serve(script) as server:
        run(main(server.base))


def test_an_end_that_the_loop_has_not_seen_is_seen_before_a_connection_is_used() -> None:
    """The loop is busy with something else when the server closes an idle connection."""
    made: list[tuple[asyncio.AbstractEventLoop, asyncio.StreamWriter]] = []

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        made.append((asyncio.get_running_loop(), writer))
        writer.write(h2_chaos.response(stream))

    async def close(writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    async def main(server: chaos.Chaos) -> None:
        async with AsyncClient(versions=("h2",), timeout=60.0) as client:
            for count in (1, 2):
                assert (await client.post(server.base, b"x")).content == b"hello world"
                assert server.connections == count
                loop, writer = made[-1]
                # This thread is that of the client's loop.
                asyncio.run_coroutine_threadsafe(close(writer), loop).result(60)

    with chaos.serve(h2_chaos.server(on_request)) as server:
        run(main(server))


def test_an_end_that_the_loop_has_not_seen_is_seen_over_quic(authority: Authority) -> None:
    made: list[h3_chaos.Server] = []

    def script(server: h3_chaos.Server, stream: int) -> None:
        made.append(server)
        server.send(stream, h3_chaos.response(), end=True)

    async def close(server: h3_chaos.Server) -> None:
        server.end(0x100)
        server.transmit()

    async def main(port: int) -> None:
        async with AsyncClient(versions=("h3",), verify=str(authority.ca), timeout=60.0) as client:
            for count in (1, 2):
                assert (await client.post(secure(port), b"x")).content == b"hello world"
                assert len(set(made)) == count
                # This thread is that of the client's loop.
                asyncio.run_coroutine_threadsafe(close(made[-1]), made[-1]._loop).result(60)

    with h3_chaos.serve(script, authority.local()) as port:
        run(main(port))


@pytest.mark.parametrize("error", [errors.WriteTimeout("mine"), errors.GoAway("mine")])
def test_content_that_fails_while_its_answer_is_read_fails_the_reading(
    server: Peer, make_client: MakeClient, listener: str, error: errors.Error
) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def content() -> AsyncIterator[bytes]:
            yield b"some"
            await begun.wait()
            raise error

        async with make_client(listener) as client:
            url = server.url(listener, "/echo")
            async with client.stream("POST", url, content=content()) as response:
                assert await response.read1() == b"some"
                begun.set()
                with pytest.raises(type(error)) as caught:
                    await response.aread()
                assert caught.value is error
                with pytest.raises(type(error), match="mine"):
                    await response.read1()
            assert (await client.get(server.url(listener))).content == b"hello world"

    run(main())


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
        client = make_client(listener, max_connections=3)
        await client.get(server.url(listener))
        url = server.url(listener, "/delay/300s")
        tasks = [asyncio.create_task(client.get(url)) for _ in range(30)]
        await turns()
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
        from trilane.client._aio import AsyncClient
        url, ca = sys.argv[1:]
    """
    return textwrap.dedent(head) + textwrap.dedent(body)


ENDINGS = {
    "a request is under way": """
        async def main():
            client = AsyncClient(verify=ca)
            asyncio.create_task(client.get(url + "/delay/300s"))
            while not client.connections:
                await asyncio.sleep(0.01)
        asyncio.run(main())
    """,
    "a connection is being made": """
        import socket
        silent = socket.create_server(("127.0.0.1", 0))
        async def main():
            client = AsyncClient(verify=ca, timeout=1.0)
            url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
            asyncio.create_task(client.get(url))
            return await asyncio.to_thread(silent.accept)
        peer, _ = asyncio.run(main())
        peer.close()
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
                task = asyncio.create_task(client.get(url + "/delay/300s"))
                while not client.connections:
                    await asyncio.sleep(0.01)
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
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("status", ["200 OK", "302 Found"])
def test_content_that_stalls_is_waited_for_once(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a redirect too, which is followed then."""
    read = 0.5
    waits: list[float] = []
    limit = Deadlines.limit

    def noted(deadlines: Deadlines, seconds: float) -> Limit:
        waits.append(seconds)
        return limit(deadlines, seconds)

    monkeypatch.setattr(Deadlines, "limit", noted)
    stalls = f"HTTP/1.1 {status}\r\nlocation: /good\r\ncontent-length: 10\r\n\r\n12345"
    script = chaos.every(1, chaos.answer(stalls.encode()))

    async def main(url: str) -> None:
        async with AsyncClient(versions=("h1",), follow_redirects=True) as client:
            await client.get(url, timeout=60.0)
            limits = Timeouts(60.0, read, 60.0, 60.0)
            if status == "302 Found":
                assert (await client.get(url, timeout=limits)).status == 200
            else:
                with pytest.raises(errors.ReadTimeout):
                    await client.get(url, timeout=limits)

    with chaos.serve(script) as server:
        run(main(server.base))
    assert waits.count(read) == (2 if status == "302 Found" else 1)
