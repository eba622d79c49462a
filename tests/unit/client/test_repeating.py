"""What is sent again, and when."""

from __future__ import annotations

import pytest

from trilane.client._flow.repeating import MOST_ATTEMPTS, asks_elsewhere, breaks, misdirected, pause
from trilane.client._flow.request import Request
from trilane.client.errors import (
    ConnectionClosed,
    ConnectionRefused,
    Error,
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
    assert (pause(error, request, 1) is not None) == again


def test_what_was_given_to_no_connection_is_sent_again_by_any_method() -> None:
    closed = ConnectionClosed("closed", retryable=True)
    assert pause(closed, _request("POST"), 1, sent=False) == 0.0
    assert not breaks(closed, sent=False)
    assert breaks(closed, sent=True)
    assert not breaks(REFUSED, sent=True)


def test_attempts_end_and_become_slower() -> None:
    pauses = [pause(REFUSED, GET, sent) for sent in range(1, MOST_ATTEMPTS + 1)]
    assert pauses[:2] == [0.0, 0.0]
    assert pauses[-1] is None
    waits = [wait for wait in pauses if wait is not None]
    assert len(waits) == MOST_ATTEMPTS - 1
    assert waits == sorted(waits)
    assert sum(waits) < 3.0


def test_only_an_alternative_is_given_up_for_what_it_says() -> None:
    assert misdirected(421, alternative=True)
    assert not misdirected(421, alternative=False)
    assert not misdirected(200, alternative=True)


def test_other_places_are_asked_as_often_as_the_same_one() -> None:
    asked = [asks_elsewhere(GET, sent) for sent in range(1, MOST_ATTEMPTS + 1)]
    assert asked == [True] * (MOST_ATTEMPTS - 1) + [False]
    assert not asks_elsewhere(_request("POST", replayable=False), 1)
