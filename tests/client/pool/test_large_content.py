"""How much content is put together in memory, and how much is decoded."""

from __future__ import annotations

import asyncio
import gc
import gzip
import threading

import pytest

from client.face import AnyClient, MakeClient
from client.wire.memory import little_memory
from peers import chaos, h2_chaos
from peers.chaos import Script
from trilane.client import Client, errors

MIB = 1 << 20
BLOCK = b"x" * 16_384
HEAD = b"HTTP/1.1 200 OK\r\n"


class Endless:
    """A server that sends content until the client goes."""

    def __init__(self, head: bytes, block: bytes) -> None:
        self._head, self._block = head, block
        self.left = threading.Event()
        """Set when the client has gone."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        writer.write(self._head)
        try:
            while True:
                writer.write(self._block)
                await writer.drain()
        finally:
            self.left.set()


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSE = HEAD + b"Connection: close\r\n\r\n"
CHUNK = b"%x\r\n%b\r\n" % (len(BLOCK), BLOCK)
TINY = b"1\r\nx\r\n" * 1000


@pytest.mark.parametrize(
    ("head", "block"), [(CHUNKED, CHUNK), (UNTIL_CLOSE, BLOCK)], ids=["chunked", "until close"]
)
def test_content_without_end_is_refused(make_client: MakeClient, head: bytes, block: bytes) -> None:
    client = make_client(max_content=4 * MIB)
    script = Endless(head, block)
    with chaos.serve(script) as server, little_memory(64):
        told = _refusal(client, server.base)
        assert server.base in told
        assert "max_content=4194304" in told
        assert "stream()" in told
        # The rest is not waited for. An exception and its frame hold each other, and the socket.
        gc.collect()
        script.left.wait()


def test_content_in_tiny_pieces_takes_no_more_memory(make_client: MakeClient) -> None:
    client = make_client(max_content=MIB // 2)
    with chaos.serve(Endless(CHUNKED, TINY)) as server, little_memory(32):
        _refusal(client, server.base)


def test_a_stream_that_is_too_long_leaves_the_others(make_client: MakeClient) -> None:
    client = make_client(versions=("h2",), max_content=256 * 1024)

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        if stream > 1:
            writer.write(h2_chaos.response(stream))
            return
        # Without an end; less than the client's window.
        writer.write(h2_chaos.frame(h2_chaos.HEADERS, 4, stream, b"\x88"))
        for _ in range(32):
            writer.write(h2_chaos.frame(h2_chaos.DATA, 0, stream, BLOCK))

    with chaos.serve(h2_chaos.server(on_request)) as server:
        with pytest.raises(errors.LimitExceeded, match="max_content=262144"):
            client.get(server.base)
        assert client.get(server.base).content == b"hello world"
        assert server.connections == 1


def test_an_announcement_is_refused_before_anything_is_read(make_client: MakeClient) -> None:
    # The default: 1 GiB.
    client = make_client()
    announced = HEAD + b"Content-Length: %d\r\n\r\n"
    with chaos.serve(chaos.answer(announced % (1 << 30 | 1))) as server:
        with pytest.raises(errors.LimitExceeded, match="max_content=1073741824"):
            client.get(server.base)
        # What has no content may say how much it would be.
        assert client.head(server.base).content == b""
    with (
        chaos.serve(chaos.answer(announced % (1 << 30), then="close")) as server,
        pytest.raises(errors.IncompleteBody),
    ):
        client.get(server.base)


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_the_limit_itself_is_allowed(make_client: MakeClient, coding: str) -> None:
    text = b"text of some length. " * 5000
    content = gzip.compress(text) if coding == "gzip" else text
    with chaos.serve(_coded(coding, content)) as server:
        assert make_client(max_content=len(text)).get(server.base).content == text
        assert make_client(max_content=None).get(server.base).content == text
        short = make_client(max_content=len(text) - 1)
        with pytest.raises(errors.LimitExceeded):
            short.get(server.base)


def test_a_small_response_has_the_limit_too(make_client: MakeClient) -> None:
    # It is there at once, and is not read in pieces.
    with chaos.serve(_coded("identity", b"hello world")) as server:
        with pytest.raises(errors.LimitExceeded):
            make_client(max_content=10).get(server.base)
        assert make_client(max_content=11).get(server.base).text == "hello world"


def test_what_is_read_in_pieces_has_no_limit(make_client: MakeClient) -> None:
    client = make_client(max_content=1000)
    with chaos.serve(Endless(CHUNKED, CHUNK)) as server, little_memory(32):
        with client.stream("GET", server.base) as response:
            for _ in range(100):
                assert len(response.read(50_000)) == 50_000
            pieces = response.iter_bytes()
            for _ in range(100):
                assert next(pieces)
            with pytest.raises(errors.LimitExceeded):
                response.read()
        with (
            client.stream("GET", server.base) as response,
            pytest.raises(errors.LimitExceeded),
        ):
            _ = response.content


def test_get_all_has_the_limit() -> None:
    with (
        chaos.serve(Endless(CHUNKED, CHUNK)) as server,
        Client(max_content=MIB, timeout=60) as client,
        pytest.raises(errors.LimitExceeded),
    ):
        list(client.get_all([server.base]))


@pytest.mark.parametrize("coding", ["identity", "rot13", "gzip"])
@pytest.mark.parametrize("how", ["whole", "pieces"])
def test_max_decoded_holds_whatever_the_coding(
    make_client: MakeClient, coding: str, how: str
) -> None:
    text = b"some text, and more of it. " * 50
    content = gzip.compress(text) if coding == "gzip" else text
    with chaos.serve(_coded(coding, content)) as server:
        enough = make_client(max_decoded=len(text))
        assert _read(enough, server.base, how) == text
        with pytest.raises(errors.DecodingError, match="1000"):
            _read(make_client(max_decoded=1000), server.base, how)


def test_max_decoded_ends_content_without_end(make_client: MakeClient) -> None:
    client = make_client(max_decoded=4 * MIB, max_content=None)
    with (
        chaos.serve(Endless(CHUNKED, CHUNK)) as server,
        little_memory(64),
        pytest.raises(errors.DecodingError, match="max_decoded=4194304"),
    ):
        client.get(server.base)


def test_max_decoded_holds_for_readinto() -> None:
    with (
        chaos.serve(Endless(CHUNKED, CHUNK)) as server,
        Client(max_decoded=100_000, timeout=60) as client,
        client.stream("GET", server.base) as response,
    ):
        buffer = bytearray(100_000)
        got = 0
        while got < 100_000:
            got += response.readinto(memoryview(buffer)[got:])
        with pytest.raises(errors.DecodingError):
            response.readinto(buffer)


def test_what_is_not_to_be_decoded_is_not_counted(make_client: MakeClient) -> None:
    text = b"some text, and more of it. " * 500
    with chaos.serve(_coded("identity", text)) as server:
        client = make_client(max_decoded=1000)
        assert client.get(server.base, decode=False).content == text


@pytest.mark.parametrize("name", ["max_content", "max_decoded"])
def test_a_limit_below_zero_is_a_mistake(make_client: MakeClient, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=-1"):
        make_client(**{name: -1})


def _refusal(client: AnyClient, url: str) -> str:
    with pytest.raises(errors.LimitExceeded) as caught:
        client.get(url)
    return str(caught.value)


def _read(client: AnyClient, url: str, how: str) -> bytes:
    if how == "whole":
        content: bytes = client.get(url).content
        return content
    with client.stream("GET", url) as response:
        return b"".join(response.iter_bytes(100))


def _coded(coding: str, content: bytes) -> Script:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(content)}\r\n"
    return chaos.answer(head.encode() + b"\r\n" + content, then="go on")
