"""What the engine says of a broken peer reaches that peer, however much of its own is unread."""

from __future__ import annotations

import pytest

from peers.authority import Leaf
from peers.broken import (
    LIMIT_S,
    PROTOCOL_ERROR,
    PUSH,
    VIOLATIONS,
    broken,
    security,
    violates,
)

from .loading import load


@pytest.mark.parametrize(("violation", "code"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_goaway_is_read_though_much_is_unread(violation: bytes, code: int) -> None:
    with broken(violates(violation)) as (port, heard):
        run = load("--h2c", "-c", "1", "-n", "1", f"http://127.0.0.1:{port}/")
        assert heard.over.wait(LIMIT_S)
    assert run.code == 4, run
    assert set(run.checked["requests"]["failures"]) <= {"protocol", "limit"}
    assert run.checked["requests"]["failed"] == 1
    assert heard.error is None
    assert heard.goaway == [code]


def test_goaway_and_close_notify_are_read_over_tls(leaf: Leaf) -> None:
    with broken(violates(PUSH), security(leaf)) as (port, heard):
        url = f"https://localhost:{port}/"
        run = load("--h2", "--cacert", str(leaf.ca), "-c", "1", "-n", "1", url)
        assert heard.over.wait(LIMIT_S)
    assert set(run.checked["requests"]["failures"]) == {"protocol"}
    # An end without close_notify would be an SSLError.
    assert heard.error is None
    assert heard.goaway == [PROTOCOL_ERROR]
