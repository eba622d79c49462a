"""HTTP/1.1 servers that break the rules: the right error, soon, and in little memory."""

from __future__ import annotations

import functools
import http.client
from collections.abc import Callable

import pytest

from peers.chaos import H1, Script, close_at_accept, every, reset_at_accept, serve
from trilane.client import errors

from .memory import little_memory
from .opening import WAIT_S, Opener, fetch, get

SHORT_S = 0.3
"""How long the tests wait for what never comes."""

TIMEOUT = errors.ReadTimeout
CLOSED = errors.ConnectionClosed
BODY = errors.IncompleteBody
BROKEN = errors.RemoteProtocolError
LIMIT = errors.LimitExceeded

# Name of the misbehaviour → where it shows, and as what: one of each kind, of which the conformance
# suite has all.
EXPECTED: dict[str, tuple[str, type[errors.Error]]] = {
    "close at accept": ("head", CLOSED),
    "silent after accept": ("head", TIMEOUT),
    "close mid-head": ("head", CLOSED),
    "reset mid-body": ("read", BODY),
    "silent mid-body": ("read", TIMEOUT),
    "endless head": ("head", LIMIT),
    "endless trailers": ("read", LIMIT),
    "garbage": ("head", BROKEN),
}


def test_a_reset_at_once_is_seen_while_connecting_or_in_place_of_the_response(
    opener: Opener,
) -> None:
    def try_it(base: str) -> None:
        get(opener.url(base, "h1"), "/").head(WAIT_S)

    with serve(reset_at_accept) as chaos:
        for _ in range(10):
            with pytest.raises(ConnectionError) as caught:
                try_it(chaos.base)
            assert isinstance(caught.value, errors.ConnectFailed | errors.ConnectionClosed)


@pytest.mark.parametrize("name", EXPECTED)
def test_misbehaviour_is_told_as_what_it_is(opener: Opener, name: str) -> None:
    where, kind = EXPECTED[name]
    script, _ = H1[name]
    with little_memory(), serve(script) as chaos:
        connection = opener.chaos(chaos)
        exchange = get(connection, "/")
        wait = SHORT_S if kind is TIMEOUT else WAIT_S
        wanted: Callable[[float], object] = exchange.head
        if where == "read":
            assert exchange.head(WAIT_S) == 200
            wanted = functools.partial(exchange.read, -1)
        with pytest.raises(errors.Error) as caught:
            wanted(wait)
        assert type(caught.value) is kind
        assert caught.value.stream_id == 1
        assert not caught.value.retryable
        assert str(caught.value)
        if kind is not TIMEOUT:
            assert connection.is_closing
            with pytest.raises(errors.Error) as refused:
                get(connection, "/")
            assert refused.value.retryable
            # It fails in the same way however often it is asked.
            with pytest.raises(kind):
                exchange.read(timeout=WAIT_S)


def test_what_never_ends_waits_for_its_reader(opener: Opener) -> None:
    with serve(H1["endless body"][0]) as chaos:
        exchange = get(opener.chaos(chaos), "/")
        assert exchange.head(WAIT_S) == 200
        with little_memory():
            taken = 0
            while taken < 64 << 20:
                taken += len(exchange.read1(1 << 20, WAIT_S))
            assert exchange.unread < 1 << 20
        exchange.cancel()


def test_what_came_before_the_end_can_be_read(opener: Opener) -> None:
    with serve(H1["close mid-body"][0]) as chaos:
        exchange = get(opener.chaos(chaos), "/")
        with pytest.raises(http.client.IncompleteRead):
            exchange.read(timeout=WAIT_S)
        assert exchange.read1(timeout=WAIT_S) == b"hello"
        with pytest.raises(errors.IncompleteBody):
            exchange.read1(timeout=WAIT_S)


def test_a_head_that_comes_in_pieces_may_be_waited_for_again(opener: Opener) -> None:
    with serve(H1["one byte per second"][0]) as chaos:
        exchange = get(opener.chaos(chaos), "/")
        for _ in range(3):
            with pytest.raises(errors.ReadTimeout):
                exchange.head(0.1)
        assert not exchange.complete


@pytest.mark.parametrize("script", [close_at_accept, reset_at_accept], ids=["close", "reset"])
def test_a_kept_connection_that_closes_is_likely_retryable(opener: Opener, script: Script) -> None:
    with serve(every(1, script)) as chaos:
        connection = opener.chaos(chaos)
        assert fetch(connection, "/") == (200, b"hello world")
        # Either the end is seen before the request leaves, or in place of its response.
        with pytest.raises(errors.ConnectionClosed) as caught:
            get(connection, "/").head(WAIT_S)
        assert caught.value.retryable
        assert not connection.is_alive()
