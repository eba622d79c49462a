"""Standard streams that lack our signs."""

from __future__ import annotations

import io
import sys

import pytest

from trilane.cli import stdio


def test_signs_that_an_encoding_lacks_have_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", errors="strict"))
    stdio.prepare()
    print("HTTP/2 won: 2.4× HTTP/1.1 (1.9–2.8), p99 ≤ 10 µs … \N{SNOWMAN}")
    sys.stdout.flush()
    assert raw.getvalue() == b"HTTP/2 won: 2.4x HTTP/1.1 (1.9-2.8), p99 <= 10 us ... ?\n"


def test_what_an_encoding_has_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8"))
    stdio.prepare()
    print("2.4× (1.9–2.8)")
    sys.stdout.flush()
    assert raw.getvalue().decode() == "2.4× (1.9–2.8)\n"
