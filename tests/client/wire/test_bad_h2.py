"""HTTP/2 servers that flood, that go away with a reason, and what is allowed but rare.

Each rule that a server may break is in `tests/conformance`.
"""

from __future__ import annotations

import asyncio
import struct

import pytest

from peers.chaos import serve
from peers.h2_chaos import (
    DATA,
    GOAWAY,
    H2,
    HEADERS,
    RST_STREAM,
    SETTINGS,
    answer_in_http_1,
    frame,
    replies,
    response,
    server,
)
from trilane.client import errors

from .memory import little_memory
from .opening import WAIT_S, Opener, fetch, get

SHORT_S = 0.3
CALM = 11
_END_HEADERS = 4


@pytest.mark.parametrize("name", ["PING flood", "empty DATA flood"])
def test_a_flood_is_refused(opener: Opener, name: str) -> None:
    with little_memory(), serve(H2[name][0]) as chaos:
        connection = opener.chaos(chaos, "h2")
        with pytest.raises(errors.LimitExceeded) as caught:
            get(connection, "/").read(timeout=WAIT_S)
        assert (caught.value.stream_id, caught.value.error_code) == (1, CALM)
        assert connection.is_closing


def test_http_1_spoken_where_http_2_was_meant(opener: Opener) -> None:
    with serve(answer_in_http_1) as chaos:
        with pytest.raises(errors.Error) as caught:
            get(opener.chaos(chaos, "h2"), "/").head(WAIT_S)
        assert isinstance(caught.value, errors.RemoteProtocolError)
        assert "does not speak HTTP/2" in str(caught.value)


def _after(count: int, *parts: bytes, last: int, code: int = 0, close: bool = False) -> object:
    """A script that answers nothing until `count` requests came, then GOAWAY and `parts`."""
    seen = 0

    def on_request(_stream: int, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            writer.write(frame(GOAWAY, 0, 0, struct.pack(">II", last, code)))
            for part in parts:
                writer.write(part)
            if close:
                writer.close()

    return server(on_request)


def test_goaway_and_close_with_a_request_in_the_middle(opener: Opener) -> None:
    head = frame(HEADERS, _END_HEADERS, 1, b"\x88") + frame(DATA, 0, 1, b"hel")
    with serve(_after(1, head, last=1, close=True)) as chaos:  # type: ignore[arg-type]
        exchange = get(opener.chaos(chaos, "h2"), "/")
        assert exchange.head(WAIT_S) == 200
        with pytest.raises(errors.RemoteError) as caught:
            exchange.read(timeout=WAIT_S)
        assert isinstance(caught.value, errors.IncompleteBody | errors.ConnectionClosed)
        assert not caught.value.retryable
        assert exchange.read1(timeout=WAIT_S) == b"hel"


def test_goaway_on_an_idle_connection_is_seen_before_the_next_request(opener: Opener) -> None:
    with serve(_after(1, last=1)) as chaos:  # type: ignore[arg-type]
        connection = opener.chaos(chaos, "h2")
        with pytest.raises(errors.ReadTimeout):
            get(connection, "/").head(SHORT_S)
        assert connection.is_closing
        assert not connection.is_alive()


def test_goaway_with_an_error_names_it(opener: Opener) -> None:
    with serve(_after(1, last=0, code=CALM)) as chaos:  # type: ignore[arg-type]
        with pytest.raises(errors.Error) as caught:
            get(opener.chaos(chaos, "h2"), "/").head(WAIT_S)
        assert caught.value.error_code == CALM


def test_goaway_says_why_requests_end_that_it_includes(opener: Opener) -> None:
    goaway = frame(GOAWAY, 0, 0, struct.pack(">II", 1, CALM) + b"too many \x1b[2Jresets")

    def on_request(_stream: int, writer: asyncio.StreamWriter) -> None:
        writer.write(goaway)
        writer.close()

    with serve(server(on_request)) as chaos:
        connection = opener.chaos(chaos, "h2")
        with pytest.raises(errors.ConnectionClosed) as caught:
            get(connection, "/").head(WAIT_S)
        with pytest.raises(errors.Error) as later:
            get(connection, "/")
    assert caught.value.error_code == later.value.error_code == CALM
    assert not caught.value.retryable
    assert "0xb" in str(caught.value)
    assert r'"too many \u{1b}[2Jresets"' in str(caught.value)


def test_a_response_that_is_whole_before_no_error_ends_the_upload(opener: Opener) -> None:
    # RFC 9113 §8.1: a complete response, then RST_STREAM(NO_ERROR): stop sending content.
    stop = replies(response, lambda stream: frame(RST_STREAM, 0, stream, struct.pack(">I", 0)))
    with serve(server(stop)) as chaos:
        connection = opener.chaos(chaos, "h2")
        for _ in range(50):
            exchange = connection.submit("POST", "/", [], streaming=True)
            assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (200, b"hello world")
            exchange.write(b"x" * (1 << 20), WAIT_S)
            exchange.finish(timeout=WAIT_S)
            assert not exchange.upload_open
        assert connection.outstanding == 0
        assert not connection.is_closing


def test_early_responses_without_reset_do_not_use_up_the_connection(opener: Opener) -> None:
    limit = struct.pack(">HI", 3, 8)
    with serve(server(replies(response), settings=limit)) as chaos:
        connection = opener.chaos(chaos, "h2")
        for _ in range(50):
            exchange = connection.submit("POST", "/", [], streaming=True)
            assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (200, b"hello world")
        del exchange
        assert connection.capacity == 8
        assert fetch(connection, "/") == (200, b"hello world")


def test_a_connection_without_streams_is_full(opener: Opener) -> None:
    limit = struct.pack(">HI", 3, 2)
    with serve(server(lambda *_: None, settings=limit)) as chaos:
        connection = opener.chaos(chaos, "h2")
        first = get(connection, "/")
        with pytest.raises(errors.ReadTimeout):
            first.head(SHORT_S)
        second = get(connection, "/")
        assert connection.capacity == 0
        with pytest.raises(errors.Full) as caught:
            get(connection, "/")
        assert caught.value.retryable
        second.cancel()
        assert connection.capacity == 1


def test_settings_may_change_in_the_middle(opener: Opener) -> None:
    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        # HEADER_TABLE_SIZE, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE.
        values = [
            (1, stream * 7 % 4096),
            (3, 1 + stream % 5),
            (4, stream * 1000),
            (5, 16384 + stream),
        ]
        writer.write(frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *each) for each in values)))
        writer.write(response(stream))

    with serve(server(on_request)) as chaos:
        connection = opener.chaos(chaos, "h2")
        for index in range(60):
            exchange = connection.submit("GET", f"/{index}", [(f"x-{index}", "y" * index)])
            assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (200, b"hello world")
            settings = connection.settings()
            assert settings["initial_window_size"] == exchange.stream_id * 1000
            assert settings["max_frame_size"] == 16384 + exchange.stream_id
            assert connection.capacity == 1 + exchange.stream_id % 5
