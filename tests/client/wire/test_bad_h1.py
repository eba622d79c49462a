"""HTTP/1.1 servers that give no end of anything: an error, in little memory.

Each rule that a server may break is in `tests/conformance`.
"""

from __future__ import annotations

import pytest

from peers.chaos import H1, reset_at_accept, serve
from trilane.client import errors

from .memory import little_memory
from .opening import WAIT_S, Opener, get


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


@pytest.mark.parametrize("name", ["endless head", "endless trailers"])
def test_fields_without_end_are_refused(opener: Opener, name: str) -> None:
    with little_memory(), serve(H1[name][0]) as chaos:
        connection = opener.chaos(chaos)
        exchange = get(connection, "/")
        # It fails in the same way however often it is asked.
        for _ in range(2):
            with pytest.raises(errors.LimitExceeded) as caught:
                exchange.read(timeout=WAIT_S)
            assert caught.value.stream_id == 1
            assert not caught.value.retryable
        assert connection.is_closing
        with pytest.raises(errors.Error) as refused:
            get(connection, "/")
        assert refused.value.retryable


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
