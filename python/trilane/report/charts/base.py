"""What all charts share: one figure, its size, its axes, the colours of its arms."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import altair as alt

from trilane.lab.model.comparison import JudgedArm, Summary
from trilane.lab.model.documents import Json
from trilane.report import formatting, palette

GREY = "#8a8f98"
# Pixels: of a chart, of one that stands beside two others on a page, and of letters. A phone shows
# four fifths of the first, and the second as it is.
WIDTH, SMALL, FONT_SIZE = 440, 340, 12
_LABEL = 27
_LINE = 14
# With a precision of its own: on a linear axis d3 else takes as few digits as tell the ticks
# apart, and writes 250 as 3e+2.
PLAIN = ",.9~g"
# Pixels of a letter, and of a symbol with its gaps, in a legend.
_LETTER = 7
_SYMBOL = 30
# Left of the plot, and so of the legend, for the labels of rows.
ROW_NAMES = 190
# The same for the numbers of an axis and its title.
AXIS = 60
# Beyond the ends of intervals, as a share of the height; and what a logarithmic height spans at
# least.
_ROOM = 0.04
_WIDE = 8


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the report."""

    name: str
    """Unique in its report; also the name of its file."""
    title: str
    note: str
    spec: Json

    @property
    def small(self) -> bool:
        """Whether three of them stand side by side."""
        return bool(self.spec["width"] == SMALL)


class Look:
    """Labels, colours and shapes of the arms of one chart."""

    def __init__(
        self,
        arms: Sequence[JudgedArm],
        *,
        among: Sequence[JudgedArm] | None = None,
        margin: int = AXIS,
    ) -> None:
        """`among`: all arms of the report, whose colours these arms keep.

        `margin`: pixels left of the plot, and so of the legend.
        """
        self._margin = margin
        self.arms = list(arms)
        # A part of many arms, such as one client's, has colours of its own.
        own = among is None or len(among) > palette.MANY >= len(arms)
        coloured = arms if own or among is None else among
        hues = palette.hues(coloured)
        self._hue = {arm.name: hues[arm.name] for arm in arms}
        self._of_versions = len(coloured) > palette.MANY
        here = set(self._hue.values())
        self._hues = [hue for hue in dict.fromkeys(hues.values()) if hue in here]
        self.labels = {arm.name: _label(arm) for arm in arms}
        self.titles = {arm.name: arm.title for arm in arms}
        self.lines = max((label.count("\n") + 1 for label in self.labels.values()), default=1)

    def fields(self, arm: str) -> Json:
        """What every row of this arm's data carries."""
        return {
            "arm": self.labels[arm],
            "title": self.titles[arm],
            "hue": self._hue[arm].entry,
        }

    def rows(self) -> alt.Y:
        """One row per arm, named at the left."""
        return alt.Y(
            "arm:N",
            title=None,
            sort=[self.labels[arm.name] for arm in self.arms],
            axis=row_axis(),
        )

    def colour(self, *, legend: bool = True) -> alt.Color:
        """Colour of the arm."""
        return alt.Color(
            "hue:N",
            scale=self._scale([hue.colour for hue in self._hues]),
            legend=self._legend() if legend else None,
        )

    def shape(self, *, legend: bool = True) -> alt.Shape:
        """Shape of the arm's points: the second channel beside colour."""
        return alt.Shape(
            "hue:N",
            scale=self._scale([hue.shape for hue in self._hues]),
            legend=self._legend() if legend else None,
        )

    def legend_of_versions(self) -> bool:
        """Whether a legend says something that the rows do not."""
        return self._of_versions and len(self._hues) > 1

    def _scale(self, values: Sequence[str]) -> alt.Scale:
        return alt.Scale(domain=[hue.entry for hue in self._hues], range=values)

    def _legend(self) -> alt.Legend:
        return legend([hue.entry for hue in self._hues], margin=self._margin)


def _label(arm: JudgedArm) -> str:
    # Shown, never ranked: no chart may let an invalid arm look like the others.
    return wrapped(arm.title) + ("\n✗ invalid" if arm.validity.verdict == "invalid" else "")


def plain(name: str) -> str:
    """A name that can stand in the name of a file and of an element of a page."""
    return re.sub(r"[^a-z0-9_.]+", "-", name.lower()).strip("-")


def wrapped(label: str) -> str:
    """A label in lines short enough to stand beside a chart on a phone."""
    return "\n".join(textwrap.wrap(label, _LABEL, break_long_words=False)) or label


def row_axis() -> alt.Axis:
    """The axis of named rows."""
    return alt.Axis(
        labelExpr="split(datum.label, '\\n')",
        labelLimit=240,
        labelLineHeight=_LINE,
        labelPadding=6,
        labelOverlap=False,
        domain=False,
        ticks=False,
    )


def row_height(lines: int, bars: int = 1) -> int:
    """Pixels of one row with so many lines of label and so many marks below each other."""
    return max(lines * _LINE + 10, bars * 13 + 9)


def log_axis(low: float, high: float) -> tuple[alt.Scale, alt.Axis]:
    """Scale and axis of positive numbers over a wide range."""
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    return scale, alt.Axis(format=",~g", values=log_ticks(low, high), labelOverlap=True)


