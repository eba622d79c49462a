"""Connections without a socket: what is written, and what is made of what comes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trilane import _core
from trilane._core import Connection, Exchange
from trilane.client.errors import (
    ConnectionClosed,
    Error,
    IncompleteBody,
    InvalidRequest,
    ReadTimeout,
    RemoteProtocolError,
)

Fields = Sequence[tuple[str | bytes, str | bytes]]


def h1() -> Connection:
    return Connection.memory("h1", authority="example.test")


def get(connection: Connection, fields: Fields = ()) -> Exchange:
    return connection.submit("GET", "/a?b", list(fields))


def answered(response: bytes) -> Exchange:
    """A request whose response has come."""
    connection = h1()
    exchange = get(connection)
    connection.receive(response)
    return exchange


def test_a_request_and_its_response() -> None:
    connection = h1()
    assert (connection.version, connection.capacity, connection.outstanding) == ("h1", 1, 0)
    assert (connection.peer, connection.local, connection.tls_info) == (None, None, None)
    exchange = get(connection, [("X-Case", "kept")])
    assert connection.output() == b"GET /a?b HTTP/1.1\r\nHost: example.test\r\nX-Case: kept\r\n\r\n"
    assert connection.output() == b""
    assert (connection.capacity, connection.outstanding) == (0, 1)
    assert not exchange.complete
    connection.receive(b"HTTP/1.1 200 Fine\r\nX-Case: sent\r\ncontent-length: 5\r\n\r\nhel")
    assert exchange.head(0) == 200
    assert (exchange.reason, exchange.content_length) == ("Fine", 5)
    assert exchange.fields() == [("X-Case", "sent"), ("content-length", "5")]
    assert (exchange.unread, exchange.complete) == (3, False)
    assert exchange.read1(timeout=0) == b"hel"
    with pytest.raises(ReadTimeout):
        exchange.read1(timeout=0)
    connection.receive(memoryview(b"lo"))
    assert (exchange.complete, exchange.unread) == (True, 2)
    assert exchange.read(timeout=0) == b"lo"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "caf\xe9 \xff"),
        (b"x", b"caf\xe9 \xff"),
        ("x", b"caf\xe9 \xff"),
    ],
)
def test_text_is_latin_1(name: str | bytes, value: str | bytes) -> None:
    connection = h1()
    exchange = get(connection, [(name, value)])
    assert b"x: caf\xe9 \xff\r\n" in connection.output()
    connection.receive(
        b"HTTP/1.1 200 \xe4h\r\nx: \xfc\xff\r\ny: \xc3\xa9\r\ncontent-length: 0\r\n\r\n"
    )
    assert exchange.head(0) == 200
    assert exchange.reason == "\xe4h"
    assert exchange.fields()[:2] == [("x", "\xfc\xff"), ("y", "\xc3\xa9")]


@pytest.mark.parametrize(
    "field",
    [
        ("x", "\u20ac"),
        ("x", "\ud800"),
        ("x", "a\r\nb: c"),
        ("x", "a\0"),
        ("x y", "a"),
        ("", "a"),
        (b"x:", b"a"),
        ("content-length", "one"),
    ],
)
def test_fields_that_cannot_be_sent(field: tuple[str, str]) -> None:
    connection = h1()
    with pytest.raises(InvalidRequest) as caught:
        get(connection, [field])
    assert isinstance(caught.value, ValueError)
    assert connection.output() == b""
    assert connection.capacity == 1


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET POST", "/"),
        ("", "/"),
        ("GET", "/a b"),
        ("GET", "/\r\nX: y"),
        ("GET", ""),
        ("G\xe9T", "/"),
    ],
)
def test_request_lines_that_cannot_be_sent(method: str, target: str) -> None:
    connection = h1()
    with pytest.raises(InvalidRequest):
        connection.submit(method, target, [])
    assert connection.output() == b""


@pytest.mark.parametrize(
    "fields", [[("x",)], ["xy"], [("a", 1)], [(1, "a")], [None], 7, [("a", "b", "c")]]
)
def test_fields_of_another_shape(fields: object) -> None:
    with pytest.raises(TypeError):
        h1().submit("GET", "/", fields)  # type: ignore[arg-type]


def test_fields_from_any_sequence() -> None:
    connection = h1()
    connection.submit("GET", "/", (pair for pair in [("a", "b")]))  # type: ignore[arg-type]
    assert b"a: b\r\n" in connection.output()


def test_absurdly_many_fields() -> None:
    with pytest.raises(InvalidRequest, match="fields have"):
        get(h1(), [("x", "y" * 1_000_000)] * 17)


def test_bodies() -> None:
    for body in (b"abc", bytearray(b"abc"), memoryview(b"a-b-c")[::2]):
        connection = h1()
        connection.submit("POST", "/", [], body)
        sent = connection.output()
        assert sent.lower().count(b"content-length: 3\r\n") == 1
        assert sent.endswith(b"\r\n\r\nabc")


def test_arguments_that_contradict_one_another() -> None:
    with pytest.raises(InvalidRequest, match="either a body or"):
        h1().submit("POST", "/", [], b"abc", streaming=True)
    with pytest.raises(InvalidRequest, match="streaming=True"):
        h1().submit("POST", "/", [], length=3)
    with pytest.raises(OverflowError):
        h1().submit("POST", "/", [], streaming=True, length=-3)


def test_streamed_content_in_chunks() -> None:
    connection = h1()
    exchange = connection.submit("POST", "/", [], streaming=True)
    open_at = [exchange.upload_open]
    exchange.write(b"abc", 0)
    exchange.write(bytearray(b"defgh"), 0)
    exchange.finish([("x-sum", "8")], 0)
    open_at.append(exchange.upload_open)
    assert open_at == [True, False]
    head, _, content = connection.output().partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    assert content.lower() == b"3\r\nabc\r\n5\r\ndefgh\r\n0\r\nx-sum: 8\r\n\r\n"


def test_streamed_content_of_known_length() -> None:
    connection = h1()
    exchange = connection.submit("POST", "/", [], streaming=True, length=3)
    exchange.write(b"abc", 0)
    exchange.finish(timeout=0)
    head, _, content = connection.output().partition(b"\r\n\r\n")
    assert b"content-length: 3" in head.lower()
    assert content == b"abc"


def test_content_that_the_caller_frames() -> None:
    connection = h1()
    fields = [("Transfer-Encoding", "chunked")]
    exchange = connection.submit("POST", "/", fields, streaming=True, raw=True)
    exchange.write(b"3;extension\r\nabc\r\n0\r\n\r\n", 0)
    exchange.finish(timeout=0)
    head, _, content = connection.output().partition(b"\r\n\r\n")
    assert head.lower().count(b"transfer-encoding") == 1
    assert content == b"3;extension\r\nabc\r\n0\r\n\r\n"


def test_an_early_answer_ends_the_upload() -> None:
    connection = h1()
    exchange = connection.submit("POST", "/", [], streaming=True, length=10**9)
    exchange.write(b"abc", 0)
    connection.receive(b"HTTP/1.1 413 Too large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    assert exchange.head(0) == 413
    assert not exchange.upload_open
    exchange.write(b"more", 0)
    exchange.finish(timeout=0)


def test_informational_responses() -> None:
    connection = h1()
    exchange = connection.submit("POST", "/", [("expect", "100-continue")], streaming=True)
    with pytest.raises(ReadTimeout):
        exchange.wait_informational(0)
    connection.receive(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n")
    assert exchange.wait_informational(0) == 100
    assert exchange.wait_informational(0) == 103
    with pytest.raises(ReadTimeout):
        exchange.head(0)
    exchange.finish(timeout=0)
    connection.receive(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert exchange.wait_informational(0) is None
    assert exchange.head(0) == 204
    assert exchange.informational == [(100, []), (103, [("Link", "</a>")])]
    assert exchange.complete


def test_trailers() -> None:
    exchange = answered(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 9\r\n\r\n"
    )
    assert exchange.trailers() == [("X-Sum", "9")]
    assert exchange.content_length is None
    assert exchange.read(10, 0) == b"abc"


def test_an_old_server() -> None:
    connection = h1()
    exchange = get(connection)
    connection.receive(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
    assert exchange.version == "h1.0"
    complete_at = [exchange.complete]
    connection.eof()
    complete_at.append(exchange.complete)
    assert complete_at == [False, True]
    assert exchange.read(timeout=0) == b"until the end"
    assert connection.is_closing


def test_a_body_that_is_cut_off() -> None:
    connection = h1()
    exchange = get(connection)
    connection.receive(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
    connection.eof()
    assert exchange.head(0) == 200
    with pytest.raises(IncompleteBody):
        exchange.read(timeout=0)
    # What did come can still be had.
    assert exchange.read1(timeout=0) == b"half"
    with pytest.raises(IncompleteBody):
        exchange.read1(timeout=0)


def test_no_response_at_all() -> None:
    connection = h1()
    exchange = get(connection)
    connection.eof()
    with pytest.raises(ConnectionClosed) as caught:
        exchange.head(0)
    assert isinstance(caught.value, ConnectionResetError)


def test_a_response_that_is_none() -> None:
    connection = h1()
    exchange = get(connection)
    with pytest.raises(RemoteProtocolError):
        connection.receive(b"SSH-2.0-OpenSSH\r\n\r\n")
    with pytest.raises(RemoteProtocolError):
        exchange.head(0)
    assert connection.is_closing


def test_h2_in_memory() -> None:
    connection = Connection.memory("h2", authority="example.test", scheme="https")
    exchanges = [get(connection) for _ in range(3)]
    assert connection.output().startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    connection.receive(b"\0\0\0\4\0\0\0\0\0")
    assert [exchange.stream_id for exchange in exchanges] == [1, 3, 5]
    assert b"\0\0\0\4\1\0\0\0\0" in connection.output()
    exchanges[1].cancel()
    assert b"\0\0\4\3\0\0\0\0\3\0\0\0\x08" in connection.output()
    # :status 200 from the static table, and the end of the stream.
    connection.receive(b"\0\0\1\1\5\0\0\0\1\x88")
    assert exchanges[0].head(0) == 200
    assert exchanges[0].complete
    connection.receive(b"\0\0\4\3\0\0\0\0\5\0\0\0\7")
    with pytest.raises(Error) as caught:
        exchanges[2].head(0)
    assert (caught.value.stream_id, caught.value.error_code) == (5, 7)
    assert caught.value.retryable


def test_what_memory_cannot_do() -> None:
    with pytest.raises(InvalidRequest, match="HTTP/3 needs"):
        Connection.memory("h3")
    with pytest.raises(InvalidRequest, match="h1, h2 and h3"):
        Connection.memory("h4")
    with pytest.raises(InvalidRequest, match="http and https"):
        Connection.memory(scheme="ftp")
    with pytest.raises(InvalidRequest, match="no socket"):
        h1().fileno()


def test_watching_in_memory() -> None:
    connection = h1()
    exchange = get(connection)
    with pytest.raises(InvalidRequest, match="cannot be watched"):
        exchange.watch(7)
    assert not exchange.watch(_core.HEAD)
    assert connection.drive() == []
    connection.receive(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
    assert connection.drive() == [exchange.token]
    assert exchange.watch(_core.HEAD)
    assert not exchange.watch(_core.DATA)
    connection.receive(b"a")
    assert connection.drive() == [exchange.token]
    assert not exchange.watch(_core.END)
    connection.receive(b"b")
    assert connection.drive() == [exchange.token]
    assert connection.drive() == []
    assert exchange.read(timeout=0) == b"ab"


def test_what_they_look_like() -> None:
    connection = h1()
    exchange = get(connection)
    assert repr(connection) == "<trilane._core.Connection h1, 1 outstanding>"
    assert repr(exchange) == "<trilane._core.Exchange 1 of h1>"


@pytest.mark.parametrize(
    ("head", "long"),
    [
        (b"content-length: 2\r\n", False),
        (b"content-length: 262143\r\n", False),
        # More than lies unread, and what nobody knows the length of, is read as it comes.
        (b"content-length: 262144\r\n", True),
        (b"transfer-encoding: chunked\r\n", True),
    ],
)
def test_what_is_short_is_told_of_when_it_is_whole(head: bytes, long: bool) -> None:
    connection = h1()
    exchange = get(connection)
    assert not exchange.watch(_core.WHOLE)
    connection.receive(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
    assert connection.drive() == [exchange.token] * long
    assert exchange.watch(_core.WHOLE) is long
    assert exchange.watch(_core.HEAD)


def test_the_end_of_what_is_short_is_told_once() -> None:
    connection = h1()
    exchange = get(connection)
    assert not exchange.watch(_core.WHOLE)
    for piece in (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", b"a"):
        connection.receive(piece)
        assert connection.drive() == []
    connection.receive(b"b")
    assert connection.drive() == [exchange.token]
    assert exchange.watch(_core.WHOLE)
    assert exchange.read(timeout=0) == b"ab"


def test_a_failure_is_told_to_who_waits_for_the_whole() -> None:
    connection = h1()
    exchange = get(connection)
    assert not exchange.watch(_core.WHOLE)
    connection.receive(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na")
    connection.eof()
    assert connection.drive() == [exchange.token]
    with pytest.raises(IncompleteBody):
        exchange.read(timeout=0)


def test_fields_are_asked_for_by_name() -> None:
    exchange = get(h1())
    assert not exchange.has("set-cookie")
    exchange = answered(b"HTTP/1.1 204 Gone by\r\nSet-Cookie: a=b\r\nX-Set-Cookie: c=d\r\n\r\n")
    assert exchange.has("set-cookie")
    assert exchange.has("X-SET-COOKIE")
    assert not exchange.has("cookie")
    assert not exchange.has("")


def test_sections_outlive_their_exchange() -> None:
    connection = h1()
    exchange = get(connection)
    connection.receive(b"HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\nHTTP/1.1 200 Fine\r\nA: 1\r\n")
    connection.receive(b"transfer-encoding: chunked\r\n\r\n0\r\nb: 2\r\n\r\n")
    told = [exchange.fields(), exchange.reason, exchange.informational, exchange.trailers()]
    sections = exchange.sections()
    token = exchange.token
    del exchange
    # Another request has taken its place.
    other = get(connection)
    assert other.token == token
    assert told == [
        sections.fields(),
        sections.reason,
        sections.informational,
        sections.trailers(),
    ]
    assert told == [
        [("A", "1"), ("transfer-encoding", "chunked")],
        "Fine",
        [(103, [("link", "</a>")])],
        [("b", "2")],
    ]
    assert sections.has("a")
    assert not sections.has("b")
