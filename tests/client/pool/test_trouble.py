"""Servers that misbehave: what is sent again, what is an error, and how long anything takes."""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
import threading
import time
import zlib
from collections.abc import Iterator

import pytest

from peers import chaos, h2_chaos
from peers.peer import Peer
from trilane.client import errors
from trilane.client.pool import Client
from trilane.client.timeouts import Timeouts

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"


@pytest.fixture
def one() -> Iterator[Client]:
    with Client(timeout=10.0) as client:
        yield client


@pytest.fixture
def two() -> Iterator[Client]:
    """HTTP/2 by prior knowledge."""
    with Client(versions=("h2",), timeout=10.0) as client:
        yield client


def test_goaway_is_not_seen_by_the_caller(two: Client) -> None:
    with chaos.serve(h2_chaos.goaway_each(3)) as server:
        for _ in range(20):
            assert two.get(server.base).content == b"hello world"
        assert server.connections >= 7


def test_goaway_under_many_threads(two: Client) -> None:
    with chaos.serve(h2_chaos.goaway_each(20)) as server:
        statuses: list[int] = []

        def call() -> None:
            statuses.extend(two.get(server.base).status for _ in range(20))

        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert statuses == [200] * 160


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_refused_streams_are_sent_again(two: Client, method: str) -> None:
    with chaos.serve(h2_chaos.reset_each(2, 7)) as server:
        for _ in range(10):
            assert two.request(method, server.base, content=b"x").content == b"hello world"
        assert server.connections == 1


def test_content_that_cannot_be_sent_again_is_not(two: Client) -> None:
    with chaos.serve(h2_chaos.reset_each(1, 7)) as server:
        with pytest.raises(errors.StreamReset) as caught:
            two.post(server.base, iter([b"once"]))
        assert caught.value.retryable
        assert caught.value.error_code == 7
        assert caught.value.stream_id == 1


def test_a_file_is_sent_again_from_where_it_stood(two: Client) -> None:
    with chaos.serve(h2_chaos.reset_each(2, 7)) as server:
        two.get(server.base)
        file = io.BytesIO(b"skipped" + bytes(1000))
        file.seek(7)
        assert two.post(server.base, file).content == b"hello world"
        assert file.tell() == 1007


def test_refusal_for_ever_ends(two: Client) -> None:
    with chaos.serve(h2_chaos.reset_each(1, 7)) as server:
        began = time.monotonic()
        with pytest.raises(errors.StreamReset):
            two.get(server.base)
        assert time.monotonic() - began < 9.0


def test_other_resets_are_not_sent_again(two: Client) -> None:
    with chaos.serve(h2_chaos.reset_each(1, 2)) as server:
        with pytest.raises(errors.StreamReset) as caught:
            two.get(server.base)
        assert not caught.value.retryable
        assert isinstance(caught.value, ConnectionResetError)


def test_a_kept_connection_that_was_closed_is_replaced(one: Client) -> None:
    with chaos.serve(chaos.every(1, chaos.close_at_accept)) as server:
        for method in ("GET", "POST", "GET"):
            assert one.request(method, server.base, content=None).content == b"hello world"
            time.sleep(0.05)
        assert server.connections == 3


