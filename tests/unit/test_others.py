"""Tests that `make test` leaves out are told of, whichever process collected them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from others import MARK, Left


def deselected(left: Left, expression: str, *marks: str) -> None:
    config = SimpleNamespace(getoption={"markexpr": expression}.get)
    items: Any = [
        SimpleNamespace(config=config, get_closest_marker={mark: mark}.get) for mark in marks
    ]
    left.pytest_deselected(items)


def told(left: Left) -> list[str]:
    lines: list[str] = []
    reporter: Any = SimpleNamespace(write_line=lines.append)
    left.pytest_terminal_summary(reporter)
    return lines


def finish(left: Left, config: Any) -> None:
    session: Any = SimpleNamespace(config=config)
    left.pytest_sessionfinish(session)


@pytest.mark.parametrize("processes", [0, 2])
def test_what_is_left_out_is_counted_once(processes: int) -> None:
    shown = Left()
    for left in [Left() for _ in range(processes)] or [shown]:
        deselected(left, f"not {MARK}", MARK, "other", MARK)
        deselected(left, f"not {MARK}", MARK)
        worker = SimpleNamespace(workeroutput={})
        finish(left, worker)
        if processes:
            shown.pytest_testnodedown(worker)
    # One that ended before it had collected.
    shown.pytest_testnodedown(SimpleNamespace())
    assert told(shown) == ["3 tests of what others wrote were left to `make test-all`"]


def test_nothing_is_told_where_nothing_is_left() -> None:
    left = Left()
    # By `-k`, which is whoever types it.
    deselected(left, "", MARK)
    finish(left, SimpleNamespace())
    assert told(left) == []
