"""What one request can be, over every version."""

from __future__ import annotations

import asyncio
import io
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from peers import chaos
from peers.peer import Peer
from peers.running import Peers
from trilane.client import errors
from trilane.client.aio import AsyncClient

from .conftest import MakeClient, run

LARGE = 3_000_000


def pattern(size: int) -> bytes:
    return bytes(range(251)) * (size // 251) + bytes(range(size % 251))


def test_a_response_has_its_head_and_its_content(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    async def main() -> None:
        async with make_client(listener[:2]) as client:
            response = await client.get(server.url(listener))
            assert response.status == 200
            assert response.is_success
            assert response.content == b"hello world"
            assert response.text == "hello world"
            assert response.version == listener[:2]
            assert response.headers["Content-Length"] == "11"
            assert response.headers["content-type"] == "text/plain;charset=utf-8"
            assert response.reason == ("OK" if response.version == "h1" else "")
            assert response.is_closed
            assert response.url == server.url(listener)
            assert len(client.connections) == 1

    run(main())


def test_requests_one_after_another_share_a_connection(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    async def main() -> None:
        async with make_client(listener[:2]) as client:
            ids = [(await client.get(server.url(listener))).stream_id for _ in range(5)]
            assert sorted(set(ids)) == ids
            assert len(client.connections) == 1

    run(main())


@pytest.mark.parametrize("method", ["head", "options", "delete", "put", "patch", "post"])
def test_every_method_is_there(server: Peer, make_client: MakeClient, method: str) -> None:
    async def main() -> None:
        async with make_client() as client:
            response = await getattr(client, method)(server.url("h2"))
            assert response.status == 200
            assert response.method == method.upper()
            assert response.content == (b"" if method == "head" else b"hello world")

    run(main())


def test_a_large_response_is_read_whole_or_in_pieces(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    async def main() -> None:
        url = server.url(listener, f"/bytes/{LARGE}")
        async with make_client(listener[:2]) as client:
            whole = (await client.get(url)).content
            assert len(whole) == LARGE
            async with client.stream("GET", url) as response:
                pieces = [piece async for piece in response.aiter_bytes()]
                assert b"".join(pieces) == whole
                assert len(pieces) > 1
                assert response.is_closed
            async with client.stream("GET", url) as response:
                sizes = [len(piece) async for piece in response.aiter_bytes(1_000_000)]
                assert sizes == [1_000_000] * 3
            async with client.stream("GET", url) as response:
                assert await response.read(10) == whole[:10]
                assert await response.read(0) == b""
                assert await response.read() == whole[10:]
                assert await response.read() == b""
            assert len(client.connections) == 1

    run(main())


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


async def _generated(pieces: int, size: int) -> AsyncIterator[bytes]:
    for number in range(pieces):
        await asyncio.sleep(0)
        yield bytes([number % 256]) * size


def _iterated(pieces: int, size: int) -> Iterator[bytes]:
    for number in range(pieces):
        yield bytes([number % 256]) * size


@pytest.mark.parametrize(
    "kind", ["bytes", "large", "str", "file", "pipe", "iterator", "generator", "empty"]
)
def test_content_of_every_kind_is_sent(
    server: Peer, make_client: MakeClient, listener: str, kind: str, tmp_path: Path
) -> None:
    expected = b"".join(_iterated(40, 33_000))
    path = tmp_path / "content"
    path.write_bytes(expected)

    async def main() -> None:
        async with make_client(listener[:2]) as client:
            with path.open("rb") as file:
                content, wanted = {
                    "bytes": (b"some bytes", b"some bytes"),
                    "large": (pattern(LARGE), pattern(LARGE)),
                    "str": ("größer", "größer".encode()),
                    "file": (file, expected),
                    "pipe": (io.BytesIO(expected), expected),
                    "iterator": (_iterated(40, 33_000), expected),
                    "generator": (_generated(40, 33_000), expected),
                    "empty": (_generated(0, 0), b""),
                }[kind]
                response = await client.post(server.url(listener, "/echo"), content)  # type: ignore[arg-type]
            assert response.status == 200
            assert response.content == wanted
            # And the connection goes on.
            assert (await client.get(server.url(listener))).content == b"hello world"
            assert len(client.connections) == 1

    run(main())


def test_a_large_upload_goes_on_whenever_the_socket_takes_more(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    """Much more than the buffers of a socket hold, to a server that reads it as it can."""

    async def main() -> None:
        async with make_client(listener[:2]) as client:
            for _ in range(3):
                response = await client.put(server.url(listener), bytes(40_000_000))
                assert response.content == b"hello world"

    run(main())


def test_json_goes_both_ways(server: Peer, make_client: MakeClient) -> None:
    async def main() -> None:
        async with make_client() as client:
            response = await client.post(server.url("h2", "/echo"), json={"größe": [1, None]})
            assert response.json() == {"größe": [1, None]}
            assert response.headers["content-type"] == "application/json"

    run(main())


def test_fields_of_the_client_and_of_the_request_are_sent(
    server: Peer, make_client: MakeClient, listener: str
) -> None:
    async def main() -> None:
        async with make_client(listener[:2], headers={"x-all": "a", "User-Agent": "me"}) as client:
            response = await client.get(
                server.url(listener, "/headers"), headers=[("X-One", "1"), ("x-all", "b")]
            )
            text = response.text.lower()
            assert '"x-one"' in text
            assert '"me"' in text
            assert '"b"' in text
            assert '"a"' not in text

    run(main())


GZIPPED = zlib.compress(b"hello " * 1000, wbits=31)
GZIP = (
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(GZIPPED)
) + GZIPPED


def test_content_is_decoded_unless_it_is_to_be_raw() -> None:
    async def main(base: str) -> None:
        async with AsyncClient(timeout=20.0) as client:
            assert (await client.get(base)).content == b"hello " * 1000
            assert (await client.get(base, decode=False)).content == GZIPPED
            async with client.stream("GET", base) as response:
                assert b"".join([piece async for piece in response.aiter_raw(7)]) == GZIPPED
            async with client.stream("GET", base) as response:
                assert [len(piece) async for piece in response.aiter_bytes(4000)] == [4000, 2000]
            assert len(client.connections) == 1

    with chaos.serve(chaos.answer(GZIP, then="on")) as server:
        run(main(server.base))


def test_broken_coding_is_an_error() -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip."

    async def main(base: str) -> None:
        async with AsyncClient(timeout=20.0) as client:
            with pytest.raises(errors.DecodingError):
                await client.get(base)

    with chaos.serve(chaos.answer(broken, then="on")) as server:
        run(main(server.base))


def test_trailers_and_informational_responses_are_there() -> None:
    response = (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n0\r\nX-Sum: 5d4\r\n\r\n"
    )

    async def main(base: str) -> None:
        async with AsyncClient(timeout=20.0) as client:
            answer = await client.get(base)
            assert answer.content == b"hello"
            assert answer.trailers["x-sum"] == "5d4"
            (status, fields), *more = answer.informational
            assert status == 103
            assert [(name.lower(), value) for name, value in fields] == [("link", "</a>")]
            assert more == []

    with chaos.serve(chaos.answer(response, then="on")) as server:
        run(main(server.base))


def test_lines_are_cut_at_every_kind_of_end() -> None:
    body = "eins\r\nzwei\rdrei\nvier ü".encode()
    response = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    async def main(base: str) -> None:
        async with AsyncClient(timeout=20.0) as client, client.stream("GET", base) as answer:
            lines = [line async for line in answer.aiter_lines()]
            assert lines == ["eins", "zwei", "drei", "vier ü"]

    with chaos.serve(chaos.answer(response, then="on")) as server:
        run(main(server.base))


def test_an_upload_waits_for_consent_only_as_long_as_is_customary(
    server: Peer, make_client: MakeClient
) -> None:
    async def main() -> None:
        async with make_client("h1") as client:
            response = await client.post(
                server.url("h1s", "/echo"), b"wanted", expect_continue=True
            )
            assert response.content == b"wanted"

    run(main())


@pytest.mark.parametrize(
    ("name", "listeners"),
    [
        ("nginx", ("h1", "h1s", "h2")),
        ("caddy", ("h1", "h2", "h3")),
        ("hypercorn", ("h1", "h1s", "h2", "h3")),
    ],
)
def test_servers_of_others_are_understood(
    peers: Peers, name: str, listeners: tuple[str, ...]
) -> None:
    peer = peers[name]

    async def main(listener: str) -> None:
        async with AsyncClient(
            versions=(listener[:2],), verify=str(peer.ca), timeout=30.0
        ) as client:
            responses = await asyncio.gather(*(client.get(peer.url(listener)) for _ in range(50)))
            assert {response.content for response in responses} == {b"hello world"}
            assert {response.version for response in responses} == {listener[:2]}
            if peer.upload is not None:
                sent = pattern(700_000)
                response = await client.post(peer.url(listener, peer.upload), sent)
                assert response.status == 200
                if peer.echoes:
                    assert response.content == sent

    for listener in listeners:
        run(main(listener))
