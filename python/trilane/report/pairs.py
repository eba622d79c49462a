"""What an experiment announced: arms compared with each other, beside all with the baseline."""

from __future__ import annotations

from dataclasses import dataclass

from trilane.lab.model.comparison import Better, Comparison, Finding, Ratio
from trilane.report import cells, formatting, view


@dataclass(frozen=True, slots=True)
class Cell:
    """The ratio of a measure."""

    said: str
    """With its interval and the sign of what was found."""
    tone: str
    """good, bad or plain."""
    finding: Finding | None
    """A key of `cells.FINDINGS`; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Row:
    """A pair."""

    label: str
    cells: list[Cell]


@dataclass(frozen=True, slots=True)
class Question:
    """One comparison by factor, or the pairs that were named one by one."""

    name: str
    """For people."""
    rows: list[Row]


def questions(comparison: Comparison, most: int) -> list[Question]:
    """The questions with their pairs, each with the first so many measures that have a value.

    There are none where nothing was measured.
    """
    titles = view.titles(comparison)
    measures = view.measures(comparison)[:most]
    made: list[Question] = []
    if not measures:
        return made
    for asked in comparison.announced:
        found = {(row.arm, row.to, row.measure): row for row in asked.pairs}
        rows = [
            Row(
                f"{titles[arm]} ÷ {titles[to]}",
                [_cell(found.get((arm, to, measure.name)), measure.better) for measure in measures],
            )
            for arm, to in dict.fromkeys((arm, to) for arm, to, _ in found)
        ]
        if rows:
            made.append(Question(formatting.capital(asked.name), rows))
    return made


def _cell(row: Ratio | None, better: Better) -> Cell:
    if row is None or row.ratio is None:
        return Cell(formatting.NONE, "plain", None)
    return Cell(cells.said(row), cells.tone(row.finding, better), row.finding)