class _Rows(alt.Data):
    """Rows that Altair hands on: it else copies and walks through all of them at every step."""

    def __deepcopy__(self, _memo: object) -> _Rows:
        return self

    def to_dict(self, *_: object, **__: object) -> Json:
        return dict(self._kwds)


def data(rows: Iterable[Json]) -> alt.Chart:
    """A chart of these rows, still without marks."""
    kept: alt.Data = _Rows(values=list(rows))  # type: ignore[no-untyped-call]
    return alt.Chart(kept)


def legend(entries: Iterable[str], margin: int = AXIS) -> alt.Legend:
    """A legend above the chart, in as many columns as its place on the page has room for.

    `margin`: pixels left of the plot.
    """
    widest = max(map(len, entries), default=0) * _LETTER + _SYMBOL
    return alt.Legend(
        orient="top",
        symbolOpacity=1,
        title=None,
        labelLimit=280,
        columns=max(1, (WIDTH - margin) // widest),
    )


def parts(arms: Sequence[JudgedArm]) -> list[list[JudgedArm]]:
    """Arms in as many parts as it takes for each to have colours that can be told apart."""
    return [list(arms[at : at + palette.MANY]) for at in range(0, len(arms), palette.MANY)]


def ratio_axis(field: str, ends: Iterable[float]) -> alt.X:
    """A logarithmic axis of ratios that has room for these and for 1."""
    known = list(ends)
    low, high = min([*known, 0.95]) / 1.03, max([*known, 1.05]) * 1.03
    return alt.X(
        field,
        title=None,
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(
            values=ratio_ticks(low, high),
            labelExpr="format(datum.value, ',~g') + '×'",
            labelOverlap=True,
        ),
    )


def one() -> alt.Chart:
    """The line at the ratio 1."""
    rule: alt.Chart = data([{"one": 1}]).mark_rule(color=GREY).encode(alt.X("one:Q"))
    return rule


def said(row: Json, unit: str) -> str:
    """What a mark says when pointed at: whose a median is, and its interval."""
    value = " ".join(part for part in (formatting.number(row["median"]), unit) if part)
    ends = "" if row["low"] is None else f" ({formatting.interval(row['low'], row['high'])})"
    return f"{row['title']}: {value}{ends}"


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios between the ends, denser the closer the ends are."""
    if high / low < 1.5:
        steps = [1 + 0.05 * step for step in range(-10, 11)]
    elif high / low < 8:
        steps = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5]
    else:
        return log_ticks(low, high)
    return [round(step, 6) for step in steps if low <= step <= high]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between the ends, with 2 and 5 between them unless they would crowd."""
    digits = (1, 2, 5) if high / low < 200 else (1,)
    steps = [digit * 10.0**power for power in range(-9, 10) for digit in digits]
    return [round(step, 9) for step in steps if low <= step <= high]


def height_scale(ends: Sequence[float], *, log: bool) -> alt.Scale:
    """A scale upwards with room beyond the ends of intervals, which else would touch the axis."""
    low, high = min(ends), max(ends)
    if not log:
        return alt.Scale(type="linear", domain=[0, high * (1 + _ROOM)], nice=True)
    room = max(high / low, _WIDE) ** _ROOM
    return alt.Scale(type="log", domain=[low / room, high * room], nice=False)


def scaled(rows: Iterable[Json], unit: str, keys: Sequence[str]) -> tuple[list[Json], str]:
    """Rows with these keys in one readable unit, and that unit."""
    kept = list(rows)
    factor, name = formatting.scale((row[key] for row in kept for key in keys[:1]), unit)
    return [
        {**row, **{key: None if row[key] is None else row[key] / factor for key in keys}}
        for row in kept
    ], name


def interval(of: Summary) -> dict[str, float | None]:
    """Centre and ends of a measure, as rows of data carry them."""
    return {"median": of.median, "low": of.low, "high": of.high}


def whiskers(base: alt.Chart) -> alt.Chart:
    """Intervals of bars."""
    rules: alt.Chart = base.mark_rule(strokeWidth=2).encode(alt.X("low:Q"), alt.X2("high:Q"))
    return rules


def spec(chart: alt.Chart | Sequence[alt.Chart], height: int, width: int = WIDTH) -> Json:
    """The specification of a chart, or of layers.

    `width` is that of all of it, the names at its side included.
    """
    made = _layered(chart) if isinstance(chart, Sequence) else _plain(chart)
    # Numbers and lists as a file has them.
    made = cast("Json", json.loads(json.dumps(made)))
    made |= {"width": width, "height": height}
    made["autosize"] = {"type": "fit-x", "contains": "padding"}
    return made


def _layered(layers: Sequence[alt.Chart]) -> Json:
    """What `alt.layer` makes of them, which copies each of them several times."""
    parts = [_plain(layer) for layer in layers]
    made: Json = {"$schema": parts[0]["$schema"], "layer": parts}
    if all(part["data"] == parts[0]["data"] for part in parts):
        made["data"] = parts[0]["data"]
    for part in parts:
        del part["$schema"]
        if "data" in made:
            del part["data"]
    return made


def _plain(chart: alt.Chart) -> Json:
    # Checking a specification takes longer than making it; the tests check every kind of chart.
    made: Json = chart.to_dict(validate=False)
    made.pop("config", None)
    return made
