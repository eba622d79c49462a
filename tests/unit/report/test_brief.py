"""An experiment on the terminal in thirty lines; `-v` prints the rest."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from synthetic import calls, labs
from trilane.lab.model.lab import LabResult
from trilane.report import brief, terminal
from unit.report.test_maps import networks

KINDS = {
    "bookstore": labs.bookstore,
    "strategies": labs.strategies,
    "versions": labs.versions,
    "empty": labs.empty,
    "networks": networks,
    "calls": calls.result,
}


def printed(made: LabResult, width: int = 80, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None)
    terminal.show(made, console, verbose=verbose)
    return stream.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_an_experiment_takes_thirty_lines_and_names_what_is_left_out(kind: str) -> None:
    made = KINDS[kind]()
    shown = printed(made)
    assert len(shown.splitlines()) <= brief.MOST
    assert shown[2:].startswith(made.said.line[:60])
    assert ("\nMore with -v: " in shown) == (kind != "empty")
    whole = printed(made, verbose=True)
    assert "More with -v" not in whole
    assert whole.splitlines()[0] == shown.splitlines()[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [40, 55])
def test_a_narrow_terminal_is_kept_to(kind: str, width: int) -> None:
    shown = printed(KINDS[kind](), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown


def test_of_many_arms_the_best_stand_beside_the_baseline_with_their_ratio() -> None:
    for width in (40, 80):
        shown = printed(labs.bookstore(), width)
        assert shown.index("0.14×") < shown.rindex("▼ 0.14×")
        assert re.search(r"\d+ more\s+arms", shown)
        assert "noise floor" in shown
    assert re.search(r"requests, HTTP/1.1, serial +10\.2", printed(labs.bookstore()))


def test_what_decides_the_exit_code_is_printed_and_what_failed() -> None:
    shown = printed(labs.bookstore(12))
    assert "0.10–0.50×: breached, 0.90× (0.85–0.95)" in shown
    assert "failed" in shown
    assert "2 skipped arms" in shown


def test_a_sweep_has_a_line_for_each_point_and_its_crossings() -> None:
    shown = printed(labs.strategies(), 200)
    for label in ("100 requests: ✓", "1,000 requests: ✓", "30,000 requests: ✓"):
        assert f"\n{label}" in shown
    assert "cross at 6,200 requests" in shown
    assert "▲" not in shown


def test_maps_stand_for_the_networks_with_what_their_marks_mean() -> None:
    shown = printed(networks())
    assert shown.count("rtt ↓ loss →") == 2
    assert shown.count("▲ higher ▼ lower") == 1


def test_a_point_that_finds_no_room_is_counted() -> None:
    shown = printed(labs.strategies(tuple(range(100, 3000, 100))))
    assert len(shown.splitlines()) <= brief.MOST
    more = re.search(r"(\d+) more points", shown)
    assert more is not None
    assert int(more[1]) + len(re.findall(r"^[\d,]+ requests: ", shown, re.MULTILINE)) == 29
