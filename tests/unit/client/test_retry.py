"""What is sent again, and when."""

from __future__ import annotations

import pytest

from trilane.client.errors import (
    ConnectionClosed,
    ConnectionRefused,
    Error,
    GoAway,
    ReadTimeout,
    StreamReset,
)
from trilane.client.retry import MOST_ATTEMPTS, asks_elsewhere, misdirected, pause

REFUSED = StreamReset("refused", error_code=7, retryable=True)


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
    assert (pause(error, method, 1, replayable=replayable) is not None) == again


def test_attempts_end_and_become_slower() -> None:
    pauses = [pause(REFUSED, "GET", sent, replayable=True) for sent in range(1, MOST_ATTEMPTS + 1)]
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
    asked = [asks_elsewhere(sent, replayable=True) for sent in range(1, MOST_ATTEMPTS + 1)]
    assert asked == [True] * (MOST_ATTEMPTS - 1) + [False]
    assert not asks_elsewhere(1, replayable=False)
