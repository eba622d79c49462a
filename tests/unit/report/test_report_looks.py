"""What a report says of a run that ends once it is decided."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from synthetic import labs, races
from trilane.lab.analysis import looks, paired
from trilane.lab.model.lab import LabResult
from trilane.report import html, pages, strip, tables, terminal, view

SAID = "decided at the first of four looks, after 10 of at most 30 blocks; intervals 99.3 %"

TWO = {"h1": 1.0, "h2": 1.5}


def decided() -> LabResult:
    """A race that ended at its first look."""
    factors, plan = {"h1": 1.0, "h2": 1.5, "h3": 0.6}, looks.planned(30)
    whole = races.race(factors, blocks=30, looks=plan, histogram=True)
    upto = [sample for sample in whole.samples if sample.block < 10]
    seen = races.race(factors, blocks=30, looks=plan, samples=upto)
    return LabResult.of_race(paired.compare(seen))


def printed(made: LabResult, width: int) -> str:
    stream = io.StringIO()
    terminal.show(made, Console(file=stream, width=width, color_system=None), verbose=True)
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_the_terminal_says_which_look_ended_it(width: int) -> None:
    said = printed(decided(), width)
    assert SAID in " ".join(said.split())
    assert "95 %" not in said
    assert max(map(len, said.splitlines())) <= width


def test_the_page_says_it_and_shows_no_blocks_that_were_not_needed() -> None:
    page = re.sub(r"\s+", " ", html.render(decided()))
    assert SAID.capitalize() in page
    assert "95 %" not in page
    assert "10 of 10 blocks in random order" in page
    assert {len(row.blocks) for row in strip.rows(decided().points[0].comparison)} == {10}


def test_tables_and_pages_say_the_level() -> None:
    made = labs.lab((None, races.race(TWO, blocks=10, looks=looks.planned(24))))
    level = view.level(made)
    assert level == "99 %"
    assert f"{level} intervals" in tables.markdown(made)
    assert f"intervals are {level};" in pages.measured(made)


def test_points_that_ended_at_different_looks_have_different_levels() -> None:
    plan = looks.planned(30)
    made = labs.lab(
        (1.0, races.race(TWO, blocks=10, looks=plan)), (2.0, races.race(TWO, blocks=14, looks=plan))
    )
    assert view.level(made) == "99.1 % to 99.3 %"
