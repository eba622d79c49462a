"""Arms that were compared with each other, beside all with the baseline."""

from __future__ import annotations

from dataclasses import dataclass

from trilane.lab.model.comparison import Better, Comparison, Finding, Ratio
from trilane.report import numbers, text, view


@dataclass(frozen=True, slots=True)
class Cell:
    """The ratio of a measure."""

    said: str
    """With its interval and the sign of what was found."""
    tone: str
    """good, bad or plain."""
    finding: Finding | None
    """A key of `numbers.FINDINGS`; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Row:
    """A pair."""

    label: str
    cells: list[Cell]


def rows(comparison: Comparison, most: int) -> list[Row]:
    """One row per pair, with the first so many measures; none where none were asked for."""
    found = {(row.arm, row.to, row.measure): row for row in comparison.pairs}
    titles = view.titles(comparison)
    measures = view.measures(comparison)[:most]
    return [
        Row(
            f"{titles[arm]} ÷ {titles[to]}",
            [_cell(found.get((arm, to, measure.name)), measure.better) for measure in measures],
        )
        for arm, to in dict.fromkeys((arm, to) for arm, to, _ in found)
    ]


def _cell(row: Ratio | None, better: Better) -> Cell:
    if row is None or row.ratio is None:
        return Cell(text.NONE, "plain", None)
    finding = row.finding
    said = f"{numbers.MARKS[finding]} {text.ratio(row.ratio, row.low, row.high)}"
    return Cell(said, numbers.tone(finding, better), finding)
