"""HTTP/3 servers that break the rules, and what is allowed but rare."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from peers.authority import Authority
from peers.peer import secure
from trilane import _core
from trilane.client import errors

from .h3_chaos import (
    CONTROL,
    DATA,
    EARLY_HINTS,
    GOAWAY,
    HEADERS,
    OK,
    Script,
    Server,
    frame,
    length,
    response,
    serve,
)
from .memory import little_memory
from .opening import WAIT_S, Opener, get

SHORT_S = 0.3
MESSAGE_ERROR, FRAME_UNEXPECTED = 0x10E, 0x105
REJECTED, CANCELLED, NO_ERROR, INTERNAL_ERROR = 0x10B, 0x10C, 0x100, 0x102
BROKEN = errors.RemoteProtocolError


def _says(*parts: bytes, end: bool = True) -> Script:
    def script(server: Server, stream: int) -> None:
        server.send(stream, b"".join(parts), end)

    return script


# What the server does → the error, its code, and whether the connection ends with it: one of each
# kind, of which the conformance suite has all.
CASES: dict[str, tuple[Script, type[errors.Error], int | None, bool]] = {
    "silent": (lambda *_: None, errors.ReadTimeout, None, False),
    "reset": (
        lambda server, stream: server.reset(stream, INTERNAL_ERROR),
        errors.StreamReset,
        INTERNAL_ERROR,
        False,
    ),
    "rejected": (
        lambda server, stream: server.reset(stream, REJECTED),
        errors.StreamReset,
        REJECTED,
        False,
    ),
    "close": (
        lambda server, _: server.end(INTERNAL_ERROR),
        errors.RemoteError,
        INTERNAL_ERROR,
        True,
    ),
    "DATA first": (_says(frame(DATA, b"x")), BROKEN, FRAME_UNEXPECTED, True),
    "too long": (
        _says(frame(HEADERS, length(12)), frame(DATA, b"hello world")),
        errors.IncompleteBody,
        MESSAGE_ERROR,
        False,
    ),
    "endless head": (
        _says(b"\x01\x80\x7f\xff\xff" + bytes(1 << 20), end=False),
        errors.LimitExceeded,
        None,
        False,
    ),
}


@pytest.fixture
def connect(opener: Opener) -> Callable[[int], _core.Connection]:
    return lambda port: opener.url(secure(port), "h3")


@pytest.mark.parametrize("name", CASES)
def test_misbehaviour_is_told_as_what_it_is(
    authority: Authority, connect: Callable[[int], _core.Connection], name: str
) -> None:
    script, kind, code, ends = CASES[name]
    with little_memory(), serve(script, authority.local()) as port:
        connection = connect(port)
        exchange = get(connection, "/")
        with pytest.raises(errors.Error) as caught:
            exchange.read(timeout=SHORT_S if kind is errors.ReadTimeout else WAIT_S)
        error = caught.value
        assert isinstance(error, kind), repr(error)
        assert error.stream_id == 0
        assert error.retryable == (name == "rejected")
        if code is not None:
            assert error.error_code == code, repr(error)
        assert connection.is_closing == ends
        connection.close()


def test_one_stream_that_is_reset_leaves_the_others(
    authority: Authority, connect: Callable[[int], _core.Connection]
) -> None:
    def script(server: Server, stream: int) -> None:
        if stream % 8 == 0:
            server.reset(stream, CANCELLED)
        else:
            server.send(stream, response(), True)

    with serve(script, authority.local()) as port:
        connection = connect(port)
        outstanding = [get(connection, "/") for _ in range(20)]
        for exchange in outstanding:
            if exchange.stream_id % 8:
                assert exchange.read(timeout=WAIT_S) == b"hello world"
                continue
            with pytest.raises(errors.StreamReset) as caught:
                exchange.head(WAIT_S)
            assert caught.value.error_code == CANCELLED
        assert not connection.is_closing


def test_goaway_ends_those_above_and_lets_those_below_finish(
    authority: Authority, connect: Callable[[int], _core.Connection]
) -> None:
    def script(server: Server, stream: int) -> None:
        if stream == 16:
            # Requests from stream 8 on were not processed (RFC 9114 §5.2).
            server.send(CONTROL, frame(GOAWAY, b"\x08"))
            server.send(0, response(), True)
            server.send(4, response(), True)

    with serve(script, authority.local()) as port:
        connection = connect(port)
        outstanding = [get(connection, "/") for _ in range(5)]
        for exchange in outstanding[2:]:
            with pytest.raises(errors.GoAway) as caught:
                exchange.head(WAIT_S)
            assert caught.value.retryable
        for exchange in outstanding[:2]:
            assert exchange.read(timeout=WAIT_S) == b"hello world"
        assert connection.is_closing
        with pytest.raises(errors.Error) as refused:
            get(connection, "/")
        assert refused.value.retryable


def test_hints_and_trailers(
    authority: Authority, connect: Callable[[int], _core.Connection]
) -> None:
    # `age: 0` and `content-length: 0` of the static table; the latter may not be a trailer.
    trailer = frame(HEADERS, b"\0\0\xc2")
    script = _says(frame(HEADERS, EARLY_HINTS) * 2, response(), trailer)
    with serve(script, authority.local()) as port:
        exchange = get(connect(port), "/")
        assert exchange.wait_informational(WAIT_S) == 103
        assert exchange.wait_informational(WAIT_S) == 103
        assert exchange.wait_informational(WAIT_S) is None
        assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (200, b"hello world")
        assert exchange.trailers() == [("age", "0")]


def test_a_server_that_stops_an_upload(
    authority: Authority, connect: Callable[[int], _core.Connection]
) -> None:
    def script(server: Server, stream: int) -> None:
        server.stop(stream, NO_ERROR)
        server.send(stream, response(), True)

    with serve(script, authority.local()) as port:
        connection = connect(port)
        for _ in range(5):
            exchange = connection.submit("POST", "/", [], streaming=True)
            exchange.write(b"x", WAIT_S)
            assert exchange.read(timeout=WAIT_S) == b"hello world"
            exchange.write(bytes(1 << 20), WAIT_S)
            exchange.finish(timeout=WAIT_S)
            assert not exchange.upload_open
        assert connection.outstanding == 0


def test_a_server_that_takes_no_content(
    authority: Authority, connect: Callable[[int], _core.Connection]
) -> None:
    with little_memory(), serve(lambda *_: None, authority.local()) as port:
        exchange = connect(port).submit("POST", "/", [], streaming=True)
        # aioquic takes what it is given, up to the window that it has granted.
        exchange.write(b"x", WAIT_S)
        with pytest.raises(errors.ReadTimeout):
            exchange.head(SHORT_S)
        exchange.cancel()


def test_a_flood_of_empty_frames(
    authority: Authority, connect: Callable[[int], _core.Connection]
) -> None:
    script = _says(frame(HEADERS, OK), frame(DATA) * 200_000, frame(DATA, b"x"))
    with little_memory(), serve(script, authority.local()) as port:
        exchange = get(connect(port), "/")
        try:
            assert exchange.read(timeout=WAIT_S) == b"x"
        except errors.LimitExceeded as error:
            assert error.stream_id == 0  # noqa: PT017 - one or the other
