"""What only asyncio has of a request: content that comes by an asynchronous iterable, and waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from peers import chaos
from peers.peer import Peer
from trilane.client import errors
from trilane.client._aio import AsyncClient

from .conftest import MakeClient, run


def test_content_is_read_only_where_it_was_asked_for(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with (
            make_client() as client,
            client.stream("GET", server.url("h2")) as response,
        ):
            with pytest.raises(errors.LocalError, match="await aread"):
                _ = response.content
            assert await response.aread() == b"hello world"
            assert response.text == "hello world"

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
        async with AsyncClient(timeout=60.0) as client:
            async with client.stream("POST", base, content=endless()) as response:
                assert response.status == 413
                assert await response.aread() == b"too much"
            assert closed.is_set()

    answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo much"
    with chaos.serve(chaos.answer(answer, then="wait")) as server:
        run(main(server.base))


def test_what_an_adapter_shows_of_a_connection(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with make_client("h2", source=("127.0.0.1", 0)) as client:
            response = await client.get(server.url("h2"))
            assert response.local is not None
            assert response.local[0] == "127.0.0.1"
            assert response.peer is not None
            assert response.tls_info is not None
            assert response.tls_info["alpn"] == "h2"

    run(main())
