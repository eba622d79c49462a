"""Ratios over networks: where two settings are varied, a map of each pair of arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilane.lab.model.comparison import Better, Ratio
from trilane.lab.model.lab import LabResult
from trilane.report import cells, view

NETWORK = "network"
"""The key of a sweep over networks."""


@dataclass(frozen=True, slots=True)
class Map:
    """The deciding measure of a pair of arms on all networks."""

    key: str
    """Of the pair, for names of charts."""
    title: str
    better: Better
    down: str
    """The setting that varies from row to row; empty where only one is varied."""
    across: str
    """The setting that varies from column to column."""
    rows: list[str]
    columns: list[str]
    cells: dict[tuple[str, str], Ratio | None]
    """By row and column; None where nothing is known."""

    @property
    def corner(self) -> str:
        """What stands above the names of the rows."""
        return f"{self.down} ↓ {self.across} →" if self.down else f"{self.across} →"


def maps(lab: LabResult) -> list[Map]:
    """A map for each pair that was announced, else of each arm to the baseline.

    None where the sweep is not over networks, more than two settings of them vary, or nothing was
    measured.
    """
    if lab.sweep is None or lab.sweep.key != NETWORK:
        return []
    values = lab.sweep.values
    settings = [dict(_setting(part) for part in str(value).split(",")) for value in values]
    varied = [
        name
        for name in dict.fromkeys(name for each in settings for name in each)
        if len({each.get(name) for each in settings}) > 1
    ]
    if not 1 <= len(varied) <= 2:
        return []
    down, across = (varied[0], varied[1]) if len(varied) == 2 else ("", varied[0])
    places = [(each.get(down, ""), each.get(across, "")) for each in settings]
    rows, columns = (list(dict.fromkeys(place[way] for place in places)) for way in (0, 1))
    titles = view.lab_titles(lab)
    shown = [each for point in lab.points for each in view.measures(point.comparison)[:1]]
    if not shown:
        return []
    measure = shown[0]
    found = [_ratios(lab, number, measure.name) for number in range(len(lab.points))]
    by_value = dict(zip((point.value for point in lab.points), found, strict=True))
    pairs = list(dict.fromkeys(pair for ratios in found for pair in ratios))
    return [
        Map(
            f"{arm}-{to}",
            f"{measure.label}: {titles.get(arm, arm)} ÷ {titles.get(to, to)}",
            measure.better,
            down,
            across,
            rows,
            columns,
            {
                place: by_value.get(value, {}).get((arm, to))
                for place, value in zip(places, values, strict=True)
            },
        )
        for arm, to in pairs
    ]


def _setting(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return name, value or "yes"


def _ratios(lab: LabResult, point: int, measure: str) -> dict[tuple[str, str], Ratio]:
    comparison = lab.points[point].comparison
    announced = [row for question in comparison.announced for row in question.pairs]
    return {
        (row.arm, row.to): row
        for row in announced or comparison.ratios
        if row.measure == measure and row.ratio is not None
    }


def lines(found: Map) -> list[list[str]]:
    """The rows of a map as texts, each after its name; `ratio` where the map has one row only."""
    return [
        [row or "ratio", *(cells.said(found.cells.get((row, column))) for column in found.columns)]
        for row in found.rows
    ]


def head(found: Map) -> Sequence[str]:
    """The names of the columns, the corner first."""
    return [found.corner, *found.columns]
