"""Where content begins and ends, and what comes before and after it."""

from __future__ import annotations

import asyncio

import pytest

from peers.chaos import Script, answer, good, request, serve
from peers.running import Peers
from trilane.client import errors

from .opening import WAIT_S, Opener, fetch, get

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TWO = [("h1", "gonet"), ("h1s", "gonet"), ("h2", "gonet"), ("h2c", "gonet")]


def _pieces(*pieces: bytes) -> Script:
    """Answer every request in pieces that do not come together."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    return script


@pytest.mark.parametrize(
    ("content", "trailers"),
    [
        (b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", []),
        (b'5;a=b\r\nhello\r\n6 ; c="d;\\" e"\r\n world\r\n0;end\r\n\r\n', []),
        (b"00005\r\nhello\r\n06\r\n world\r\n000\r\n\r\n", []),
        (
            b"b\r\nhello world\r\n0\r\nX-One: 1\r\nX-Two: 2\r\n\r\n",
            [("X-One", "1"), ("X-Two", "2")],
        ),
        (b"B\r\nhello world\r\n0\r\nX:\r\n\r\n", [("X", "")]),
    ],
    ids=["plain", "extensions", "zeros", "trailers", "empty trailer"],
)
@pytest.mark.parametrize("apart", [False, True], ids=["at once", "byte by byte"])
def test_chunked(
    opener: Opener, content: bytes, trailers: list[tuple[str, str]], apart: bool
) -> None:
    whole = CHUNKED + content
    pieces = [whole[index : index + 1] for index in range(len(whole))] if apart else [whole]
    with serve(_pieces(*pieces)) as chaos:
        connection = opener.chaos(chaos)
        for _ in range(2):
            exchange = get(connection, "/")
            assert exchange.head(WAIT_S) == 200
            assert exchange.content_length is None
            assert exchange.trailers() == [] or exchange.complete
            assert exchange.read(timeout=WAIT_S) == b"hello world"
            assert exchange.trailers() == trailers
        assert chaos.connections == 1


def test_a_response_until_the_connection_closes(opener: Opener) -> None:
    with serve(answer(b"HTTP/1.1 200 OK\r\n\r\nhello ", b"world", then="close")) as chaos:
        connection = opener.chaos(chaos)
        assert fetch(connection, "/") == (200, b"hello world")
        assert connection.is_closing


def test_a_reset_does_not_end_a_response_as_a_close_does(opener: Opener) -> None:
    with serve(answer(b"HTTP/1.1 200 OK\r\n\r\nhello ", b"world", then="reset")) as chaos:
        exchange = get(opener.chaos(chaos), "/")
        assert exchange.head(WAIT_S) == 200
        with pytest.raises(errors.RemoteError):
            exchange.read(timeout=WAIT_S)


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        (b"Connection: keep-alive\r\nContent-Length: 11\r\n", True),
        (b"Content-Length: 11\r\n", False),
        (b"", False),
    ],
    ids=["keep-alive", "length", "until close"],
)
def test_http_1_0(opener: Opener, fields: bytes, kept: bool) -> None:
    whole = b"HTTP/1.0 200 Fine\r\n" + fields + b"\r\nhello world"
    with serve(answer(whole, then="go on" if kept else "close")) as chaos:
        connection = opener.chaos(chaos)
        for _ in range(3 if kept else 1):
            exchange = get(connection, "/")
            assert (exchange.head(WAIT_S), exchange.reason) == (200, "Fine")
            assert exchange.version == "h1.0"
            assert exchange.read(timeout=WAIT_S) == b"hello world"
        assert connection.is_closing != kept
        assert chaos.connections == 1


@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n"),
        ("HEAD", CHUNKED),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 11\r\n\r\n"),
        ("GET", b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n'),
        ("GET", b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
    ],
)
def test_heads_without_content(opener: Opener, method: str, head: bytes) -> None:
    with serve(answer(head, then="go on")) as chaos:
        connection = opener.chaos(chaos)
        for _ in range(3):
            exchange = get(connection, "/", method)
            assert exchange.head(WAIT_S) == int(head.split()[1])
            assert exchange.read(timeout=WAIT_S) == b""
        assert chaos.connections == 1
        assert not connection.is_closing


def test_connection_close_is_believed(opener: Opener) -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 11\r\n\r\n"
    with serve(answer(head, b"hello world", then="wait")) as chaos:
        connection = opener.chaos(chaos)
        assert fetch(connection, "/") == (200, b"hello world")
        assert connection.is_closing
        assert connection.capacity == 0


@pytest.mark.parametrize(("listener", "name"), TWO)
def test_early_hints_come_before_the_response(
    peers: Peers, opener: Opener, listener: str, name: str
) -> None:
    exchange = get(opener.peer(peers[name], listener), "/hints")
    assert exchange.wait_informational(WAIT_S) == 103
    assert exchange.wait_informational(WAIT_S) == 103
    assert exchange.wait_informational(WAIT_S) is None
    assert exchange.head(WAIT_S) == 200
    assert exchange.read(timeout=WAIT_S) == b"hello world"
    links = [
        value
        for status, fields in exchange.informational
        for name, value in fields
        if status == 103 and name.lower() == "link"
    ]
    assert links == ["</style.css>; rel=preload; as=style"] * 2
    assert not [name for name, _ in exchange.fields() if name.lower() == "link"]


@pytest.mark.parametrize(("listener", "name"), TWO)
def test_trailers_both_ways(peers: Peers, opener: Opener, listener: str, name: str) -> None:
    connection = opener.peer(peers[name], listener)
    announced = [("trailer", "x-checksum, x-other")]
    exchange = connection.submit("POST", "/echo", announced, streaming=True)
    exchange.write(b"hello ", WAIT_S)
    exchange.write(b"world", WAIT_S)
    exchange.finish([("x-checksum", "0d4a1185"), ("x-other", "b")], WAIT_S)
    assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (200, b"hello world")
    trailers = {name.lower(): value for name, value in exchange.trailers()}
    assert trailers == {"x-checksum": "0d4a1185", "x-other": "b"}
    received = get(connection, "/trailers")
    assert (received.head(WAIT_S), received.read(timeout=WAIT_S)) == (200, b"hello world")
    assert [value for _, value in received.trailers()] == ["0d4a1185"]


@pytest.mark.parametrize(("listener", "name"), [*TWO, ("h1s", "nginx"), ("h1s", "hypercorn")])
def test_content_waits_for_100_continue(
    peers: Peers, opener: Opener, listener: str, name: str
) -> None:
    peer = peers[name]
    assert peer.upload is not None
    connection = opener.peer(peer, listener)
    fields = [("expect", "100-continue")]
    exchange = connection.submit("POST", peer.upload, fields, streaming=True, length=5)
    assert exchange.wait_informational(WAIT_S) == 100
    exchange.write(b"hello", WAIT_S)
    exchange.finish(timeout=WAIT_S)
    assert exchange.wait_informational(WAIT_S) is None
    assert exchange.head(WAIT_S) == 200
    assert exchange.read(timeout=WAIT_S) == (b"hello" if peer.echoes else b"hello world")


def test_a_server_that_refuses_instead_of_100_gets_no_content(opener: Opener) -> None:
    refusal = b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno"
    with serve(answer(refusal)) as chaos:
        connection = opener.chaos(chaos)
        fields = [("expect", "100-continue")]
        exchange = connection.submit("POST", "/", fields, streaming=True, length=1 << 30)
        assert exchange.wait_informational(WAIT_S) is None
        assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (417, b"no")
        exchange.cancel()
        # The announced content never came: nothing else may follow on this connection.
        assert connection.is_closing


@pytest.mark.parametrize("then", ["wait", "close"])
def test_a_response_before_the_end_of_the_upload(opener: Opener, then: str) -> None:
    head = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"
    with serve(answer(head, then=then)) as chaos:
        exchange = opener.chaos(chaos).submit("POST", "/", [], streaming=True)
        try:
            for _ in range(64):
                exchange.write(bytes(1 << 20), 0.5)
        except errors.WriteTimeout:
            assert then == "wait"
        assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (413, b"no")


def test_switching_protocols_cannot_be_asked_for(opener: Opener) -> None:
    with serve(good) as chaos:
        connection = opener.chaos(chaos)
        fields = [("upgrade", "echo"), ("connection", "upgrade")]
        with pytest.raises(errors.InvalidRequest):
            connection.submit("GET", "/", fields)
        assert fetch(connection, "/") == (200, b"hello world")


@pytest.mark.parametrize(("listener", "name"), [*TWO, ("h3", "hypercorn")])
def test_content_has_to_have_the_announced_length(
    peers: Peers, opener: Opener, listener: str, name: str
) -> None:
    connection = opener.peer(peers[name], listener)
    exchange = connection.submit("POST", "/echo", [], streaming=True, length=10)
    exchange.write(b"short", WAIT_S)
    with pytest.raises(errors.InvalidRequest):
        exchange.finish(timeout=WAIT_S)
    with pytest.raises(errors.InvalidRequest):
        exchange.write(b"longer", WAIT_S)
    # Nothing of that did any harm.
    exchange.write(b"after", WAIT_S)
    exchange.finish(timeout=WAIT_S)
    assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (200, b"shortafter")


@pytest.mark.parametrize("listener", ["h1", "h2"])
def test_trailers_that_may_not_be_sent_are_refused(
    peers: Peers, opener: Opener, listener: str
) -> None:
    connection = opener.peer(peers["gonet"], listener)
    for name, value in [("content-length", "1"), ("a b", "c"), ("x", "a\r\nb: c"), ("", "")]:
        exchange = connection.submit("POST", "/echo", [], streaming=True)
        exchange.write(b"hello", WAIT_S)
        with pytest.raises(errors.InvalidRequest):
            exchange.finish([(name, value)], WAIT_S)
        exchange.finish(timeout=WAIT_S)
        assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (200, b"hello")
