"""HTTP/3 servers that give no end of anything, and what is allowed but rare.

Each rule that a server may break is in `tests/conformance`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from peers.authority import Authority
from peers.peer import secure
from trilane import _core
from trilane.client import errors

from .h3_chaos import (
    DATA,
    HEADERS,
    OK,
    Script,
    Server,
    frame,
    response,
    serve,
)
from .memory import little_memory
from .opening import WAIT_S, Opener, get

SHORT_S = 0.3
NO_ERROR, INTERNAL_ERROR = 0x100, 0x102


def _says(*parts: bytes, end: bool = True) -> Script:
    def script(server: Server, stream: int) -> None:
        server.send(stream, b"".join(parts), end)

    return script


@pytest.fixture
def connect(opener: Opener) -> Callable[[int], _core.Connection]:
    return lambda port: opener.url(secure(port), "h3")


def test_a_head_without_end_is_refused(
    authority: Authority, connect: Callable[[int], _core.Connection]
) -> None:
    script = _says(b"\x01\x80\x7f\xff\xff" + bytes(1 << 20), end=False)
    with little_memory(), serve(script, authority.local()) as port:
        connection = connect(port)
        with pytest.raises(errors.LimitExceeded) as caught:
            get(connection, "/").read(timeout=WAIT_S)
        assert caught.value.stream_id == 0
        assert not connection.is_closing


def test_a_server_that_leaves_says_why(
    authority: Authority, connect: Callable[[int], _core.Connection]
) -> None:
    with serve(lambda server, _: server.end(INTERNAL_ERROR), authority.local()) as port:
        connection = connect(port)
        with pytest.raises(errors.RemoteError) as caught:
            get(connection, "/").read(timeout=WAIT_S)
        assert caught.value.error_code == INTERNAL_ERROR
        assert connection.is_closing


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
