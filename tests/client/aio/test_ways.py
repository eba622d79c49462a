"""Ways to a server: proxies, tunnels, Unix sockets, another local address."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from peers import chaos
from peers.peer import Peer
from trilane.client import errors
from trilane.client.aio import AsyncClient

from .conftest import MakeClient, run

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"


class Proxy:
    """A proxy on the loop of the test: answers by itself, or makes tunnels to `port`."""

    def __init__(self, port: int | None = None) -> None:
        self.heads: list[str] = []
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode())
                if self._port is None:
                    writer.write(ANSWER)
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    await self._tunnel(reader, writer, self._port)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    async def _tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", port)

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while piece := await source.read(65_536):
                target.write(piece)
                await target.drain()
            target.close()

        try:
            await asyncio.gather(pump(reader, forth), pump(back, writer))
        finally:
            forth.transport.abort()


def test_requests_without_tls_are_forwarded() -> None:
    proxy = Proxy()

    async def main() -> None:
        async with (
            proxy.listening() as place,
            AsyncClient(proxies=f"http://user:secret@{place}", timeout=20.0) as client,
        ):
            for host in ("one.example", "two.example"):
                response = await client.get(f"http://{host}/path?query")
                assert response.content == b"hello world"

    run(main())
    assert [head.splitlines()[0] for head in proxy.heads] == [
        "GET http://one.example/path?query HTTP/1.1",
        "GET http://two.example/path?query HTTP/1.1",
    ]
    assert all("proxy-authorization: Basic dXNlcjpzZWNyZXQ=" in head for head in proxy.heads)


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_requests_with_tls_go_through_a_tunnel(
    server: Peer, make_client: MakeClient, version: str
) -> None:
    base = server.bases["h2"]
    proxy = Proxy(int(base.rpartition(":")[2]))

    async def main() -> None:
        async with (
            proxy.listening() as place,
            make_client(version, proxies={"https": f"http://{place}"}) as client,
        ):
            responses = await asyncio.gather(*(client.get(f"{base}/hello") for _ in range(20)))
            assert {response.version for response in responses} == {version}
            assert {response.content for response in responses} == {b"hello world"}

    run(main())
    assert all(head.startswith("CONNECT localhost:") for head in proxy.heads)
    assert len(proxy.heads) == (1 if version == "h2" else 20)


def test_a_proxy_that_refuses_is_named() -> None:
    async def main(base: str) -> None:
        async with AsyncClient(proxies=base, timeout=20.0) as client:
            with pytest.raises(errors.ProxyError) as caught:
                await client.get("https://example.org/")
            assert caught.value.error_code == 407

    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    with chaos.serve(chaos.answer(refusal, then="wait")) as server:
        run(main(server.base))


def test_a_unix_socket_is_a_server_too(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        path = str(tmp_path / "socket")
        async with (
            await asyncio.start_unix_server(answer, path),
            AsyncClient(unix=path, timeout=20.0) as client,
        ):
            assert (await client.get("http://docker/info")).content == b"hello world"

    run(main())


def test_the_local_address_can_be_chosen(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with make_client("h2", source=("127.0.0.1", 0)) as client:
            response = await client.get(server.url("h2"))
            assert response.local is not None
            assert response.local[0] == "127.0.0.1"
            assert response.peer is not None
            assert response.tls_info is not None
            assert response.tls_info["alpn"] == "h2"

    run(main())