async def _closes_at_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the second request of a connection, and closes instead of answering."""
    await chaos.request(reader)
    writer.write(OK)
    await chaos.request(reader)


def test_a_kept_connection_that_closes_under_a_request(one: Client) -> None:
    with chaos.serve(_closes_at_the_second) as server:
        for _ in range(4):
            assert one.get(server.base).content == b"hello world"
        assert server.connections == 4
        # POST may have been processed (RFC 9110 §9.2.2).
        with pytest.raises(errors.ConnectionClosed) as caught:
            one.post(server.base, b"x")
        assert caught.value.retryable


def test_a_new_connection_that_closes_is_an_error(one: Client) -> None:
    with chaos.serve(chaos.close_at_accept) as server:
        with pytest.raises(errors.ConnectionClosed):
            one.get(server.base)
        assert server.connections == 1


def _read_with_patience(client: Client, url: str) -> None:
    """As a caller who does not want endless content."""
    with client.stream("GET", url) as response:
        total = 0
        for piece in response:
            total += len(piece)
            if total > 1 << 22:
                raise errors.LimitExceeded("endless content")


# A status is a response here, not an error.
@pytest.mark.parametrize("name", [name for name in chaos.H1 if name != "status 500"])
def test_every_bad_server_of_http_1_is_an_error_in_time(name: str) -> None:
    script, _ = chaos.H1[name]
    with Client(timeout=1.0) as client, chaos.serve(script) as server:
        with pytest.raises(errors.Error) as caught:
            _read_with_patience(client, server.base)
        assert str(caught.value)
        assert client.connections == []


@pytest.mark.parametrize("name", h2_chaos.H2)
def test_every_bad_server_of_http_2_is_an_error_in_time(name: str) -> None:
    script, _ = h2_chaos.H2[name]
    with Client(versions=("h2",), timeout=1.0) as client, chaos.serve(script) as server:
        began = time.monotonic()
        with pytest.raises(errors.Error) as caught:
            client.get(server.base)
        assert str(caught.value)
        assert time.monotonic() - began < 10.0


def test_content_cut_off_keeps_what_came(one: Client) -> None:
    with chaos.serve(chaos.answer(OK[:-6], then="close")) as server:
        with pytest.raises(errors.IncompleteBody) as caught:
            one.get(server.base)
        assert caught.value.partial == b"hello"


def test_a_read_timeout(one: Client) -> None:
    with chaos.serve(chaos.silent) as server:
        with pytest.raises(errors.ReadTimeout):
            one.get(server.base, timeout=Timeouts(read=0.2))
        assert one.connections == []


def test_a_read_timeout_in_the_content(one: Client) -> None:
    with chaos.serve(chaos.answer(OK[:-6])) as server:
        with one.stream("GET", server.base, timeout=Timeouts(read=0.2)) as response:
            assert response.read(5) == b"hello"
            with pytest.raises(errors.ReadTimeout):
                response.read(1)
        assert one.connections == []


def test_a_read_timeout_is_for_each_wait_not_for_all(one: Client) -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        writer.write(OK[:-11])
        for byte in b"hello world":
            await asyncio.sleep(0.15)
            writer.write(bytes([byte]))
        await chaos.forever()

    with chaos.serve(slowly) as server:
        response = one.get(server.base, timeout=Timeouts(read=1.0))
        assert response.content == b"hello world"


def test_a_connect_timeout_in_the_handshake() -> None:
    with chaos.serve(chaos.silent) as server, Client() as client:
        url = server.base.replace("http:", "https:")
        began = time.monotonic()
        with pytest.raises(errors.ConnectTimeout):
            client.get(url, timeout=Timeouts(connect=0.3))
        assert time.monotonic() - began < 5.0


def test_who_waits_for_a_handshake_has_a_connect_timeout_too() -> None:
    with chaos.serve(chaos.silent) as server, Client(timeout=Timeouts(connect=3.0)) as client:
        url = server.base.replace("http:", "https:")
        first = threading.Thread(target=_fails, args=(client, url))
        first.start()
        time.sleep(0.2)
        began = time.monotonic()
        with pytest.raises(errors.ConnectTimeout, match=r"after 0\.3 s"):
            client.get(url, timeout=Timeouts(connect=0.3))
        assert time.monotonic() - began < 2.5
        first.join(10)


def _fails(client: Client, url: str) -> None:
    with pytest.raises(errors.ConnectTimeout):
        client.get(url)


def test_a_write_timeout(one: Client) -> None:
    with chaos.serve(chaos.silent) as server, pytest.raises(errors.WriteTimeout):
        one.post(server.base, bytes(64 << 20), timeout=Timeouts(write=0.3))


def test_nobody_listens(one: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(errors.ConnectionRefused, match=str(port)):
        one.get(f"http://127.0.0.1:{port}/")


def test_no_such_host(one: Client) -> None:
    with pytest.raises(errors.ResolveError, match=r"nowhere\.invalid"):
        one.get("http://nowhere.invalid/")


async def _too_large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers before the content has come, and takes no more of it."""
    await chaos.request(reader)
    writer.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
    await writer.drain()
    await asyncio.sleep(3)


def test_an_early_answer_is_the_response(one: Client) -> None:
    with chaos.serve(_too_large) as server:
        response = one.post(server.base, bytes(8 << 20), timeout=Timeouts(write=1.0))
        assert (response.status, response.content) == (413, b"no")
        assert one.connections == []


def test_100_continue_is_waited_for(one: Client) -> None:
    order: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"expect: 100-continue" in head.lower()
        order.append("head")
        await asyncio.sleep(0.1)
        assert not reader._buffer  # type: ignore[attr-defined]
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(5) == b"hello"
        order.append("content")
        writer.write(OK)

    hints: list[tuple[int, list[tuple[str, str]]]] = []
    with chaos.serve(script) as server:
        response = one.post(
            server.base,
            b"hello",
            expect_continue=True,
            on_informational=lambda status, fields: hints.append((status, fields)),
        )
    assert response.content == b"hello world"
    assert order == ["head", "content"]
    assert hints == [(103, [("Link", "</a>")]), (100, [])]
    assert response.informational == hints


