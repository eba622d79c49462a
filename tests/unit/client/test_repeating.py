"""What is sent again, and when."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from trilane.client._flow.repeating import MOST_ATTEMPTS, failed, is_proof, passes_over
from trilane.client._flow.request import Request
from trilane.client.errors import (
    ConnectionClosed,
    ConnectionRefused,
    Error,
    Full,
    GoAway,
    ReadTimeout,
    StreamReset,
)

REFUSED = StreamReset("refused", error_code=7, retryable=True)
GET = Request("GET", "/", "a")


def _request(method: str, *, replayable: bool = True) -> Request:
    """A request, of whose content a piece may have been taken that cannot be had again."""
    request = Request(method, "/", "a", content=b"" if replayable else iter([b"x"]))
    if request.upload is not None:
        next(iter(request.upload.blocks()))
    return request


def _failed(
    error: Error, request: Request, attempts: int = 1, *, sent: bool = True
) -> float | None:
    """The pause before it is sent again, whatever the connection was."""
    pool: Any = Mock()
    return failed(pool, Mock(), error, request, attempts, sent=sent)


@pytest.mark.parametrize(
    ("error", "method", "replayable", "again"),
    [
        (REFUSED, "GET", True, True),
        (REFUSED, "POST", True, True),
        (REFUSED, "POST", False, False),
        (GoAway("gone", retryable=True), "PATCH", True, True),
        (ConnectionClosed("closed", retryable=True), "GET", True, True),
        (ConnectionClosed("closed", retryable=True), "DELETE", True, True),
        (ConnectionClosed("closed", retryable=True), "POST", True, False),
        (ConnectionClosed("closed"), "GET", True, False),
        (StreamReset("internal", error_code=2), "GET", True, False),
        (ReadTimeout("late"), "GET", True, False),
        (ConnectionRefused("no", retryable=True), "GET", True, False),
    ],
)
def test_what_is_sent_again(error: Error, method: str, replayable: bool, again: bool) -> None:
    request = _request(method, replayable=replayable)
    assert (_failed(error, request) is not None) == again


def test_what_a_connection_had_no_room_for_is_proved_unsent() -> None:
    assert is_proof(Full("full"))


def test_what_was_given_to_no_connection_is_sent_again_by_any_method() -> None:
    closed = ConnectionClosed("closed", retryable=True)
    assert _failed(closed, _request("POST"), sent=False) == 0.0


@pytest.mark.parametrize(
    ("error", "sent", "broken"),
    [
        (ConnectionClosed("closed"), True, 1),
        (ConnectionClosed("closed"), False, 0),
        (REFUSED, True, 0),
    ],
)
def test_an_alternative_is_broken_that_ends_under_a_request(
    error: Error, sent: bool, broken: int
) -> None:
    pool: Any = Mock()
    failed(pool, Mock(), error, GET, 1, sent=sent)
    assert pool.broken.call_count == broken


def test_attempts_end_and_become_slower() -> None:
    pauses = [_failed(REFUSED, GET, sent) for sent in range(1, MOST_ATTEMPTS + 1)]
    assert pauses[:2] == [0.0, 0.0]
    assert pauses[-1] is None
    waits = [wait for wait in pauses if wait is not None]
    assert len(waits) == MOST_ATTEMPTS - 1
    assert waits == sorted(waits)
    assert sum(waits) < 3.0


def test_only_an_alternative_is_given_up_for_what_it_says() -> None:
    pool: Any = Mock()
    alternative, origin = Mock(), Mock(alternative=None)
    assert passes_over(pool, alternative, 421, GET, 1)
    pool.misdirected.assert_called_once_with(alternative)
    assert not passes_over(pool, origin, 421, GET, 1)
    assert not passes_over(pool, alternative, 200, GET, 1)
    assert pool.misdirected.call_count == 1


def test_other_places_are_asked_as_often_as_the_same_one() -> None:
    pool: Any = Mock()
    asked = [passes_over(pool, Mock(), 421, GET, sent) for sent in range(1, MOST_ATTEMPTS + 1)]
    assert asked == [True] * (MOST_ATTEMPTS - 1) + [False]
    assert not passes_over(pool, Mock(), 421, _request("POST", replayable=False), 1)
