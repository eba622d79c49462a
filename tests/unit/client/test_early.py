"""What a server answers while it is still being sent to: it is taken, kept, and given first."""

from __future__ import annotations

from typing import Any

import pytest

from trilane.client import _early as early
from trilane.client._early import Early
from trilane.client.errors import LimitExceeded, ReadTimeout, WriteTimeout

LIMIT = 40
"""Bytes that a connection keeps before it reads no more."""


class Echo:
    """An exchange with a server that sends back what it gets, and takes no more where that lies."""

    stream_id = 3

    def __init__(self) -> None:
        self.content = bytearray()

    @property
    def unread(self) -> int:
        return len(self.content)

    def write(self, block: memoryview, _timeout: float | None) -> None:
        if self.unread >= LIMIT:
            raise WriteTimeout("nothing is taken")
        self.content += block

    def read1(self, amount: int, _timeout: float | None) -> bytes:
        end = len(self.content) if amount < 0 else amount
        piece = bytes(self.content[:end])
        del self.content[:end]
        return piece

    read = read1

    def readinto(self, view: memoryview, timeout: float | None) -> int:
        piece = self.read1(view.nbytes, timeout)
        view[: len(piece)] = piece
        return len(piece)


@pytest.fixture(autouse=True)
def _little_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "_MUCH", 10)


def _sent(most: int | None = None) -> Early:
    """All letters three times, of which the last four are still with the exchange."""
    exchange: Any = Echo()
    sending = Early(exchange, "http://a/", most)
    for at in range(0, len(TEXT), 4):
        sending.write(TEXT[at : at + 4], 1.0)
    return sending


TEXT = b"abcdefghijklmnopqrstuvwxyz" * 3


@pytest.mark.parametrize("amount", [1, 5, 100, -1])
def test_what_came_early_is_given_first(amount: int) -> None:
    sending = _sent()
    assert sending.settled is sending
    assert sending.unread == len(TEXT)
    assert sending.stream_id == 3
    found = b""
    while piece := sending.read1(amount, 1.0):
        found += piece
        assert sending.unread == len(TEXT) - len(found)
    assert found == TEXT
    assert isinstance(sending.settled, Echo)


def test_it_is_read_whole_and_into_buffers() -> None:
    sending = _sent()
    buffer = memoryview(bytearray(7))
    count = sending.readinto(buffer, 1.0)
    found = bytes(buffer[:count])
    assert found + sending.read(-1, 0) == TEXT
    assert sending.readinto(buffer, 0) == 0
    sending = _sent()
    found = b""
    while count := sending.readinto(buffer, 1.0):
        found += buffer[:count]
    assert found == TEXT


@pytest.mark.parametrize("amount", [1, 13, 50, 76, 1000])
def test_it_is_read_by_amounts(amount: int) -> None:
    sending = _sent()
    found = [sending.read(amount, 0) for _ in range(0, len(TEXT), amount)]
    assert b"".join(found) == TEXT
    assert {len(piece) for piece in found[:-1]} <= {amount}
    assert sending.read(amount, 0) == b""


@pytest.mark.parametrize("amount", [-1, 75])
def test_a_read_that_fails_takes_nothing(amount: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(_exchange: Echo, _amount: int, _timeout: float | None) -> bytes:
        raise ReadTimeout("late")

    sending = _sent()
    with monkeypatch.context() as patched:
        patched.setattr(Echo, "read", late)
        with pytest.raises(ReadTimeout):
            sending.read(amount, 1.0)
        # These are there.
        assert sending.read(5, 1.0) == TEXT[:5]
    assert sending.read(-1, 1.0) == TEXT[5:]


def test_a_large_block_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what is answered to its first part could not be taken before its last is sent."""
    monkeypatch.setattr(early, "BLOCK", 4)
    exchange: Any = Echo()
    sending = Early(exchange, "http://a/", None)
    sending.write(TEXT, 1.0)
    assert sending.read(-1, 0) == TEXT


def test_more_than_may_be_kept_is_refused() -> None:
    assert not _sent(len(TEXT)).is_over
    with pytest.raises(LimitExceeded, match=r"http://a/.*max_content=30 .*AsyncClient"):
        _sent(30)