def test_100_continue_that_never_comes(one: Client) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        assert await reader.readexactly(5) == b"hello"
        writer.write(OK)
        await chaos.forever()

    with chaos.serve(script) as server:
        began = time.monotonic()
        headers = {"Expect": "100-continue"}
        assert one.post(server.base, b"hello", headers=headers).content == b"hello world"
        assert time.monotonic() - began > 0.9


def test_the_clients_own_fields_say_how_to_send_too() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length" not in head.lower()
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(15) == b"5\r\nhello\r\n0\r\n\r\n"
        writer.write(OK)

    headers = {"Expect": "100-continue", "Transfer-Encoding": "chunked"}
    with Client(headers=headers, timeout=10.0) as client, chaos.serve(script) as server:
        assert client.post(server.base, b"hello").content == b"hello world"


def test_a_refusal_instead_of_100_continue(one: Client) -> None:
    seen: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        writer.write(b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
        seen.append(await reader.read(100))

    with chaos.serve(script) as server:
        response = one.post(server.base, b"hello", expect_continue=True)
        assert response.status == 417
        assert one.connections == []
    assert seen in ([], [b""])


def test_trailers_both_ways(one: Client) -> None:
    seen: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n")
        await chaos.forever()

    with chaos.serve(script) as server:
        response = one.post(server.base, b"content", trailers=[("x-check", "yes")])
    assert response.content == b"hello"
    assert response.trailers["x-sum"] == "1, 2"
    assert response.trailers.get_all("X-Sum") == ["1", "2"]
    assert seen == [b"7\r\ncontent\r\n0\r\nx-check: yes\r\n\r\n"]


def _coded(coding: str, content: bytes) -> chaos.Script:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(content)}\r\n"
    return chaos.answer(head.encode() + b"\r\n" + content, then="go on")


TEXT = b"some text, and more of it. " * 5000


@pytest.mark.parametrize(
    ("coding", "content"),
    [
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("gzip, identity, deflate", zlib.compress(gzip.compress(TEXT))),
        ("identity", TEXT),
        ("rot13", TEXT),
    ],
)
def test_content_is_decoded(one: Client, coding: str, content: bytes) -> None:
    with chaos.serve(_coded(coding, content)) as server:
        assert one.get(server.base).content == TEXT
        with one.stream("GET", server.base) as response:
            assert response.read(10) == TEXT[:10]
            assert b"".join(response.iter_bytes(100)) == TEXT[10:]
        with one.stream("GET", server.base) as response:
            buffer = bytearray(100)
            assert response.readinto(buffer) == 100
            assert buffer == TEXT[:100]
            assert response.read() == TEXT[100:]
        assert one.get(server.base, decode=False).content == content
        with one.send("GET", server.base) as response:
            assert response.read() == content
        assert server.connections == 1


def test_content_in_a_broken_coding(one: Client) -> None:
    for content in (b"no gzip", gzip.compress(TEXT)[:-10]):
        with chaos.serve(_coded("gzip", content)) as server, pytest.raises(errors.DecodingError):
            one.get(server.base)


def test_a_bomb_is_defused(one: Client) -> None:
    bomb = gzip.compress(gzip.compress(bytes(100 << 20), 9), 9)
    with chaos.serve(_coded("gzip, gzip", bomb)) as server, pytest.raises(errors.DecodingError):
        one.get(server.base)


def test_decoded_content_has_the_callers_limit() -> None:
    with (
        Client(max_decoded=1000) as client,
        chaos.serve(_coded("gzip", gzip.compress(TEXT))) as server,
        pytest.raises(errors.DecodingError, match="1000"),
    ):
        client.get(server.base)


def test_http_1_0_is_named(one: Client) -> None:
    with chaos.serve(chaos.answer(b"HTTP/1.0 200 Fine\r\n\r\nhello", then="close")) as server:
        response = one.get(server.base)
        assert (response.version, response.reason) == ("h1.0", "Fine")
        assert response.content == b"hello"
        assert one.connections == []


@pytest.mark.parametrize("listener", ["h1", "h1s", "h2c", "h2"])
def test_a_large_upload(nginx_peer: Peer, listener: str) -> None:
    url = nginx_peer.url(listener, nginx_peer.upload)
    block = bytes(1 << 20)
    with Client(versions=(listener[:2],), verify=str(nginx_peer.ca), timeout=30.0) as client:
        assert client.post(url, (block for _ in range(40))).status == 200
        assert client.post(url, block * 40).status == 200
        # Above the server's client_max_body_size: it answers to the head alone.
        assert client.post(url, block * 80).status == 413
        assert client.get(nginx_peer.url(listener)).status == 200
